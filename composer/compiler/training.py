"""`train` statements -> the settings and the seed of each member."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.compiler.keras_calls import pick, resolve_call, sweeps_in
from composer.compiler.options import TrainOptions, read_options
from composer.compiler.values import describe, show
from composer.language import nodes
from composer.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """One `train` statement, judged: the options it gives, as the IR holds them.

    `values` may hold `Sweep`s inside `optimizer` and a tuple as `seed`; both are told apart by copy in `settings`.
    """

    name: str | None
    values: dict[str, Any]
    spans: dict[str, Span]


@dataclass(frozen=True, slots=True)
class Place:
    """Which member settings are asked for: its name, its branch, its position among `copies`."""

    member: str
    branch: str
    index: int = 0
    copies: int | None = None


def read_training(statement: nodes.Train, faults: Faults) -> Training:
    """Judges one `train` statement; options at fault are reported and left out."""
    read = read_options(TrainOptions, statement.options, faults)
    values: dict[str, Any] = {}
    for name, option in read.given.items():
        if isinstance(option.value, nodes.Literal) and option.value.value is None:
            values[name] = None  # takes back what a more general statement gave
        elif name == "optimizer":
            values[name] = resolve_call(option.value, "optimizer", faults)
        elif name == "loss":
            values[name] = _by_output(option.value, "loss", faults)
        elif name == "metrics":
            values[name] = _by_output(option.value, "metric", faults)
        elif name == "callbacks":
            values[name] = _callbacks(option, faults)
        elif name == "class_weight":
            weights = read.values.class_weight or {}
            values[name] = ir.Map(tuple(weights.items()))
        else:
            values[name] = getattr(read.values, name)
    spans = {name: option.value.span for name, option in read.given.items()}
    return Training(statement.name.text if statement.name else None, values, spans)


def settings(trainings: Sequence[Training], place: Place, faults: Faults) -> ir.TrainSettings:
    """The settings of one member; a later statement of `trainings` wins over an earlier one, option by option."""
    merged: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    for training in trainings:
        merged.update(training.values)
        spans.update(training.spans)
    merged.pop("seed", None)
    optimizer = merged.get("optimizer")
    if optimizer is not None and (sweeps := sweeps_in(optimizer)):
        fits = [_fits(len(sweep.values), sweep.span, "a sweep", place, faults) for sweep in sweeps]
        merged["optimizer"] = pick(optimizer, place.index) if all(fits) else None
    places = tuple((name, span) for name, span in spans.items() if name in merged)
    return ir.TrainSettings(**{**merged, "callbacks": merged.get("callbacks") or ()}, spans=places)


def seed(trainings: Sequence[Training], place: Place, faults: Faults) -> int:
    """A member's seed.

    Under its own name it is taken as given; a seed for several members is a base that is combined with each one's name;
    without any it comes from the name alone, so that other members never change it.
    """
    for training in reversed(trainings):
        given = training.values.get("seed")
        if isinstance(given, tuple):
            span = training.spans["seed"]
            return int(given[place.index]) if _fits(len(given), span, "a list of seeds", place, faults) else 0
        if given is not None:
            alone = training.name == place.member
            return int(given) if alone else stable_seed(f"{given}:{place.member}")
    return stable_seed(place.member)


def stable_seed(text: str) -> int:
    """A number from 0 to 2**31 - 1 that depends on the text alone, in every process."""
    return zlib.crc32(text.encode("utf-8")) & 0x7FFFFFFF


def _fits(length: int, span: Span, what: str, place: Place, faults: Faults) -> bool:
    """Whether a list has one entry for each copy; reports where it has not."""
    if place.copies == length:
        return True
    if place.copies is None:
        faults.error(
            "MG209",
            f"{what} has one value for each copy, and `{place.branch}` has no `copies=`",
            span,
            label=f"{length} values for one member",
            help=(f"write `{place.branch} copies={length}` in the composition, or give one value",),
        )
    else:
        faults.error(
            "MG209",
            f"{what} needs one value for each copy: `{place.branch}` has {place.copies} copies, not {length}",
            span,
            label=f"expected {place.copies} values",
        )
    return False


def _callbacks(option: nodes.Option, faults: Faults) -> tuple[ir.Call, ...]:
    items = option.value.items if isinstance(option.value, nodes.ListValue) else (option.value,)
    found = (resolve_call(item, "callback", faults) for item in items)
    return tuple(call for call in found if call is not None)


def _by_output(value: nodes.Value, family: str, faults: Faults) -> ir.Value:
    """A loss or metrics: one, a list (for several outputs, or several metrics), or a map by output name."""
    if isinstance(value, nodes.Literal) and value.value is None:
        return None
    if isinstance(value, nodes.ListValue):
        if family == "loss" and not value.items:
            faults.error("MG208", "`loss` cannot be an empty list", value.span, label="expected a loss for each output")
        return tuple(_by_output(item, family, faults) for item in value.items)
    if isinstance(value, nodes.MapValue):
        return ir.Map(tuple((_output(key, faults), _by_output(item, family, faults)) for key, item in value.items))
    return resolve_call(value, family, faults)


def _output(key: nodes.Value, faults: Faults) -> str:
    if isinstance(key, nodes.Identifier):
        return key.name
    if isinstance(key, nodes.Literal) and isinstance(key.value, str):
        return key.value
    expected = "expected the name of an output"
    faults.error("MG208", f"{describe(key)} names no output: {expected}", key.span, label=expected)
    return show(key)
