"""The JSON Schema of a plan: `plan_schema`.

Programs that read plans may hold on to it: it changes only with `format_version`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from composer.compiler.plan_json import FORMAT, FORMAT_VERSION

SCHEMA_URI = "https://json-schema.org/draft/2020-12/schema"

DeviceName = Annotated[str, Field(pattern=r"^(cpu|gpu):[0-9]+$")]
Size = Annotated[int, Field(ge=0)]
Scalar: TypeAlias = bool | int | float | str | None


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Value(RootModel[Any]):
    """A value of the language: a scalar, a list, a call or a map."""

    root: Scalar | list[Value] | Call | Map


class Call(_Model):
    """A Keras object, or a call inside a factory's arguments."""

    call: str
    arguments: dict[str, Value]


class Map(_Model):
    """A map as pairs, since its keys may be numbers."""

    map: list[tuple[Scalar, Value]]


Value.model_rebuild()


class PathSource(_Model):
    path: str


class FactorySource(_Model):
    factory: str
    arguments: dict[str, Value]


Source: TypeAlias = PathSource | FactorySource


class Topology(_Model):
    cpus: Size
    gpus: Size
    simulated: bool = Field(description="Logical CPU devices stand in for the GPUs.")


class Options(_Model):
    merge: str
    weights: Literal["keep", "cpu", "gpu", "spread"]
    fuse: Literal["auto", "on", "off"]
    jit: Literal["auto", "on", "off"]


class NamedModel(_Model):
    name: str
    source: Source | None = Field(description="Null for a model that is passed in Python.")


class Tensor(_Model):
    name: str
    shape: list[int | None] | None
    dtype: str


class Signature(_Model):
    inputs: list[Tensor]
    outputs: list[Tensor]
    parameters: Size | None
    trainable_parameters: Size | None
    weight_bytes: Size | None
    flops_per_row: Size | None
    activation_bytes_per_row: Size | None
    trainable: bool
    fixed_batch: int | None
    stateful_layers: list[str]
    coupled_layers: list[str]
    row_losses: list[str]
    rank0_outputs: list[str]


class Train(_Model):
    optimizer: Call | None
    loss: Value
    metrics: Value
    batch: int | None
    epochs: int | None
    callbacks: list[Call]
    class_weight: Map | None


class Data(_Model):
    source: Source
    target: list[str] | None
    features: list[str] | None
    validation: float | str | None
    shuffle: bool


class Member(_Model):
    name: str
    model: str
    branch: str
    copy_index: Size | None
    group: int | Literal["auto"] | None
    per: str | None
    seed: Size
    devices: list[DeviceName] = Field(description="The device of each replica, in replica order.", min_length=1)
    pinned: bool
    merge: DeviceName
    weights: DeviceName | None = Field(description="Where variables live; null where they stay as they are.")
    reason: str
    train: Train
    data: Data | None
    signature: Signature | None


class Device(_Model):
    device: DeviceName
    replicas: list[str]
    parameters: Size | None
    flops_per_step: Size | None
    weight_bytes: Size | None
    slot_bytes: Size | None
    activation_bytes: Size | None


class Position(_Model):
    line: int
    column: int


class Range(_Model):
    start: Position
    end: Position


class Warning(_Model):
    code: str
    severity: Literal["warning"]
    message: str
    file: str | None
    range: Range | None
    label: str
    help: list[str]
    notes: list[str]


class PlanDocument(_Model):
    """What runs where, and why."""

    format: Literal["composer-plan"]
    format_version: Literal[1]
    name: str | None = Field(description="The composition's `let` name, if any.")
    strategy: Literal["join"]
    topology: Topology
    options: Options
    models: list[NamedModel]
    members: list[Member]
    devices: list[Device]
    notes: list[str]
    warnings: list[Warning]


def plan_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every `Plan.to_dict()` satisfies."""
    schema = PlanDocument.model_json_schema()
    return {"$schema": SCHEMA_URI, "$id": f"{FORMAT}-{FORMAT_VERSION}", **schema}


def validate_plan(document: dict[str, Any]) -> None:
    """Raises `pydantic.ValidationError` where a document is not a plan of this version."""
    PlanDocument.model_validate_json(json.dumps(document))
