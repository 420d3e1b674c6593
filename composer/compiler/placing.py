"""Which replica runs where: largest first on the least loaded device, replicas of one member apart, pins honoured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from composer.compiler.ir import Device, Member


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a member's replicas run, in replica order, and why."""

    devices: tuple[Device, ...]
    reason: str


def place(
    members: Sequence[Member], costs: Sequence[int | None], devices: Sequence[Device]
) -> tuple[tuple[Placed, ...], tuple[str, ...]]:
    """Places the replicas of all members; the same input gives the same placement.

    Args:
        members: the members, in order of the spec.
        costs: the cost of one replica of each; None counts as the mean of the known ones.
        devices: the devices of the composition, at least one, in order.

    Returns:
        A place for each member, and notes on what a reader may not expect.
    """
    notes = _unknown_sizes(members, costs) if len(devices) > 1 else []
    known = [cost for cost in costs if cost is not None]
    usual = max(1, sum(known) // len(known)) if known else 1
    weighed = [usual if cost is None else max(1, cost) for cost in costs]
    load = dict.fromkeys(devices, 0)
    placed: dict[int, Placed] = {}
    for index, member in enumerate(members):
        if member.at:
            placed[index] = _pinned(member)
            for device in placed[index].devices:
                load[device] = load.get(device, 0) + weighed[index]
    order = sorted((index for index in range(len(members)) if index not in placed), key=lambda i: (-weighed[i], i))
    placed.update(_free(members, weighed, order, load, devices))
    notes += [
        _crowded(member, len(devices)) for member in members if (member.replicas or 1) > len(devices) and not member.at
    ]
    return tuple(placed[index] for index in range(len(members))), tuple(notes)


def _pinned(member: Member) -> Placed:
    count = member.replicas or len(member.at)
    return Placed(member.at if len(member.at) == count else member.at * count, "pinned by `at=`")


def _free(
    members: Sequence[Member],
    weighed: Sequence[int],
    order: Sequence[int],
    load: Mapping[Device, int],
    devices: Sequence[Device],
) -> dict[int, Placed]:
    """Places members without pins, each replica on the least loaded device that its member does not use yet."""
    heap = [(load[device], position) for position, device in enumerate(devices)]
    heapify(heap)
    placed = {}
    for index in order:
        count = len(devices) if members[index].replicas is None else members[index].replicas or 1
        chosen: list[int] = []
        while len(chosen) < count:
            taken = [heappop(heap) for _ in range(min(count - len(chosen), len(devices)))]
            for work, position in taken:
                heappush(heap, (work + weighed[index], position))
            chosen += sorted(position for _, position in taken)
        placed[index] = Placed(tuple(devices[position] for position in chosen), _reason(members[index], len(devices)))
    return placed


def _reason(member: Member, num_devices: int) -> str:
    if member.replicas is None:
        return "one replica a device (`x auto`)"
    if num_devices == 1:
        return "the only device"
    if member.replicas == 1:
        return "the least loaded device"
    if member.replicas <= num_devices:
        return "the least loaded devices, replicas apart"
    return "all devices in turn, more replicas than devices"


def _crowded(member: Member, num_devices: int) -> str:
    there = f"{num_devices} devices" if num_devices > 1 else "one device"
    return f"`{member.name}` has {member.replicas} replicas and {there}: replicas that share a device save no time"


def _unknown_sizes(members: Sequence[Member], costs: Sequence[int | None]) -> list[str]:
    unknown = [f"`{member.name}`" for member, cost in zip(members, costs, strict=True) if cost is None]
    if not unknown:
        return []
    if len(unknown) == len(members):
        return ["no model's FLOPs are known before it is loaded: all members count as equal"]
    shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    return [f"FLOPs unknown, counted as the mean of the others: {shown}"]
