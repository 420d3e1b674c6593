"""Members to bundles: which are run as one batched program, and in words why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf

from composer.engine.bundles import BundlePass, Bundles, BundleState, Kind
from composer.engine.feed import ArrayRows, Rows
from composer.engine.units import Unit
from composer.runtime.likeness import compiled_by_xla, likeness, why_alone
from composer.runtime.programs import ProgramCache, build_optimizers

FEWEST = {"auto": 4, "on": 2}
"""Members of a bundle, by what the spec says of `fuse=`: of fewer, tracing a batched program costs more than it
saves."""


@dataclass(frozen=True)
class Bundling:
    """What was decided.

    Args:
        bundles: to be stepped.
        names: of the members in them.
        notes: what was decided and why, in words for the plan.
    """

    bundles: Bundles = Bundles()
    names: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def bundled(
    units: Sequence[Unit],
    training: Mapping[str, Rows],
    validation: Mapping[str, Rows],
    programs: ProgramCache,
    fuse: str,
) -> Bundling:
    """Find the members that are alike, and make their bundles.

    Args:
        units: all members.
        training, validation: their rows.
        programs: where traced programs are kept.
        fuse: the spec's `fuse=`.
    """
    if fuse == "off":
        return Bundling()
    alike, notes = _alike(units, training, validation, FEWEST[fuse])
    states, passes, evaluations = [], [], []
    names: set[str] = set()
    for group in alike:
        told = f"{len(group)} members like `{group[0].name}`"
        build_optimizers(group)
        _build_metrics(group, training)
        program = programs.bundle(group, jit=compiled_by_xla([unit.model for unit in group], programs.jit))
        state = BundleState(program)
        steps = BundlePass(_kind(True, training, group), state, _of(training, group))
        try:
            steps.trace()
        except Exception as error:  # whatever an operation that cannot be batched raises
            notes.append(f"{told} are joined: they cannot be batched ({_first_line(error)})")
            continue
        states.append(state)
        passes.append(steps)
        with_validation = [unit for unit in group if unit.name in validation]
        if with_validation:
            evaluations.append(
                BundlePass(_kind(False, validation, with_validation), state, _of(validation, with_validation))
            )
        names.update(program.names)
        looped = f"; member by member: {', '.join(sorted(program.looped))}" if program.looped else ""
        notes.append(f"{told} are one batched program{', compiled by XLA' if program.jit else ''}{looped}")
    return Bundling(Bundles(tuple(states), tuple(passes), tuple(evaluations)), frozenset(names), tuple(notes))


def _alike(
    units: Sequence[Unit], training: Mapping[str, Rows], validation: Mapping[str, Rows], fewest: int
) -> tuple[list[list[Unit]], list[str]]:
    shared = Counter(id(variable) for unit in units for variable in unit.model.variables)
    groups: dict[object, list[Unit]] = {}
    notes = []
    for unit in units:
        rows, evaluated = training[unit.name], validation.get(unit.name)
        reason = why_alone(unit, rows, shared)
        if reason is None and evaluated is not None:
            reason = why_alone(unit, evaluated, shared)
        if reason is not None:
            notes.append(f"`{unit.name}` is joined: {reason}")
            continue
        assert isinstance(rows, ArrayRows)
        assert evaluated is None or isinstance(evaluated, ArrayRows)
        groups.setdefault(likeness(unit, rows, evaluated), []).append(unit)
    found = [group for group in groups.values() if len(group) >= fewest]
    return found, notes if found else []


def _kind(trains: bool, rows: Mapping[str, Rows], group: Sequence[Unit]) -> Kind:
    first = rows[group[0].name]
    assert isinstance(first, ArrayRows)
    return Kind(trains, first.batch_size)


def _of(rows: Mapping[str, Rows], group: Sequence[Unit]) -> dict[str, ArrayRows]:
    found = {unit.name: rows[unit.name] for unit in group}
    return {name: each for name, each in found.items() if isinstance(each, ArrayRows)}


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
    with tf.device("/device:CPU:0"):
        y_pred = model(x, training=False)
        model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
    model.reset_metrics()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
