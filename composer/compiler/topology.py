"""Which devices a composition runs on, and what a machine would have to have for it."""

from __future__ import annotations

from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.compiler.ir import Device, DeviceKind
from composer.compiler.plan import DeviceTopology
from composer.source import Span

_MOST_LISTED = 8


def topology_for(composition: ir.Composition, machine: DeviceTopology | None = None) -> DeviceTopology:
    """The smallest machine that has what a spec asks for, so that it can be planned anywhere.

    Args:
        composition: the resolved spec.
        machine: what `on auto` finds; one CPU where left out.

    Example:
        >>> topology_for(ir.Composition((), ir.DeviceRequest("gpu", (0, 2))))
        DeviceTopology(cpus=1, gpus=3, simulated=False)
    """
    machine = machine or DeviceTopology()
    request = composition.devices
    named = [Device(request.kind, index) for index in request.indices if request.kind != "auto"]
    named += [pin for member in composition.members for pin in member.at]
    if isinstance(composition.merge, Device):
        named.append(composition.merge)
    if composition.devices.kind == "auto" and "gpu" in (composition.merge, composition.weights):
        named.append(Device("gpu", 0))
    cpus = max([machine.cpus, *(device.index + 1 for device in named if device.kind == "cpu")])
    gpus = max([machine.gpus, *(device.index + 1 for device in named if device.kind == "gpu")])
    return DeviceTopology(cpus, gpus, machine.simulated)


def devices_of(topology: DeviceTopology, kind: DeviceKind) -> tuple[Device, ...]:
    """All devices of a kind, in order."""
    return tuple(Device(kind, index) for index in range(topology.gpus if kind == "gpu" else topology.cpus))


def available(request: ir.DeviceRequest, topology: DeviceTopology, faults: Faults) -> tuple[Device, ...]:
    """The devices a composition runs on: those of `on`, or the GPUs there are, or else the CPUs. Reports missing."""
    if request.kind == "auto":
        return devices_of(topology, "gpu") or devices_of(topology, "cpu")
    there = devices_of(topology, request.kind)
    wanted = tuple(Device(request.kind, index) for index in request.indices)
    missing = [device for device in wanted if device not in there]
    if missing:
        _report_missing(request, missing, topology, faults)
    return wanted


def report_absent(what: str, device: Device, topology: DeviceTopology, span: Span | None, faults: Faults) -> bool:
    """Reports a single device that `what` names and the machine lacks; returns whether it did."""
    if device.index < (topology.gpus if device.kind == "gpu" else topology.cpus):
        return False
    faults.error(
        "MG402",
        f"{what} names {device}; {_there(device.kind, topology)}",
        span,
        label="not on this machine",
        help=_mend(device.kind, device.index + 1),
    )
    return True


def _report_missing(request: ir.DeviceRequest, missing: list[Device], topology: DeviceTopology, faults: Faults) -> None:
    kind: DeviceKind = missing[0].kind
    count = len(request.indices)
    if request.indices == tuple(range(count)):
        asked = f"`on {kind}s={count}` asks for {count} {kind.upper()}{'s' if count != 1 else ''}"
    else:
        asked = f"`on {kind}s=[{', '.join(map(str, request.indices))}]` asks for {_listed(missing)}"
    faults.error(
        "MG401",
        f"{asked}; {_there(kind, topology)}",
        request.span,
        label="more than there is",
        help=_mend(kind, max(request.indices) + 1),
    )


def _there(kind: DeviceKind, topology: DeviceTopology) -> str:
    devices = devices_of(topology, kind)
    stand_in = ", stood in for by CPU devices" if topology.simulated and kind == "gpu" else ""
    if devices:
        return f"this machine has {len(devices)} ({_listed(list(devices))}{stand_in})"
    return f"this machine has no {kind.upper()} (only {_listed(list(devices_of(topology, 'cpu')))})"


def _mend(kind: DeviceKind, count: int) -> tuple[str, ...]:
    stand_in = "let CPU devices stand in for GPUs" if kind == "gpu" else "cut the CPU into logical devices"
    return (
        "ask for what is there; `on auto` takes all of it",
        f"to try it here, {stand_in}: `--simulate {count}`, or `composer.simulate({count})` before TensorFlow starts",
    )


def _listed(devices: list[Device]) -> str:
    names = [str(device) for device in devices]
    return ", ".join(names if len(names) <= _MOST_LISTED else [*names[: _MOST_LISTED - 1], "...", names[-1]])
