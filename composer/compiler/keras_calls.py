"""Names and calls of Keras objects in a spec (`adam(learning_rate=1e-3)`, `mse`) -> `ir.Call`.

Judged by the table of what Keras has: names, arguments and the kinds of their values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from composer.compiler import ir, keras_table
from composer.compiler.faults import Faults
from composer.compiler.keras_table import Entry, Parameter
from composer.compiler.values import describe, show
from composer.language import nodes
from composer.source import Span

_NOUNS = {
    "optimizer": "an optimizer such as `adam(learning_rate=1e-3)`",
    "schedule": "a learning-rate schedule such as `cosine_decay(...)`",
    "loss": "a loss such as `mse`",
    "metric": "a metric such as `accuracy`",
    "callback": "a callback such as `early_stopping(patience=3)`",
    "number": "a number",
    "int": "an integer",
    "bool": "`true` or `false`",
    "str": "a string",
    "list": "a list",
    "map": "a map",
}


_RENAMED = {"lr": "learning_rate", "decay": "weight_decay"}  # as Keras 2 called them


@dataclass(frozen=True, slots=True)
class Sweep:
    """A numeric argument given as a list: one value for each copy of a branch.

    It stands in an `ir.Call` only until the copies are told apart (`pick`).
    """

    values: tuple[int | float, ...]
    span: Span


def resolve_call(value: nodes.Value, family: str, faults: Faults) -> ir.Call | None:
    """The Keras object that a value names, or None with its faults reported.

    Args:
        value: a name, a string or a call.
        family: what the name is looked up in: `optimizer`, `loss`, ...
        faults: takes what is wrong.

    Returns:
        A call whose arguments may hold a `Sweep` where `family` is `optimizer`.
    """
    if isinstance(value, nodes.Call):
        name, arguments = value.name, value.arguments
    elif isinstance(value, nodes.Identifier):
        name, arguments = nodes.Name(value.name, value.span), ()
    elif isinstance(value, nodes.Literal) and isinstance(value.value, str):
        name, arguments = nodes.Name(value.value, value.span), ()
    else:
        expected = _noun(family)
        faults.error("MG208", f"expected {expected}, not {describe(value)}", value.span, label=f"expected {expected}")
        return None
    bare = not isinstance(value, nodes.Call)
    if bare and name.text.lower() in keras_table.CHOSEN_BY_KERAS.get(family, ()):
        return ir.Call(family, name.text)
    entry = _lookup(name, family, faults)
    if entry is None:
        return None
    found = _arguments(entry, arguments, name, faults, sweeps=family in ("optimizer", "schedule"))
    if bare and name.text in entry.strings:
        return ir.Call(family, name.text)  # as Keras takes it: a metric's key in the history is the string itself
    return ir.Call(family, entry.name, found)


def pick(value: ir.Value | Sweep, index: int) -> ir.Value:
    """The value with every sweep in it replaced by its entry for copy `index`."""
    if isinstance(value, Sweep):
        return value.values[index]
    if isinstance(value, ir.Call):
        return ir.Call(value.family, value.name, tuple((key, pick(item, index)) for key, item in value.arguments))
    return value


def sweeps_in(value: ir.Value | Sweep) -> list[Sweep]:
    """All sweeps in the arguments of a call, those of calls inside it too."""
    if isinstance(value, Sweep):
        return [value]
    if isinstance(value, ir.Call):
        return [sweep for _, item in value.arguments for sweep in sweeps_in(item)]
    return []


def _lookup(name: nodes.Name, family: str, faults: Faults) -> Entry | None:
    entry = keras_table.find(family, name.text)
    if entry is None:
        faults.error(
            "MG212",
            f"Keras has no {family} `{name.text}`",
            name.span,
            label=f"not {_article(family)} {family} of Keras {keras_table.keras_version()}",
            help=(faults.near(name.text, _spellings(family)), _elsewhere(name.text, family)),
        )
    elif entry.from_python:
        faults.error(
            "MG211",
            f"`{entry.spelled}` takes Python functions, which a spec cannot hold",
            name.span,
            label="cannot be written in a spec",
            help=(f"pass it in Python: `joint.fit(..., {family}s=[...])`",),
        )
        return None
    return entry


def _spellings(family: str) -> list[str]:
    """The names to suggest: usual spellings and short forms such as `mse`."""
    found = [entry.spelled for entry in keras_table.entries(family).values()]
    short = [text for entry in keras_table.entries(family).values() for text in entry.strings if text.islower()]
    return [*found, *short, *keras_table.CHOSEN_BY_KERAS.get(family, ())]


def _elsewhere(name: str, family: str) -> str:
    homes = [home for home in keras_table.families() if home != family and keras_table.find(home, name) is not None]
    return f"`{name}` is {_article(homes[0])} {homes[0]}" if homes else ""


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _arguments(
    entry: Entry, options: tuple[nodes.Option, ...], name: nodes.Name, faults: Faults, *, sweeps: bool
) -> tuple[tuple[str, ir.Value], ...]:
    found: dict[str, ir.Value] = {}
    for option in options:
        parameter = entry.parameters.get(option.name.text)
        if parameter is None:
            _report_unknown(entry, option, faults)
        elif option.name.text in found:
            faults.error(
                "MG204", f"argument `{option.name.text}` is given twice", option.name.span, label="given before"
            )
        else:
            found[option.name.text] = _argument(entry, option, parameter, faults, sweeps)
    for missing in (key for key, parameter in entry.parameters.items() if parameter.required and key not in found):
        faults.error(
            "MG215",
            f"`{entry.spelled}` needs the argument `{missing}`",
            name.span,
            label=f"`{missing}` is missing",
            help=(f"write `{entry.spelled}({missing}=...)`",),
        )
    return tuple(found.items())


def _argument(entry: Entry, option: nodes.Option, parameter: Parameter, faults: Faults, sweeps: bool) -> ir.Value:
    value, kinds = option.value, parameter.kinds
    literal = value.value if isinstance(value, nodes.Literal) else _NO_LITERAL
    if literal is None and parameter.default is None and not parameter.required:
        return None
    if _is_scalar(literal, kinds):
        return literal  # type: ignore[return-value]
    if isinstance(value, nodes.Identifier) and "str" in kinds:
        return value.name
    if isinstance(value, nodes.ListValue):
        numbers = _numbers(value, kinds)
        if "list" in kinds and all(isinstance(item, nodes.Literal | nodes.Identifier) for item in value.items):
            return tuple(_atom(item) for item in value.items)
        if sweeps and numbers:
            return Sweep(numbers, value.span)  # type: ignore[return-value]
    if isinstance(value, nodes.MapValue) and "map" in kinds:
        return _map(value)
    family = next((kind for kind in kinds if kind in keras_table.families()), None)
    if family is not None and isinstance(value, nodes.Identifier | nodes.Call):
        return resolve_call(value, family, faults)
    _report_type(entry, option, parameter, faults)
    return None


_NO_LITERAL = object()


def _is_scalar(literal: object, kinds: tuple[str, ...]) -> bool:
    if isinstance(literal, bool):
        return "bool" in kinds
    if isinstance(literal, int):
        return "int" in kinds or "number" in kinds
    if isinstance(literal, float):
        return "number" in kinds and math.isfinite(literal)
    return isinstance(literal, str) and "str" in kinds


def _numbers(value: nodes.ListValue, kinds: tuple[str, ...]) -> tuple[int | float, ...]:
    """The items of a list that sweeps a numeric argument, or nothing where an item is not of the argument's kind."""
    literals = [item.value if isinstance(item, nodes.Literal) else None for item in value.items]
    numeric = tuple(kind for kind in kinds if kind in ("number", "int"))
    return tuple(literals) if all(_is_scalar(literal, numeric) for literal in literals) else ()  # type: ignore[arg-type]


