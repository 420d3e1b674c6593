"""Members to bundles: which are run as one batched program, and in words why the others are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import BundleProgram, Kind, Purpose
from composer.engine.bundle_state import BundleState, StackedState
from composer.engine.bundles import NO_BUNDLES, BundlePass, Bundles, predictions
from composer.engine.feed import ArrayRows, Rows
from composer.engine.functional_optimizers import Varying
from composer.engine.keyed import KeyedPass
from composer.engine.units import Unit
from composer.graph.keyed import KeyedModel
from composer.graph.private import random_states
from composer.runtime.bundle_form import cheapest_form
from composer.runtime.keyed import keyed_evaluation, keyed_outputs, keyed_training
from composer.runtime.likeness import likeness, rows_key, varying_settings, why_alone
from composer.runtime.metric_states import build_metrics
from composer.runtime.programs import ProgramCache, build_optimizers

FEWEST = {"auto": 4, "on": 2}
"""Members of a bundle, by what the spec says of `fuse=`: of fewer, tracing a batched program costs more than it
saves."""


@dataclass(frozen=True)
class _Alike:
    """Members for one program.

    Args:
        units: they.
        jit: whether XLA is to compile it.
        settings: of their optimizers, in which they differ.
    """

    units: list[Unit]
    jit: bool
    settings: Sequence[Varying] = ()


@dataclass(frozen=True)
class Bundling:
    """What was decided.

    Args:
        bundles: to be stepped.
        names: of the members in them.
        notes: what was decided and why, in words for the plan.
        keyed: of the members with a model for each key, their passes of training and validation.
    """

    bundles: Bundles = NO_BUNDLES
    names: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    keyed: Mapping[str, tuple[KeyedPass, KeyedPass | None]] = field(default_factory=dict)


def bundled_training(
    units: Sequence[Unit],
    training: Mapping[str, Rows],
    validation: Mapping[str, Rows],
    programs: ProgramCache,
    fuse: str,
) -> Bundling:
    """Find the members that can be trained together, and make their bundles.

    Args:
        units: all members.
        training, validation: their rows.
        programs: where traced programs are kept.
        fuse: the spec's `fuse=`.
    """
    alike, notes = _alike(units, training, validation, programs, fuse, "train")
    bundles = Bundles()
    names: set[str] = set()
    keyed = {
        unit.name: keyed_training(unit, training[unit.name], validation.get(unit.name), programs.jit)
        for unit in filter(_is_keyed, units)
    }
    for name, (steps, evaluation) in keyed.items():
        bundles = _with(bundles, steps.state, steps, [] if evaluation is None else [evaluation])
        names.add(name)
        layer = steps.state.model.layer
        notes.append(f"`{name}` is {len(layer.keys)} models, one for each `{layer.column}`: {_told(steps.program)}")
    for group in alike:
        told = _named(group.units)
        build_optimizers(group.units)
        build_metrics(group.units, training)
        drawn = random_states(group.units[0].model)
        before = [np.array(seeds) for seeds in drawn]
        try:
            state, stepped, evaluated = _prepared(group, training, validation, programs)
        except Exception as error:  # whatever an operation that cannot be batched raises
            notes.append(f"{told} are joined: they cannot be batched ({_last_line(error)})")
            for seeds, value in zip(drawn, before, strict=True):
                seeds.assign(value)  # an operation may have drawn before the one that failed
            continue
        bundles = _with(bundles, state, stepped, evaluated)
        names.update(state.program.names)
        notes.append(f"{told} are {_told(state.program)}")
    return Bundling(bundles, frozenset(names), tuple(notes), keyed)


def _with(bundles: Bundles, state: StackedState, steps: BundlePass, evaluation: Sequence[BundlePass]) -> Bundles:
    return Bundles((*bundles.states, state), (*bundles.training, steps), (*bundles.validation, *evaluation))


def _is_keyed(unit: Unit) -> bool:
    return isinstance(unit.model, KeyedModel)


def bundled_evaluation(units: Sequence[Unit], rows: Mapping[str, Rows], programs: ProgramCache, fuse: str) -> Bundling:
    """Find the members that can be evaluated together, and make their bundles."""
    passes: list[BundlePass] = [
        keyed_evaluation(unit, rows[unit.name], programs.jit) for unit in filter(_is_keyed, units)
    ]
    for group in _alike(units, rows, {}, programs, fuse, "test")[0]:
        build_metrics(group.units, rows)
        each = _pass("test", BundleState(programs.bundle(group.units, jit=group.jit, trains=False)), rows)
        with suppress(Exception):  # whatever an operation that cannot be batched raises; they are joined
            each.prepare()
            passes.append(each)
    states = tuple(each.state for each in passes)
    names = frozenset(name for state in states for name in state.where)
    return Bundling(Bundles(states, validation=tuple(passes)), names)


def bundled_predictions(
    units: Sequence[Unit], rows: Mapping[str, Rows], programs: ProgramCache, fuse: str
) -> dict[str, Any]:
    """The outputs of the members that can be run together, by member."""
    outputs = {unit.name: keyed_outputs(unit, rows[unit.name], programs.jit) for unit in filter(_is_keyed, units)}
    for group in _alike(units, rows, {}, programs, fuse, "predict")[0]:
        with suppress(Exception):  # whatever an operation that cannot be batched raises; they are joined
            program = programs.bundle(group.units, jit=group.jit, trains=False)
            outputs.update(predictions(program, _arrays(rows, group.units)))
    return outputs


def _prepared(
    group: _Alike, training: Mapping[str, Rows], validation: Mapping[str, Rows], programs: ProgramCache
) -> tuple[BundleState, BundlePass, list[BundlePass]]:
    """A bundle whose steps are traced and compiled; without XLA where that has no form of an operation.

    Raises:
        Exception: whatever an operation that cannot be batched raises.
    """
    drawn = bool(random_states(group.units[0].model))
    for compiled in [True, False] if group.jit and not drawn else [group.jit]:
        program = programs.bundle(group.units, jit=compiled, trains=True, settings=group.settings)
        state = BundleState(program)
        steps = _pass("train", state, training)
        validated = any(unit.name in validation for unit in group.units)
        evaluation = [_pass("test", state, validation)] if validated else []
        try:
            for each in (steps, *evaluation):
                each.prepare()
            return state, steps, evaluation
        except tf.errors.OpError:
            if not compiled or drawn:
                raise
    raise AssertionError("unreachable")


def _named(group: Sequence[Unit]) -> str:
    return f"{len(group)} members like `{group[0].name}`"


def _told(program: BundleProgram) -> str:
    looped = f"; member by member: {', '.join(sorted(program.looped))}" if program.looped else ""
    devices = len({stack.device for stack in program.stacks})
    spread = f", on {devices} devices" if devices > 1 else ""
    return f"one batched program{', compiled by XLA' if program.jit else ''}{spread}{looped}"


def _pass(purpose: Purpose, state: BundleState, rows: Mapping[str, Rows]) -> BundlePass:
    arrays = _arrays(rows, state.program.units)
    (size,) = {each.batch_size for each in arrays.values()}
    return BundlePass.of(Kind(purpose, size), state, arrays)


def _arrays(rows: Mapping[str, Rows], group: Sequence[Unit]) -> dict[str, ArrayRows]:
    there = {unit.name: rows[unit.name] for unit in group if unit.name in rows}
    return {name: each for name, each in there.items() if isinstance(each, ArrayRows)}


def _alike(
    units: Sequence[Unit],
    rows: Mapping[str, Rows],
    validation: Mapping[str, Rows],
    programs: ProgramCache,
    fuse: str,
    purpose: Purpose,
) -> tuple[list[_Alike], list[str]]:
    """Members in groups that are one program each, and why the others are in none."""
    units = [unit for unit in units if not _is_keyed(unit)]
    if fuse == "off" or len(units) < FEWEST[fuse]:
        return [], []
    shared = Counter(id(variable) for unit in units for variable in unit.model.variables)
    groups: dict[object, list[Unit]] = {}
    notes = []
    for unit in units:
        given, evaluated = rows[unit.name], validation.get(unit.name)
        reason = why_alone(unit, given, shared, purpose)
        if reason is None and evaluated is not None:
            reason = why_alone(unit, evaluated, shared, "test")
        if reason is not None:
            notes.append(f"`{unit.name}` is joined: {reason}")
            continue
        assert isinstance(given, ArrayRows)
        groups.setdefault(likeness(unit, given, purpose), []).append(unit)
    found, dear = [], []
    for part in (part for group in groups.values() for part in _by_validation(group, validation)):
        ruled, settings = varying_settings(part) if purpose == "train" else ([part], [])
        for alike in (alike for alike in ruled if len(alike) >= FEWEST[fuse]):
            form = cheapest_form(alike[0], _arrays(rows, alike)[alike[0].name], programs.jit, purpose)
            if form.reason is None or fuse == "on":
                found.append(_Alike(alike, form.jit, settings))
            else:
                dear.append(f"{_named(alike)} are joined: {form.reason}")
    return found, [*notes, *dear] if found or dear else []


def _by_validation(group: Sequence[Unit], validation: Mapping[str, Rows]) -> list[list[Unit]]:
    """Members whose validation rows are alike; those that have none are with the first."""
    parts: dict[object, list[Unit]] = {}
    for unit in group:
        rows = validation.get(unit.name)
        if isinstance(rows, ArrayRows):
            parts.setdefault(rows_key(rows), []).append(unit)
    first = next(iter(parts.values()), None)
    without = [unit for unit in group if unit.name not in validation]
    if first is None:
        return [without]
    first[:] = [unit for unit in group if unit in first or unit in without]
    return list(parts.values())


def _last_line(error: Exception) -> str:
    """What an error says, without the calls that led to it."""
    return re.sub(r"^\w*(Error|Exception): ", "", str(error).strip().splitlines()[-1].strip())[:200]
