"""What a spec's options may be, as pydantic models: the one place that judges their values.

The `description` of a field says to people what its value may be. What pydantic itself says of a fault never shows: its
place picks the span, the description makes the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from composer.compiler import options
from composer.compiler.ir import Device
from composer.compiler.options import MOST_COPIES
from composer.compiler.values import Word

Positive = Annotated[int, Field(ge=1, lt=2**31)]
Copies = Annotated[int, Field(ge=1, le=MOST_COPIES)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Number = Annotated[int | float, Field(allow_inf_nan=False)]


def _distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(items)) != len(items):
        raise ValueError("an entry twice")
    return items


def _quoted(value: object) -> object:
    if isinstance(value, Word):
        raise ValueError("a path is written in quotes")
    return value


Columns = Annotated[tuple[Text, ...], Field(min_length=1), AfterValidator(_distinct)]
Path = Annotated[Text, BeforeValidator(_quoted)]


class _Options(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class CompositionModel(_Options):
    """`parallel(...) on DEVICES option*`."""

    merge: Literal["cpu", "gpu"] | Device = Field("cpu", description="`cpu`, `gpu` or one device such as `gpu:1`")
    weights: Literal["keep", "cpu", "gpu", "spread"] = Field("keep", description="`keep`, `cpu`, `gpu` or `spread`")
    fuse: Literal["auto", "on", "off"] = Field("auto", description="`auto`, `on` or `off`")
    jit: Literal["auto", "on", "off"] = Field("auto", description="`auto`, `on` or `off`")


class BranchModel(_Options):
    """`MODEL [xN] [as NAME] option*`."""

    group: Positive | Literal["auto"] | None = Field(None, description="an integer of 1 or more, or `auto`")
    copies: Copies | None = Field(None, description=f"an integer from 1 to {MOST_COPIES}")
    per: Text | None = Field(None, description="a column name")
    at: Device | Annotated[tuple[Device, ...], Field(min_length=1)] | None = Field(
        None, description="a device such as `gpu:1`, or a list of them, one a replica"
    )


class DataModel(_Options):
    """`data NAME = SOURCE option*`."""

    target: Text | Columns | None = Field(None, description="a column name, or a list of different column names")
    features: Text | Columns | None = Field(None, description="a list of different column names")
    validation: Fraction | Path | None = Field(
        None, description="a fraction between 0 and 1, or the path of a file in quotes"
    )
    shuffle: bool = Field(True, description="`true` or `false`")


class TrainModel(_Options):
    """`train NAME option*`. What names Keras objects is judged elsewhere, by the table of what Keras has."""

    optimizer: Any = None
    loss: Any = None
    metrics: Any = None
    callbacks: Any = None
    batch: Positive | None = Field(None, description="an integer of 1 or more")
    epochs: Positive | None = Field(None, description="an integer of 1 or more")
    class_weight: Annotated[dict[int, Annotated[Number, Field(ge=0)]], Field(min_length=1)] | None = Field(
        None, description="a map from class numbers to weights of 0 or more, as in `{0: 1.0, 1: 4.0}`"
    )
    seed: Seed | Annotated[tuple[Seed, ...], Field(min_length=1)] | None = Field(
        None, description="an integer from 0 to 2147483647, or a list of them, one for each copy"
    )


MODELS: Mapping[type[options.Options], type[BaseModel]] = {
    options.CompositionOptions: CompositionModel,
    options.BranchOptions: BranchModel,
    options.DataOptions: DataModel,
    options.TrainOptions: TrainModel,
}
"""The model that judges each kind of options."""


def faults_of(kind: type[options.Options], values: Mapping[str, object]) -> dict[str, int | None]:
    """The options whose values are at fault, each with the position in its list where one entry is."""
    try:
        MODELS[kind].model_validate(dict(values))
    except ValidationError as error:
        found: dict[str, int | None] = {}
        for item in error.errors(include_url=False, include_context=False, include_input=False):
            name, *rest = item["loc"]  # a fault of a union is reported once for each of its members
            index = next((part for part in rest if isinstance(part, int)), None)
            found[str(name)] = index if found.get(str(name)) is None else found[str(name)]
        return found
    return {}


def description(kind: type[options.Options], name: str) -> str:
    """What the value of an option may be, in words."""
    return MODELS[kind].model_fields[name].description or ""
