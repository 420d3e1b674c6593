"""The options a spec may give, as pydantic models, and their faults in human words.

A model says what a value may be; the `description` of a field says it to people. What pydantic itself says of a fault
never shows: its place picks the span, the description makes the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from composer.compiler.faults import Faults
from composer.compiler.ir import Device
from composer.compiler.values import Word, describe, item_span, plain
from composer.language import nodes

MOST_COPIES = 100_000  # and replicas: far above any use, and small enough that a slip does not fill the memory

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
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)
    scope: ClassVar[str]


class CompositionOptions(_Options):
    """`parallel(...) on DEVICES option*`."""

    scope: ClassVar[str] = "a composition"
    merge: Literal["cpu", "gpu"] | Device = Field("cpu", description="`cpu`, `gpu` or one device such as `gpu:1`")
    weights: Literal["keep", "cpu", "gpu", "spread"] = Field("keep", description="`keep`, `cpu`, `gpu` or `spread`")
    fuse: Literal["auto", "on", "off"] = Field("auto", description="`auto`, `on` or `off`")
    jit: Literal["auto", "on", "off"] = Field("auto", description="`auto`, `on` or `off`")


class BranchOptions(_Options):
    """`MODEL [xN] [as NAME] option*`."""

    scope: ClassVar[str] = "a branch"
    group: Positive | Literal["auto"] | None = Field(None, description="an integer of 1 or more, or `auto`")
    copies: Copies | None = Field(None, description=f"an integer from 1 to {MOST_COPIES}")
    at: Device | Annotated[tuple[Device, ...], Field(min_length=1)] | None = Field(
        None, description="a device such as `gpu:1`, or a list of them, one a replica"
    )


class DataOptions(_Options):
    """`data NAME = SOURCE option*`."""

    scope: ClassVar[str] = "a `data` statement"
    target: Text | Columns | None = Field(None, description="a column name, or a list of different column names")
    features: Text | Columns | None = Field(None, description="a list of different column names")
    validation: Fraction | Path | None = Field(
        None, description="a fraction between 0 and 1, or the path of a file in quotes"
    )
    shuffle: bool = Field(True, description="`true` or `false`")


class TrainOptions(_Options):
    """`train NAME option*`. What names Keras objects is resolved elsewhere, against the table of what Keras has."""

    scope: ClassVar[str] = "a `train` statement"
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


OptionsT = TypeVar("OptionsT", bound=_Options)

_SCOPES: tuple[type[_Options], ...] = (BranchOptions, CompositionOptions, DataOptions, TrainOptions)
_LATER = {"per": "one member for each value of a column (`per=`)"}


@dataclass(frozen=True)
class Read(Generic[OptionsT]):
    """The options of one statement: their values, with defaults where an option is missing or at fault, and where each
    was written."""

    values: OptionsT
    given: dict[str, nodes.Option]

    def written(self, name: str) -> nodes.Option | None:
        """The option as it was written, or None where it was not or its value was at fault."""
        return self.given.get(name)


_NOTHING: dict[type[_Options], Read[Any]] = {}


def read_options(model: type[OptionsT], options: Sequence[nodes.Option], faults: Faults) -> Read[OptionsT]:
    """Validates options against `model`; every fault becomes a diagnostic and its option counts as not given."""
    if not options:  # the usual case of a branch, and there may be thousands
        if model not in _NOTHING:
            _NOTHING[model] = Read(model(), {})
        return _NOTHING[model]
    given: dict[str, nodes.Option] = {}
    for option in options:
        if option.name.text not in model.model_fields:
            _report_unknown(model, option, faults)
        elif option.name.text in given:
            faults.error("MG204", f"option `{option.name.text}` is given twice", option.name.span, label="given before")
        else:
            given[option.name.text] = option
    values = {name: plain(option.value) for name, option in given.items()}
    try:
        return Read(model.model_validate(values), given)
    except ValidationError as error:
        for name, index in _places(error):
            _report_value(model, given.pop(name), index, faults)
            del values[name]
        return Read(model.model_validate(values), given)


def _places(error: ValidationError) -> Iterable[tuple[str, int | None]]:
    """Option and list position of each fault, each option once: one of a union's branches is enough."""
    found: dict[str, int | None] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        name, *rest = item["loc"]
        index = next((part for part in rest if isinstance(part, int)), None)
        found[str(name)] = index if found.get(str(name)) is None else found[str(name)]
    return found.items()


def _report_value(model: type[_Options], option: nodes.Option, index: int | None, faults: Faults) -> None:
    name = option.name.text
    expected = model.model_fields[name].description
    words = _choices(model, name)
    near = faults.near(option.value.name, words) if isinstance(option.value, nodes.Identifier) else ""
    faults.error(
        "MG208",
        f"`{name}` cannot be {describe(option.value)}: expected {expected}",
        item_span(option.value, index) if index is not None else option.value.span,
        label=f"expected {expected}",
        help=(near,),
    )


def _choices(model: type[_Options], name: str) -> list[str]:
    """The words an option may be, from its description: those in backquotes."""
    return (model.model_fields[name].description or "").split("`")[1::2]


def _report_unknown(model: type[_Options], option: nodes.Option, faults: Faults) -> None:
    name = option.name.text
    if name in _LATER and model is BranchOptions:
        faults.error("MG211", f"{_LATER[name]} is not supported yet", option.span, label="not supported yet")
        return
    known = list(model.model_fields)
    near = faults.near(name, known)
    elsewhere = [] if near else [(scope, found) for scope in _SCOPES for found in _nearest(name, scope, faults)]
    faults.error(
        "MG207",
        f"unknown option `{name}` of {model.scope}",
        option.name.span,
        label=f"expected one of {', '.join(known)}",
        help=(near, *(_belongs(scope, found) for scope, found in elsewhere[:1])),
    )


def _nearest(name: str, scope: type[_Options], faults: Faults) -> list[str]:
    return [field for field in scope.model_fields if f"`{field}`" in faults.near(name, [field])]


def _belongs(scope: type[_Options], name: str) -> str:
    where = {
        CompositionOptions: "it stands behind the closing parenthesis: `parallel(...) on gpus=2 {}=...`",
        BranchOptions: "it stands behind a model inside the parentheses: `parallel(model {}=...)`",
        DataOptions: 'it belongs to the member\'s rows: `data NAME = "rows.npz" {}=...`',
        TrainOptions: "it belongs to the member's training: `train NAME {}=...`",
    }[scope]
    return f"`{name}` is an option of {scope.scope}; {where.format(name)}"
