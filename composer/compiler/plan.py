"""What runs where, and why: the planner's result, as data that prints itself the same each time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from composer.catalog import ModelSignature
from composer.compiler.ir import Composition, Device, Member
from composer.compiler.plan_json import plan_to_dict
from composer.compiler.plan_text import render_plan
from composer.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class DeviceTopology:
    """The devices of a machine, real or stood in for, as data.

    `simulated` says that logical CPU devices stand in for the GPUs.
    """

    cpus: int = 1
    gpus: int = 0
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member, placed.

    Args:
        member: the member of the composition.
        devices: the device of each replica, in replica order; at least one.
        merge: where the replicas' outputs are joined.
        weights: the device the variables are moved to, or None where they stay as they are (`weights=keep`).
        signature: what is known of the model, None where nothing is.
        reason: in words, why the replicas are where they are.
    """

    member: Member
    devices: tuple[Device, ...]
    merge: Device
    weights: Device | None = None
    signature: ModelSignature | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """What one device carries; None where a member's size is not known."""

    device: Device
    replicas: tuple[str, ...]  # `member` or `member[replica_index]`
    parameters: int | None
    flops_per_step: int | None
    weight_bytes: int | None
    slot_bytes: int | None
    activation_bytes: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan.

    Example:
        >>> import composer
        >>> print(composer.plan("parallel(digits, wine x auto) on gpus=2 merge=gpu"))
        plan: 2 members on gpu:0 gpu:1
        merge=gpu:0 weights=keep fuse=auto jit=auto
        <BLANKLINE>
        members
          member  model   replicas     group  variables    parameters  FLOPs a row  why there
          digits  digits  gpu:0        -      as they are           ?            ?  the least loaded device
          wine    wine    gpu:0 gpu:1  -      as they are           ?            ?  one replica a device (`x auto`)
        <BLANKLINE>
        devices
          device  replicas         parameters  FLOPs a step  weights  slots  activations
          gpu:0   digits, wine[0]           ?             ?        ?      ?            ?
          gpu:1   wine[1]                   0             ?      0 B    0 B            ?
        <BLANKLINE>
        notes
          no model's FLOPs are known before it is loaded: all members count as equal
    """

    composition: Composition
    topology: DeviceTopology
    members: tuple[MemberPlan, ...]
    loads: tuple[DeviceLoad, ...] = ()
    strategy: Literal["join"] = "join"
    notes: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """The plan for people: members and devices in aligned columns, the same text each time."""
        return render_plan(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, described by `composer.compiler.schema.plan_schema`."""
        return plan_to_dict(self)

    def to_json(self) -> str:
        """`to_dict` as JSON text, indented by two spaces, without a line end."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