def _atom(value: nodes.Value) -> int | float | str | bool | None:
    """A literal's value, a bare name as a string, and anything else as it is written."""
    if isinstance(value, nodes.Literal):
        return value.value
    return value.name if isinstance(value, nodes.Identifier) else show(value)


def _map(value: nodes.MapValue) -> ir.Map:
    return ir.Map(tuple((show(key) if (k := _atom(key)) is None else k, _atom(item)) for key, item in value.items))


def _report_unknown(entry: Entry, option: nodes.Option, faults: Faults) -> None:
    faults.error(
        "MG213",
        f"`{entry.spelled}` has no argument `{option.name.text}`",
        option.name.span,
        label="unknown argument",
        help=(faults.near(_RENAMED.get(option.name.text, option.name.text), entry.parameters),),
        notes=(f"arguments of `{entry.spelled}`: {', '.join(entry.parameters) or 'none'}",),
    )


def _report_type(entry: Entry, option: nodes.Option, parameter: Parameter, faults: Faults) -> None:
    nouns = [_noun(kind) for kind in parameter.kinds]
    if parameter.default is None and not parameter.required:
        nouns.append("`none`")
    expected = " or ".join(nouns)
    faults.error(
        "MG214",
        f"`{option.name.text}` of `{entry.spelled}` cannot be {describe(option.value)}: expected {expected}",
        option.value.span,
        label=f"expected {expected}",
    )


def _noun(kind: str) -> str:
    return _NOUNS.get(kind, f"{_article(kind)} {kind}")
