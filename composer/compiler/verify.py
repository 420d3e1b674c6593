"""The invariants of the compiler's own results. One that does not hold is a bug of composer, not a fault of a spec."""

from __future__ import annotations

from composer.compiler import ir
from composer.compiler.ir import Device
from composer.compiler.plan import DeviceTopology, MemberPlan, Plan
from composer.errors import InternalError


def verify_composition(composition: ir.Composition) -> ir.Composition:
    """Returns the composition as it is, once it holds what the later stages rely on.

    - There is at least one member, and members' names are distinct.
    - Every member's model is in `models`, and every entry of `models` is used.
    - Copies of a branch are numbered from 0 without gaps; a member without `copies=` is the only one of its branch.
    - Counts are 1 or more; pins are none, one, or one a replica; seeds fit 31 bits.
    - A device request of a kind lists distinct devices; `auto` lists none.

    Raises:
        InternalError: an invariant does not hold.
    """
    members = composition.members
    _require(bool(members), "a composition has members")
    _require(len({member.name for member in members}) == len(members), "member names are distinct")
    models = [name for name, _ in composition.models]
    _require(len(set(models)) == len(models), "models are listed once")
    _require({member.model for member in members} == set(models), "`models` holds what the members use")
    request = composition.devices
    _require((request.kind == "auto") == (not request.indices), "only `auto` lists no devices")
    _require(len(set(request.indices)) == len(request.indices), "devices are distinct")
    positions: dict[str, int | None] = {}
    for member in members:
        _verify_member(member)
        if member.copy_index is None:
            _require(member.branch not in positions, f"`{member.name}` is the only member of its branch")
        else:
            before = positions.get(member.branch, -1)
            _require(before is not None and member.copy_index == before + 1, f"`{member.name}` follows the copy before")
        positions[member.branch] = member.copy_index
    return composition


def verify_plan(plan: Plan) -> Plan:
    """Returns the plan as it is, once the graph can be built from it without a further decision.

    - There is one entry for each member of the composition, in its order.
    - Each member has a device for each replica (at least one for `x auto`), every one of them on the machine.
    - Pins are kept; replicas without pins are on different devices where the composition has enough.
    - Members that share weights have them on one device.
    - Loads name each replica once, on the device it was placed on.

    Raises:
        InternalError: an invariant does not hold.
    """
    composition, topology = plan.composition, plan.topology
    _require(
        tuple(placed.member for placed in plan.members) == composition.members, "every member is planned, in order"
    )
    homes: dict[str, Device | None] = {}
    replicas = []
    for placed in plan.members:
        _verify_placed(placed, composition, topology)
        if placed.member.copy_index is None:
            home = homes.setdefault(placed.member.model, placed.weights)
            _require(home == placed.weights, f"`{placed.member.name}` shares the home of its weights")
        replicas += [(device, placed.member.name) for device in placed.devices]
    carried = [(load.device, name.partition("[")[0]) for load in plan.loads for name in load.replicas]
    _require(sorted(carried) == sorted(replicas), "loads name each replica once, where it runs")
    return plan


def _verify_placed(placed: MemberPlan, composition: ir.Composition, topology: DeviceTopology) -> None:
    member, devices = placed.member, placed.devices
    _require(
        len(devices) == member.replicas or (member.replicas is None and bool(devices)), f"`{member.name}` is placed"
    )
    used = {*devices, placed.merge} | ({placed.weights} if placed.weights is not None else set())
    _require(all(_exists(device, topology) for device in used), f"devices of `{member.name}` exist")
    if member.at:
        _require(devices == member.at or set(devices) == set(member.at), f"pins of `{member.name}` are kept")
    elif composition.devices.indices:
        there = len(composition.devices.indices)
        _require(len(set(devices)) == min(there, len(devices)), f"replicas of `{member.name}` are apart")


def _exists(device: Device, topology: DeviceTopology) -> bool:
    return 0 <= device.index < (topology.gpus if device.kind == "gpu" else topology.cpus)


def _verify_member(member: ir.Member) -> None:
    name = member.name
    _require(member.replicas is None or member.replicas >= 1, f"`{name}` has a replica")
    _require(not isinstance(member.group, int) or member.group >= 1, f"a group of `{name}` has a row")
    _require(len(member.at) in (0, 1, member.replicas), f"pins of `{name}` are none, one, or one a replica")
    _require(0 <= member.seed < 2**31, f"the seed of `{name}` fits 31 bits")


def _require(holds: bool, invariant: str) -> None:
    if not holds:
        raise InternalError(
            f"a bug of composer's: expected that {invariant}. Please report it with the spec that shows it"
        )
