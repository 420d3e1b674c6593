"""A member of a running composition: its name, the user's own model, and where it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras

from composer.catalog import ModelSignature
from composer.compiler.plan import DeviceTopology, MemberPlan, Plan
from composer.diagnostics import near_names
from composer.engine.units import Unit
from composer.errors import DataError
from composer.graph import devices
from composer.graph.layers import PlacedReplicas
from composer.graph.signatures import signature_of


@dataclass(frozen=True)
class Member:
    """One member.

    Args:
        name: from the spec alone.
        model: the user's own model; after `fit` it holds the trained state.
        layer: runs the model placed over its replicas: `layer(x, training=False)` of one device, else see
            `PlacedReplicas`.
        trainer: what holds its optimizer, loss and metrics: the model, or a view of it where several members share it.
        plan: where the replicas are, and why.
        signature: the model's inputs and outputs under its own names.
        merge: TensorFlow name of the device on which replica outputs are joined.
        process: the process it was composed in, the only one that can run it.
    """

    name: str
    model: keras.Model
    trainer: keras.Model
    layer: PlacedReplicas
    plan: MemberPlan
    signature: ModelSignature
    merge: str
    process: int = field(default_factory=os.getpid)

    @classmethod
    def create(
        cls,
        plan: MemberPlan,
        model: keras.Model,
        trainer: keras.Model,
        layer: PlacedReplicas,
        topology: DeviceTopology,
    ) -> Member:
        """The member of a plan, placed in a graph on the devices of this machine."""
        merge = devices.tensorflow_name(plan.merge, topology)
        return cls(plan.member.name, model, trainer, layer, plan, signature_of(model), merge)

    @property
    def unit(self) -> Unit:
        return Unit(self.name, self.trainer, self.layer.devices, self.merge)


class ByMember:
    """Spreads arguments over members: one value for all, or a dict by member, branch or `"*"`.

    Args:
        branches: the members of each branch, by branch name, in the order of the spec.
    """

    def __init__(self, branches: Mapping[str, tuple[str, ...]]) -> None:
        self.branches = dict(branches)
        self.names = tuple(name for members in self.branches.values() for name in members)

    @classmethod
    def create(cls, plan: Plan) -> ByMember:
        """For the members of a plan."""
        branches: dict[str, tuple[str, ...]] = {}
        for member in (placed.member for placed in plan.members):
            branches[member.branch] = (*branches.get(member.branch, ()), member.name)
        return cls(branches)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Names of members, then those of branches that are no member's."""
        return tuple(dict.fromkeys((*self.names, *self.branches)))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.keys, "*"))

    def spread(self, argument: str, value: Any, default: Any = None, *, plain_dicts: bool = False) -> dict[str, Any]:
        """The value of each member.

        Args:
            argument: named in errors.
            value: one for all, or a dict by member, branch or `"*"`; the nearest wins.
            default: for members that a dict leaves out.
            plain_dicts: whether one value may itself be a dict with strings as keys (a loss for each output); then a
                dict counts as by member only if it names one.

        Raises:
            DataError: if a key is neither a member nor a branch; it says which is near.
        """
        if not self.is_by_member(value, plain_dicts=plain_dicts):
            return dict.fromkeys(self.names, value)
        self.check_keys(argument, value)
        spread = dict.fromkeys(self.names, value.get("*", default))
        for branch, members in self.branches.items():
            if branch in value:
                spread.update(dict.fromkeys(members, value[branch]))
        spread.update({name: value[name] for name in self.names if name in value})
        return spread

    def is_by_member(self, value: Any, *, plain_dicts: bool = False) -> bool:
        if not isinstance(value, Mapping) or not value or not all(isinstance(key, str) for key in value):
            return False
        return not plain_dicts or any(key in self._known for key in value)

    def check_keys(self, argument: str, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self._known:
                near = near_names(key, self.keys)
                hint = " or ".join(f"`{name}`" for name in near)
                raise DataError(
                    f"{argument} names `{key}`, which is no member. "
                    + (f"Did you mean {hint}? " if near else "")
                    + f"Members are: {', '.join(f'`{name}`' for name in self.keys)}"
                )
