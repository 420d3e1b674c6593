"""Members to bundles: which are run as one batched program, and in words why the others are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import BundleProgram, Kind, Purpose
from composer.engine.bundle_state import BundleState
from composer.engine.bundles import NO_BUNDLES, BundlePass, Bundles, predictions
from composer.engine.feed import ArrayRows, Rows
from composer.engine.functional_optimizers import Varying
from composer.engine.units import Unit
from composer.graph.private import random_states
from composer.runtime.bundle_form import cheapest_form
from composer.runtime.likeness import likeness, rows_key, varying_settings, why_alone
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
    """

    bundles: Bundles = NO_BUNDLES
    names: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


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
    for group in alike:
        told = _named(group.units)
        build_optimizers(group.units)
        _build_metrics(group.units, training)
        drawn = random_states(group.units[0].model)
        before = [np.array(seeds) for seeds in drawn]
        try:
            state, steps, evaluation = _prepared(group, training, validation, programs)
        except Exception as error:  # whatever an operation that cannot be batched raises
            notes.append(f"{told} are joined: they cannot be batched ({_last_line(error)})")
            for seeds, value in zip(drawn, before, strict=True):
                seeds.assign(value)  # an operation may have drawn before the one that failed
            continue
        bundles = Bundles((*bundles.states, state), (*bundles.training, steps), (*bundles.validation, *evaluation))
        names.update(state.program.names)
        notes.append(f"{told} are {_told(state.program)}")
    return Bundling(bundles, frozenset(names), tuple(notes))


def bundled_evaluation(units: Sequence[Unit], rows: Mapping[str, Rows], programs: ProgramCache, fuse: str) -> Bundling:
    """Find the members that can be evaluated together, and make their bundles."""
    passes = []
    for group in _alike(units, rows, {}, programs, fuse, "test")[0]:
        _build_metrics(group.units, rows)
        each = _pass("test", BundleState(programs.bundle(group.units, jit=group.jit, trains=False)), rows)
        with suppress(Exception):  # whatever an operation that cannot be batched raises; they are joined
            each.prepare()
            passes.append(each)
    states = tuple(each.state for each in passes)
    names = frozenset(name for state in states for name in state.program.names)
    return Bundling(Bundles(states, validation=tuple(passes)), names)


def bundled_predictions(
    units: Sequence[Unit], rows: Mapping[str, Rows], programs: ProgramCache, fuse: str
) -> dict[str, Any]:
    """The outputs of the members that can be run together, by member."""
    outputs: dict[str, Any] = {}
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
    return BundlePass(Kind(purpose, size), state, arrays)


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


def _build_metrics(group: Sequence[Unit], rows: Mapping[str, Rows]) -> None:
    """Make what the metrics of the members count in, where it is not there: Keras does so at the first batch."""
    counted = None
    for unit in group:
        if counted is None or len(unit.model.metrics_variables) != counted:
            _build_model_metrics(unit.model, rows[unit.name])
        counted = len(unit.model.metrics_variables)


def _build_model_metrics(model: keras.Model, rows: Rows) -> None:
    assert isinstance(rows, ArrayRows)
    one_row = keras.tree.map_structure(lambda array: array[:1], rows.arrays)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(one_row)
    drawn = random_states(model)
    before = [np.array(state) for state in drawn]  # a recurrent cell draws even where it drops nothing
    with tf.device("/device:CPU:0"):
        y_pred = model(x, training=False)
        model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
    model.reset_metrics()
    for state, value in zip(drawn, before, strict=True):
        state.assign(value)


def _last_line(error: Exception) -> str:
    """What an error says, without the calls that led to it."""
    return re.sub(r"^\w*(Error|Exception): ", "", str(error).strip().splitlines()[-1].strip())[:200]
