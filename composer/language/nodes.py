"""The syntax tree of a spec: frozen nodes, each with its span, compared without it.

`parse(print(spec)) == spec`. Nothing here is judged: names may be unknown and options misspelt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from composer.source import Span


def _span() -> Span:
    return field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier where it was written."""

    text: str
    span: Span = _span()


# Values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer, a float, a string, `true`, `false` or `none`."""

    value: int | float | str | bool | None
    span: Span = _span()
    written: str = field(default="", repr=False)  # of a number, so that `0.003` is not printed as `3e-3`

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and true are three different literals
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Identifier:
    """A bare name as a value: `auto`, `gpu`, `accuracy`."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeviceName:
    """One device as a value: `gpu:1`, `cpu:0`."""

    kind: str
    index: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ListValue:
    items: tuple[Value, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class MapValue:
    items: tuple[tuple[Value, Value], ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """`adam(learning_rate=1e-3)`."""

    name: Name
    arguments: tuple[Option, ...]
    span: Span = _span()


Value: TypeAlias = Literal | Identifier | DeviceName | ListValue | MapValue | Call


@dataclass(frozen=True, slots=True)
class Option:
    """`key=value`."""

    name: Name
    value: Value
    span: Span = _span()


# Sources -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathSource:
    """`"models/wine.keras"`, relative to the spec's folder."""

    path: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FactorySource:
    """`package.module:function(arguments)`."""

    module: str
    function: str
    arguments: tuple[Option, ...]
    span: Span = _span()


Source: TypeAlias = PathSource | FactorySource

# Compositions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replicas:
    """`x2` or `x auto` (count None)."""

    count: int | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Branch:
    """`MODEL [xN] [as NAME] option*`."""

    model: Name
    replicas: Replicas | None = None
    alias: Name | None = None
    options: tuple[Option, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Devices:
    """`gpus=4`, `gpus=[0, 2]`, `cpus=...` or `auto`: one of `count` and `indices` is set, none for auto."""

    kind: OneOf["gpus", "cpus", "auto"]
    count: int | None = None
    indices: tuple[int, ...] | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Parallel:
    """`parallel(BRANCH, ...) on DEVICES option*`; `devices` is None where `on` is left out."""

    branches: tuple[Branch, ...]
    devices: Devices | None = None
    options: tuple[Option, ...] = ()
    span: Span = _span()


Composition: TypeAlias = Parallel  # later: chains (a >> b), nested compositions, mean(a, b)

# Statements --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Model:
    """`model NAME = SOURCE`."""

    name: Name
    source: Source
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Data:
    """`data NAME = SOURCE option*`."""

    name: Name
    source: Source
    options: tuple[Option, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Train:
    """`train NAME option*`; `name` is None for `train *`."""

    name: Name | None
    options: tuple[Option, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Let:
    """`let NAME = COMPOSITION`."""

    name: Name
    composition: Composition
    span: Span = _span()


Statement: TypeAlias = Model | Data | Train | Let | Parallel


@dataclass(frozen=True, slots=True)
class Comment:
    """A `#` comment, kept so that formatting loses none. `own_line` is False behind code."""

    text: str
    own_line: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole file. Comments and blank lines do not count when two specs are compared.

    `blank_lines` are the offsets of the line ends before blank lines, kept so that formatting leaves groups apart.
    """

    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    span: Span = _span()
    blank_lines: tuple[int, ...] = field(default=(), compare=False, repr=False)
