"""The options a spec may give: `read_options` judges those of one statement.

The pydantic models in `option_models` say what values may be. They are asked only where a value is not evidently right:
loading pydantic would take a third of the time of `composer check`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar

from composer.compiler.faults import Faults
from composer.compiler.ir import Device
from composer.compiler.values import describe, item_span, plain
from composer.language import nodes

MOST_COPIES = 100_000  # and replicas: far above any use, and small enough that a slip does not fill the memory


@dataclass(frozen=True)
class Options:
    """The options of one kind of statement, as they are used; `option_models` has what each may be."""

    scope: ClassVar[str] = ""


@dataclass(frozen=True)
class CompositionOptions(Options):
    """`parallel(...) on DEVICES option*`."""

    scope: ClassVar[str] = "a composition"
    merge: Literal["cpu", "gpu"] | Device = "cpu"
    weights: Literal["keep", "cpu", "gpu", "spread"] = "keep"
    fuse: Literal["auto", "on", "off"] = "auto"
    jit: Literal["auto", "on", "off"] = "auto"


@dataclass(frozen=True)
class BranchOptions(Options):
    """`MODEL [xN] [as NAME] option*`."""

    scope: ClassVar[str] = "a branch"
    group: int | Literal["auto"] | None = None
    copies: int | None = None
    per: str | None = None
    at: Device | tuple[Device, ...] | None = None


@dataclass(frozen=True)
class DataOptions(Options):
    """`data NAME = SOURCE option*`."""

    scope: ClassVar[str] = "a `data` statement"
    target: str | tuple[str, ...] | None = None
    features: str | tuple[str, ...] | None = None
    validation: float | str | None = None
    shuffle: bool = True


@dataclass(frozen=True)
class TrainOptions(Options):
    """`train NAME option*`."""

    scope: ClassVar[str] = "a `train` statement"
    optimizer: Any = None
    loss: Any = None
    metrics: Any = None
    callbacks: Any = None
    batch: int | None = None
    epochs: int | None = None
    class_weight: dict[int, int | float] | None = None
    seed: int | tuple[int, ...] | None = None


OptionsT = TypeVar("OptionsT", bound=Options)

_SCOPES: tuple[type[Options], ...] = (BranchOptions, CompositionOptions, DataOptions, TrainOptions)


@dataclass(frozen=True)
class Read(Generic[OptionsT]):
    """The options of one statement: their values, with defaults where an option is missing or at fault, and where each
    was written."""

    values: OptionsT
    given: dict[str, nodes.Option]

    def written(self, name: str) -> nodes.Option | None:
        """The option as it was written, or None where it was not or its value was at fault."""
        return self.given.get(name)


def names_of(kind: type[Options]) -> tuple[str, ...]:
    """The names of all options of a kind."""
    return tuple(field.name for field in fields(kind))


def read_options(kind: type[OptionsT], options: Sequence[nodes.Option], faults: Faults) -> Read[OptionsT]:
    """Judges the options of a statement; every fault becomes a diagnostic and its option counts as not given."""
    if not options:  # the usual case of a branch, and there may be thousands
        return Read(kind(), {})
    known, given = names_of(kind), dict[str, nodes.Option]()
    for option in options:
        if option.name.text not in known:
            _report_unknown(kind, option, faults)
        elif option.name.text in given:
            faults.error("MG204", f"option `{option.name.text}` is given twice", option.name.span, label="given before")
        else:
            given[option.name.text] = option
    values = {name: plain(option.value) for name, option in given.items()}
    if not all(is_evident(name, value) for name, value in values.items()):
        from composer.compiler.option_models import faults_of  # lazy: see the head of this module

        for name, index in faults_of(kind, values).items():
            _report_value(kind, given.pop(name), index, faults)
            del values[name]
    return Read(kind(**values), given)


def is_evident(name: str, value: object) -> bool:
    """Whether a value is right beyond doubt; where this says no, the pydantic model decides.

    `tests/compiler/test_options.py` holds that no value is evident that the model would refuse.
    """
    return name in _EVIDENT and _EVIDENT[name](value)


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= MOST_COPIES


def _is_one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


_EVIDENT: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("group", "copies", "batch", "epochs", "seed"), _is_count),
    **dict.fromkeys(("fuse", "jit"), _is_one_of("auto", "on", "off")),
    **dict.fromkeys(("optimizer", "loss", "metrics", "callbacks"), lambda value: True),
    "merge": _is_one_of("cpu", "gpu"),
    "weights": _is_one_of("keep", "cpu", "gpu", "spread"),
    "at": lambda value: isinstance(value, Device),
    "per": lambda value: isinstance(value, str) and bool(value),
    "target": lambda value: isinstance(value, str) and bool(value),
    "validation": lambda value: (type(value) is float and 0 < value < 1) or (type(value) is str and bool(value)),
    "shuffle": lambda value: isinstance(value, bool),
}


def _report_value(kind: type[Options], option: nodes.Option, index: int | None, faults: Faults) -> None:
    from composer.compiler.option_models import description

    name, expected = option.name.text, description(kind, option.name.text)
    words = expected.split("`")[1::2]  # what a description quotes is what may be written
    near = faults.near(option.value.name, words) if isinstance(option.value, nodes.Identifier) else ""
    faults.error(
        "MG208",
        f"`{name}` cannot be {describe(option.value)}: expected {expected}",
        item_span(option.value, index) if index is not None else option.value.span,
        label=f"expected {expected}",
        help=(near,),
    )


def _report_unknown(kind: type[Options], option: nodes.Option, faults: Faults) -> None:
    name = option.name.text
    known = names_of(kind)
    near = faults.near(name, known)
    elsewhere = [] if near else [(scope, found) for scope in _SCOPES for found in _nearest(name, scope, faults)]
    faults.error(
        "MG207",
        f"unknown option `{name}` of {kind.scope}",
        option.name.span,
        label=f"expected one of {', '.join(known)}",
        help=(near, *(_belongs(scope, found) for scope, found in elsewhere[:1])),
    )


def _nearest(name: str, scope: type[Options], faults: Faults) -> list[str]:
    return [field for field in names_of(scope) if f"`{field}`" in faults.near(name, [field])]


def _belongs(scope: type[Options], name: str) -> str:
    where = {
        CompositionOptions: "it stands behind the closing parenthesis: `parallel(...) on gpus=2 {}=...`",
        BranchOptions: "it stands behind a model inside the parentheses: `parallel(model {}=...)`",
        DataOptions: 'it belongs to the member\'s rows: `data NAME = "rows.npz" {}=...`',
        TrainOptions: "it belongs to the member's training: `train NAME {}=...`",
    }[scope]
    return f"`{name}` is an option of {scope.scope}; {where.format(name)}"
