"""The composition with every name resolved: members expanded, options validated, nothing placed yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from composer.diagnostics import Diagnostic
from composer.language.nodes import Source
from composer.source import Span

DeviceKind: TypeAlias = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A logical device of the language: `gpu:1`, `cpu:0`."""

    kind: DeviceKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a composition runs on: `gpus=4` is indices (0, 1, 2, 3); for `auto`, indices is empty."""

    kind: Literal["gpu", "cpu", "auto"]
    indices: tuple[int, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A Keras object to be made: its class name and its keyword arguments, in the order written.

    `family` is `optimizer`, `schedule`, `loss`, `metric`, `callback`, ...: what the name was looked up in. The name is
    an attribute of the family's module in Keras (`keras.losses`, ...), with one exception: a loss or metric that was
    written bare (`mse`, `accuracy`) keeps that string, which `compile` takes as it is, because a metric's key in the
    history follows it.
    """

    family: str
    name: str
    arguments: tuple[tuple[str, Value], ...] = ()


Value: TypeAlias = "int | float | str | bool | Call | tuple[Value, ...] | Map | None"


@dataclass(frozen=True, slots=True)
class Map:
    """A map of values in the order written, e.g. class weights or a loss for each output."""

    items: tuple[tuple[int | float | str, Value], ...]

    def to_dict(self) -> dict[int | float | str, Value]:
        return dict(self.items)


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How a member is fitted. None means: not said in the spec. `spans` tells where each option's value was written."""

    optimizer: Call | None = None
    loss: Value = None  # a Call, or a tuple or Map of them for several outputs
    metrics: Value = None
    batch: int | None = None
    epochs: int | None = None
    callbacks: tuple[Call, ...] = ()
    class_weight: Map | None = None
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DataSource:
    """The rows of a member, as its `data` statement gives them."""

    source: Source
    target: tuple[str, ...] | None = None  # columns
    features: tuple[str, ...] | None = None
    validation: float | str | None = None  # a fraction (the last rows) or a path
    shuffle: bool = True
    span: Span | None = field(default=None, compare=False)
    validation_span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """One model with its own data, loss, optimizer and results.

    Args:
        name: from the spec alone; key of the data, the history, the predictions and the export.
        model: the model's name in the spec.
        branch: the name data and options may be given under for all members of the branch.
        copy_index: position among the copies of `copies=N`, or None where the member uses the model itself.
        replicas: placed calls; None is `x auto`, one a device.
        group: rows taken for each row of the joint batch; None is no grouping, "auto" is chosen from the data.
        per: the column of keys, for each of which the member has a model; None where it is one model.
        at: the devices the replicas are pinned to; empty where free. One device pins all replicas.
        seed: the member's own seed, from `seed=` or derived from its name.
    """

    name: str
    model: str
    branch: str
    copy_index: int | None = None
    replicas: int | None = 1
    group: int | Literal["auto"] | None = None
    per: str | None = None
    at: tuple[Device, ...] = ()
    seed: int = 0
    train: TrainSettings = TrainSettings()
    data: DataSource | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Composition:
    """All members of one composition and the options they share. `models` holds the sources by model name, in order of
    first use; a model that the caller passes in has the source None. `warnings` are findings that stop nothing."""

    members: tuple[Member, ...]
    devices: DeviceRequest
    models: tuple[tuple[str, Source | None], ...] = ()
    merge: Device | Literal["cpu", "gpu"] = "cpu"
    weights: Literal["keep", "cpu", "gpu", "spread"] = "keep"
    fuse: Literal["auto", "on", "off"] = "auto"
    jit: Literal["auto", "on", "off"] = "auto"
    name: str | None = None
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)  # where an option was written
