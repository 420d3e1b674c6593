"""`on ...`, `at=` and `merge=` -> device request and pins; devices outside `on` are reported."""

from __future__ import annotations

from composer.compiler import ir
from composer.compiler.branches import Branch
from composer.compiler.faults import Faults
from composer.compiler.options import CompositionOptions, Read
from composer.compiler.values import item_span
from composer.language import nodes
from composer.source import Span

MOST_DEVICES = 4096
"""One machine has far fewer, and a slip such as `gpus=100000000` must not fill the memory."""


def device_request(devices: nodes.Devices | None, faults: Faults) -> ir.DeviceRequest:
    """What `on` asks for; `auto` where it is left out or at fault."""
    if devices is None or devices.kind == "auto":
        return ir.DeviceRequest("auto", span=devices.span if devices is not None else None)
    kind: ir.DeviceKind = "gpu" if devices.kind == "gpus" else "cpu"
    count = devices.count or 0
    indices = devices.indices if devices.indices is not None else tuple(range(min(count, MOST_DEVICES)))
    if count > MOST_DEVICES or any(index >= MOST_DEVICES for index in indices):
        faults.error(
            "MG208",
            f"`{devices.kind}` asks for more than a machine can have: expected at most {MOST_DEVICES} devices",
            devices.span,
            label=f"expected {MOST_DEVICES} or fewer",
        )
    elif not indices:
        given = "an empty list" if devices.count is None else devices.count
        faults.error(
            "MG208",
            f"`{devices.kind}` cannot be {given}: expected at least one",
            devices.span,
            label="expected 1 or more",
        )
    elif len(set(indices)) != len(indices):
        twice = next(index for position, index in enumerate(indices) if index in indices[:position])
        faults.error(
            "MG208", f"`{devices.kind}` lists {kind}:{twice} twice", devices.span, label="each device at most once"
        )
    else:
        return ir.DeviceRequest(kind, indices, devices.span)
    return ir.DeviceRequest("auto", span=devices.span)


def report_outside(options: Read[CompositionOptions], devices: ir.DeviceRequest, faults: Faults) -> None:
    """`merge=gpu:1` names a device of `on`; the host (`cpu:0`) may always join."""
    option, merge = options.written("merge"), options.values.merge
    if option is not None and isinstance(merge, ir.Device) and merge != ir.Device("cpu", 0):
        _report_outside("merge", merge, devices, option.value.span, faults)


def resolve_pins(branch: Branch, devices: ir.DeviceRequest, faults: Faults) -> tuple[int | None, tuple[ir.Device, ...]]:
    """The replica count of a branch (None for `x auto` without pins) and the devices its replicas are pinned to."""
    node = branch.node.replicas
    count = 1 if node is None else node.count
    option, at = branch.options.written("at"), branch.options.values.at
    if option is None or at is None:
        return count, ()
    pins = at if isinstance(at, tuple) else (at,)
    for index, pin in enumerate(pins):
        _report_outside("at", pin, devices, item_span(option.value, index), faults)
    if count is None:  # one replica a device, of the devices named
        return len(pins), pins
    if isinstance(at, tuple) and len(pins) != count:
        replicas = f"{count} replica{'s' if count != 1 else ''}"
        faults.error(
            "MG209",
            f"`at=` lists one device for each replica: `{branch.name}` has {replicas}, the list {len(pins)} devices",
            option.value.span,
            label=f"expected {count} device{'s' if count != 1 else ''}",
            help=(f"write `{branch.model} x{len(pins)}`, or list {count}",),
        )
    return count, pins


def _report_outside(option: str, device: ir.Device, devices: ir.DeviceRequest, span: Span, faults: Faults) -> None:
    if device.index >= MOST_DEVICES:
        faults.error(
            "MG208",
            f"`{option}={device}` names a device that no machine can have: expected an index below {MOST_DEVICES}",
            span,
            label=f"expected an index below {MOST_DEVICES}",
        )
        return
    if devices.kind == "auto" or (device.kind == devices.kind and device.index in devices.indices):
        return
    there = [str(ir.Device(devices.kind, index)) for index in devices.indices]
    shown = there if len(there) <= 8 else [*there[:7], "...", there[-1]]
    faults.error(
        "MG210",
        f"`{option}={device}` is not among the devices of the composition",
        span,
        label=f"`on` gives {', '.join(shown)}",
        help=(f"use one of those, or add {device} to `on`",),
    )
