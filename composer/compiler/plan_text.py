"""A plan as text for people: aligned columns, the same text each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from composer.compiler.ir import Device

if TYPE_CHECKING:
    from composer.compiler.plan import DeviceLoad, MemberPlan, Plan

_MOST_DEVICES = 8
_RIGHT = frozenset({"rows a step", "parameters", "FLOPs a row", "FLOPs a step", "weights", "slots", "activations"})


def render_plan(plan: Plan) -> str:
    """The text that `print(plan)` shows, without a line end."""
    composition = plan.composition
    devices = [load.device for load in plan.loads if load.device.kind == plan.loads[0].device.kind]
    count = len(plan.members)
    head = f"{count} member{'s' if count != 1 else ''} on {_listed(devices)}"
    options = (
        f"merge={plan.members[0].merge} weights={composition.weights} fuse={composition.fuse} jit={composition.jit}"
    )
    title = f"plan `{composition.name}`: {head}" if composition.name else f"plan: {head}"
    sections = [f"{title}\n{options}", _table("members", _MEMBER_HEAD, [_member_row(m) for m in plan.members])]
    sections.append(_table("devices", _LOAD_HEAD, [_load_row(load) for load in plan.loads]))
    if plan.notes:
        sections.append("notes\n" + "\n".join(f"  {note}" for note in plan.notes))
    if plan.warnings:
        sections.append("warnings\n" + "\n".join(f"  {warning.code}: {warning.message}" for warning in plan.warnings))
    return "\n\n".join(sections)


_MEMBER_HEAD = ("member", "model", "replicas", "group", "variables", "parameters", "FLOPs a row", "why there")
_LOAD_HEAD = ("device", "replicas", "parameters", "FLOPs a step", "weights", "slots", "activations")


def _member_row(placed: MemberPlan) -> tuple[str, ...]:
    member, signature = placed.member, placed.signature
    return (
        member.name,
        member.model,
        _listed(list(placed.devices)),
        "-" if member.group is None else str(member.group),
        "as they are" if placed.weights is None else str(placed.weights),
        _count(signature.parameters if signature else None),
        _scaled(signature.flops_per_row if signature else None),
        placed.reason,
    )


def _load_row(load: DeviceLoad) -> tuple[str, ...]:
    shown = (
        load.replicas
        if len(load.replicas) <= _MOST_DEVICES
        else (*load.replicas[: _MOST_DEVICES - 1], f"and {len(load.replicas) - _MOST_DEVICES + 1} more")
    )
    return (
        str(load.device),
        ", ".join(shown) or "-",
        _count(load.parameters),
        _scaled(load.flops_per_step),
        _bytes(load.weight_bytes),
        _bytes(load.slot_bytes),
        _bytes(load.activation_bytes),
    )


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under a head, columns as wide as their widest entry, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(row, widths, head, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join([title, *lines])


def _listed(devices: Sequence[Device]) -> str:
    names = [str(device) for device in devices]
    return " ".join(names if len(names) <= _MOST_DEVICES else [*names[: _MOST_DEVICES - 1], "...", names[-1]])


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _scaled(value: int | None) -> str:
    return "?" if value is None else _with_unit(value, 1000, ("", " k", " M", " G", " T", " P"))


def _bytes(value: int | None) -> str:
    return "?" if value is None else _with_unit(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _with_unit(value: int, base: int, units: tuple[str, ...]) -> str:
    scaled = float(value)
    for unit in units[:-1]:
        if scaled < base:
            return f"{value}{unit}" if unit == units[0] else f"{scaled:.1f}{unit}"
        scaled /= base
    return f"{scaled:.1f}{units[-1]}"
