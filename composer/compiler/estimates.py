"""What each device carries, from the signatures of the models: parameters, FLOPs a step and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from composer.catalog import ModelSignature
from composer.compiler.ir import Device, Member
from composer.compiler.optimizer_slots import slot_copies
from composer.compiler.plan import DeviceLoad, MemberPlan

DEFAULT_BATCH = 32  # what `fit` takes where nothing is said
TRAINING_STEP = 3  # a training step costs about three forward passes: one forward, and twice as much backward


def batch_of(member: Member) -> int:
    """Flat rows of one step: the member's batch size, or the default, times the group where it has one."""
    group = member.group if isinstance(member.group, int) else 1
    return member.train.batch or DEFAULT_BATCH * group


def slice_rows(rows: int, num_replicas: int) -> tuple[int, ...]:
    """Rows of each replica: contiguous slices whose sizes differ by at most one, larger first.

    Example:
        >>> slice_rows(5, 4)
        (2, 1, 1, 1)
    """
    return tuple(rows // num_replicas + (index < rows % num_replicas) for index in range(num_replicas))


def replica_cost(member: Member, num_replicas: int, signature: ModelSignature | None) -> int | None:
    """FLOPs of a training step of the member's first, largest replica; None where the model's are not known."""
    if signature is None or signature.flops_per_row is None:
        return None
    return TRAINING_STEP * signature.flops_per_row * slice_rows(batch_of(member), num_replicas)[0]


def device_loads(members: Iterable[MemberPlan], devices: Iterable[Device]) -> tuple[DeviceLoad, ...]:
    """What each device carries: weights and slots that live there, work and activations of the replicas that run there.

    Weights of a model stay where its first replica runs, unless `weights=` moves them; members that share weights count
    them once.

    Args:
        members: the placed members.
        devices: the devices the composition runs on; others that only hold weights come behind them.
    """
    totals: dict[Device, _Total] = {device: _Total() for device in devices}
    counted: set[tuple[str, int | None]] = set()
    for placed in members:
        _add_work(totals, placed)
        weights = (placed.member.model, placed.member.copy_index)
        if weights not in counted:
            counted.add(weights)
            home = placed.weights or placed.devices[0]
            totals.setdefault(home, _Total()).add_weights(placed.signature, placed.member)
    return tuple(total.load(device) for device, total in totals.items())


def _add_work(totals: dict[Device, _Total], placed: MemberPlan) -> None:
    member, signature = placed.member, placed.signature
    rows = slice_rows(batch_of(member), len(placed.devices))
    for index, (device, share) in enumerate(zip(placed.devices, rows, strict=True)):
        total = totals.setdefault(device, _Total())
        total.replicas.append(member.name if len(rows) == 1 else f"{member.name}[{index}]")
        flops = signature.flops_per_row if signature else None
        activations = signature.activation_bytes_per_row if signature else None
        total.flops = _sum(total.flops, None if flops is None else TRAINING_STEP * flops * share)
        total.activations = _sum(total.activations, None if activations is None else activations * share)


@dataclass(slots=True)
class _Total:
    replicas: list[str] = field(default_factory=list)
    parameters: int | None = 0
    flops: int | None = 0
    weight_bytes: int | None = 0
    slot_bytes: int | None = 0
    activations: int | None = 0

    def add_weights(self, signature: ModelSignature | None, member: Member) -> None:
        self.parameters = _sum(self.parameters, signature.parameters if signature else None)
        self.weight_bytes = _sum(self.weight_bytes, signature.weight_bytes if signature else None)
        self.slot_bytes = _sum(self.slot_bytes, _slot_bytes(signature, member))

    def load(self, device: Device) -> DeviceLoad:
        return DeviceLoad(
            device,
            tuple(self.replicas),
            self.parameters,
            self.flops,
            self.weight_bytes,
            self.slot_bytes,
            self.activations,
        )


def _slot_bytes(signature: ModelSignature | None, member: Member) -> int | None:
    copies = slot_copies(member.train.optimizer)
    if copies is None or signature is None:
        return None
    trainable, parameters, weight_bytes = signature.trainable_parameters, signature.parameters, signature.weight_bytes
    if trainable is None or parameters is None or weight_bytes is None:
        return None
    return copies * trainable * weight_bytes // parameters if parameters else 0


def _sum(total: int | None, part: int | None) -> int | None:
    """A sum that is unknown as soon as one part is."""
    return None if total is None or part is None else total + part
