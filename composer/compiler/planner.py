"""`ir.Composition` + devices + signatures -> `plan.Plan`: what runs where. No decision is left for the graph."""

from __future__ import annotations

from dataclasses import dataclass

from composer.catalog import ModelCatalog, ModelSignature
from composer.compiler import ir
from composer.compiler.checks import check_signature, train_together, weights_of_its_own
from composer.compiler.estimates import device_loads, replica_cost
from composer.compiler.faults import Faults
from composer.compiler.ir import Device, Member
from composer.compiler.placing import Placed, place
from composer.compiler.plan import DeviceTopology, MemberPlan, Plan
from composer.compiler.topology import available, report_absent
from composer.compiler.topology import topology_for as topology_for
from composer.compiler.verify import verify_plan
from composer.diagnostics import render_text
from composer.errors import DeviceError
from composer.source import SourceText


def plan(
    composition: ir.Composition,
    topology: DeviceTopology,
    catalog: ModelCatalog | None = None,
    source: SourceText | None = None,
) -> Plan:
    """Places a composition on the devices of a machine.

    Args:
        composition: the resolved spec.
        topology: the devices there are; `topology_for(composition)` plans for what the spec asks for.
        catalog: what is known of the models, by the names the spec gives them; sizes of others count as equal.
        source: the text of the spec, for the places of diagnostics.

    Returns:
        The plan, with its warnings and notes. The same arguments give the same plan.

    Raises:
        DeviceError: the machine lacks devices; `diagnostics` names them (MG4xx).
        SpecError: a model cannot be split, grouped or trained as asked; `diagnostics` holds all faults (MG3xx).

    Example:
        >>> a = Member("a", "a", "a")
        >>> b = Member("b", "b", "b", replicas=2)
        >>> spec = ir.Composition((a, b), ir.DeviceRequest("gpu", (0, 1, 2)), (("a", None), ("b", None)))
        >>> [str(device) for device in plan(spec, DeviceTopology(gpus=3)).members[1].devices]
        ['gpu:1', 'gpu:2']
    """
    faults, absent = Faults(source), Faults(source)
    devices = available(composition.devices, topology, absent)
    merge, weights = _hosts(composition, devices, topology, faults, absent)
    _report_absent_pins(composition, topology, absent)
    if missing := absent.errors:
        raise DeviceError(render_text(missing), missing)
    signatures = [(catalog or {}).get(member.model) for member in composition.members]
    counts = [_num_replicas(member, devices) for member in composition.members]
    for member, count, signature in zip(composition.members, counts, signatures, strict=True):
        if signature is not None:
            check_signature(member, count, signature, faults)
    _check_shared_weights(composition, signatures, faults)
    faults.raise_errors()
    costs = [replica_cost(*item) for item in zip(composition.members, counts, signatures, strict=True)]
    placed, notes = place(composition.members, costs, devices)
    members = _member_plans(composition, placed, merge, weights, signatures)
    loads = device_loads(members, devices)
    return verify_plan(
        Plan(
            composition, topology, members, loads, notes=_notes(composition, topology) + notes, warnings=faults.warnings
        )
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    """Where variables go: one device for all, or (`home` None) as `policy` says member by member."""

    policy: str
    home: Device | None = None


def _num_replicas(member: Member, devices: tuple[Device, ...]) -> int:
    return member.replicas if member.replicas is not None else len(member.at) or len(devices)


def _hosts(
    composition: ir.Composition,
    devices: tuple[Device, ...],
    topology: DeviceTopology,
    faults: Faults,
    absent: Faults,
) -> tuple[Device, _Weights]:
    """Where outputs are joined and where variables live, where one device is named for all."""
    spans = dict(composition.spans)
    gpu = next((device for device in devices if device.kind == "gpu"), None)
    for option in ("merge", "weights"):
        if getattr(composition, option) != "gpu" or gpu is not None:
            continue
        if composition.devices.kind == "cpu":
            faults.error(
                "MG307",
                f"`{option}=gpu` needs a GPU, and the composition runs on CPUs",
                spans.get(option),
                label="`on` gives CPUs only",
                help=(f"leave it out, or write `{option}=cpu`",),
            )
        else:
            report_absent(f"`{option}=gpu`", Device("gpu", 0), topology, spans.get(option), absent)
    merge = composition.merge
    if isinstance(merge, Device):
        report_absent(f"`merge={merge}`", merge, topology, spans.get("merge"), absent)
    host = Device("cpu", 0)
    joined = merge if isinstance(merge, Device) else (gpu or host) if merge == "gpu" else host
    home = {"cpu": host, "gpu": gpu}.get(composition.weights)
    return joined, _Weights(composition.weights, home)


def _report_absent_pins(composition: ir.Composition, topology: DeviceTopology, absent: Faults) -> None:
    for member in composition.members:
        for pin in member.at:
            report_absent(f"`at={pin}` of `{member.branch}`", pin, topology, member.span, absent)


def _check_shared_weights(composition: ir.Composition, signatures: list[ModelSignature | None], faults: Faults) -> None:
    """Members that share weights step by one optimizer, and neither trains as it would alone."""
    first: dict[str, Member] = {}
    leaders: dict[str, Member] = {}
    for member, signature in zip(composition.members, signatures, strict=True):
        if member.copy_index is not None:
            continue
        leader = leaders.setdefault(member.model, member)
        if leader is not member and train_together(leader, member, signature):
            faults.warning(
                "MG321",
                f"`{leader.name}` and `{member.name}` are one model: neither trains as it would alone",
                member.span,
                label=f"shares the weights of `{leader.name}`",
                help=(f"to train each as if it were alone, {weights_of_its_own(member)}",),
            )
        if member.train.optimizer is None:
            continue
        other = first.setdefault(member.model, member)
        if other.train.optimizer != member.train.optimizer:
            faults.error(
                "MG306",
                f"`{other.name}` and `{member.name}` share the weights of model `{member.model}`, but not an optimizer",
                member.span,
                label=f"`{other.name}` has another optimizer",
                help=(f"give both the same, or {weights_of_its_own(member)}",),
            )


def _member_plans(
    composition: ir.Composition,
    placed: tuple[Placed, ...],
    merge: Device,
    weights: _Weights,
    signatures: list[ModelSignature | None],
) -> tuple[MemberPlan, ...]:
    loaded = {name for name, source in composition.models if source is not None}
    homes: dict[str, Device | None] = {}  # members that share a model share the home of its first member
    plans = []
    for member, where, signature in zip(composition.members, placed, signatures, strict=True):
        home = weights.home or _own_home(weights.policy, member, where.devices, member.model in loaded)
        if member.copy_index is None:
            home = homes.setdefault(member.model, home)
        plans.append(MemberPlan(member, where.devices, merge, home, signature, where.reason))
    return tuple(plans)


def _own_home(policy: str, member: Member, devices: tuple[Device, ...], loaded: bool) -> Device | None:
    """The first device it runs on; None where `weights=keep` leaves a model passed from Python as it is."""
    made_here = loaded or member.copy_index is not None
    return devices[0] if policy == "spread" or made_here else None


def _notes(composition: ir.Composition, topology: DeviceTopology) -> tuple[str, ...]:
    keyed = tuple(
        f"`{member.name}` has a model for each `{member.per}`, all of them one batched program"
        for member in composition.members
        if member.per is not None
    )
    if composition.devices.kind == "auto" and not topology.gpus:
        return ("no GPU here: all members run on the CPU", *keyed)
    if topology.simulated:
        return ("logical CPU devices stand in for the GPUs", *keyed)
    return keyed
