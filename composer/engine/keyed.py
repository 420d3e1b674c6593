"""The models of a `KeyedModel` as one batched program: states that are stacked from the start, and rows by key."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import BundleProgram, Kind
from composer.engine.bundle_rows import StackedRows
from composer.engine.bundle_state import StackedState
from composer.engine.bundles import BundlePass
from composer.engine.feed import ArrayRows, epoch_order
from composer.graph.keyed import KeyedModel, places_in_key, template_inputs


@dataclass(frozen=True)
class KeyedRows(ArrayRows):
    """The rows of a `KeyedModel` in memory; a batch is one of each key.

    Args:
        keys: of each row.
    """

    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, str))

    @cached_property
    def longest(self) -> int:
        """The rows of the key with most."""
        return int(np.unique(self.keys, return_counts=True)[1].max(initial=0))

    @property
    def num_batches(self) -> int:
        return math.ceil(self.longest / self.batch_size)


class KeyedState(StackedState):
    """The states of all keys during one `fit` or `evaluate`.

    Args:
        name: the member's.
        model: whose weights and slots they are.
        program: of the keys' models.
        goes_on: whether the optimizers go on from the slots of the model; else they begin anew.
    """

    def __init__(self, name: str, model: KeyedModel, program: BundleProgram, *, goes_on: bool = False) -> None:
        self.model = model
        self.name = name
        step, layer, count = program.step, model.layer, len(program.units)
        begun = [variable.value for variable in step.variables[len(layer.stacked) :]]
        values = [variable.value for variable in layer.stacked]
        values += [tf.broadcast_to(value, (count, *value.shape)) for value in begun]
        self._num_slots = 0 if step.optimizer is None else len(step.optimizer.state_variables)
        self._written = True
        if self._num_slots:
            specs = [(tuple(slot.shape), slot.dtype.name) for slot in values[-self._num_slots :]]
            if goes_on and specs == layer.slot_specs:
                values[-self._num_slots :] = [variable.value for variable in layer.slots]
            else:
                layer.make_slots(specs)
                self._written = False
        super().__init__(program, [_part(stack.members, values) for stack in program.stacks])
        self.where = {name: (0, 0)}
        self._take_rate()
        self.write()

    def replace(self, number: int, state: Any, members: np.ndarray) -> None:
        super().replace(number, state, members)
        self._written = False

    def write(self, names: Sequence[str] | None = None) -> None:
        """Bring the weights and slots of the `KeyedModel` up to date."""
        if self._written or (names is not None and self.name not in names):
            return
        order = np.argsort(np.concatenate([stack.members for stack in self.program.stacks]))
        whole = [tf.gather(tf.concat(parts, axis=0), order) for parts in zip(*self.stacked, strict=True)]
        for variable, value in zip(self.model.layer.stacked, whole, strict=False):
            variable.assign(value)
        for variable, value in zip(self.model.layer.slots, whole[len(whole) - self._num_slots :], strict=False):
            variable.assign(value)
        self._written = True

    def read(self, name: str) -> None:
        """Take over what a callback changed: weights, and the learning rate, which is then that of all keys."""
        if self._written:
            weights = [variable.value for variable in self.model.layer.stacked]
            slots = [variable.value for variable in self.model.layer.slots[: self._num_slots]]
            for state, stack in zip(self.stacked, self.program.stacks, strict=True):
                state[: len(weights)] = _part(stack.members, weights)
                state[len(state) - len(slots) :] = _part(stack.members, slots)
        self._take_rate()

    def _take_rate(self) -> None:
        """The learning rate, where it is a number, is the model's."""
        optimizer = self.program.step.optimizer
        rate = None if optimizer is None else self.model.optimizer._learning_rate
        if not isinstance(rate, keras.Variable):
            return
        place = next(i for i, each in enumerate(self.program.step.variables) if each is optimizer._learning_rate)
        for state in self.stacked:
            state[place] = tf.fill(state[place].shape, rate.value)


def _part(members: Sequence[int], values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    chosen = tf.constant(members)
    return [tf.gather(value, chosen) for value in values]


class KeyedPass(BundlePass):
    """One pass over the rows of all keys. To the others it is one member, which logs the mean over the keys.

    Args:
        kind: what its steps are.
        state: of all keys.
        rows: of each stack.
    """

    state: KeyedState

    def __init__(self, kind: Kind, state: KeyedState, rows: Sequence[StackedRows]) -> None:
        super().__init__(kind, state, rows)
        self.logged: list[dict[str, np.ndarray]] = []
        """For each epoch, by metric, the values of all keys; NaN of a key without rows."""
        lengths = np.zeros(len(self.program.names), np.int64)
        for stack, each in zip(self.program.stacks, self._rows, strict=True):
            lengths[list(stack.members)] = each.lengths
        self._there = lengths > 0

    def begin(self, epochs: Mapping[str, int]) -> None:
        if self.state.name in epochs:
            self.logged.append({})
        super().begin(dict.fromkeys(self.program.names, epochs[self.state.name]) if self.state.name in epochs else {})

    def pause(self, name: str) -> None:
        if name == self.state.name:
            for present in self._present:
                present[:] = False

    def run(self, most: int) -> dict[str, int]:
        return {self.state.name: max(super().run(most).values())}

    def logs(self) -> dict[str, dict[str, Any]]:
        by_key: dict[str, np.ndarray] = {}
        for number, stack in enumerate(self.program.stacks):
            for metric, values in self.program.logs(self.state.stacked[number]).items():
                whole = by_key.setdefault(metric, np.full((len(self.program.names), *values.shape[1:]), np.nan))
                whole[list(stack.members)] = values
        for values in by_key.values():
            values[~self._there] = np.nan
        self.logged[-1] = by_key
        return {self.state.name: {metric: np.nanmean(values, axis=0) for metric, values in by_key.items()}}


def rows_by_key(model: KeyedModel, program: BundleProgram, rows: KeyedRows) -> list[StackedRows]:
    """The rows of a `KeyedModel`, sorted by key: for each stack those of its members."""
    inputs, *others = rows.arrays
    positions = model.layer.positions(rows.keys)
    with tf.device("/device:CPU:0"):
        order = tf.constant(np.argsort(positions, kind="stable"))
        kept = (template_inputs(model.layer.template, inputs), *others)
        arrays = keras.tree.map_structure(lambda array: tf.gather(array, order), kept)
    lengths = np.bincount(positions, minlength=len(model.keys))
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    stacked = []
    for stack in program.stacks:
        members = list(stack.members)
        orders = [_order(rows, model.keys[member], int(lengths[member])) for member in members]
        with tf.device(stack.device):
            stacked.append(StackedRows(arrays, lengths[members], offsets[members], orders))
    return stacked


def _order(rows: KeyedRows, key: str, count: int) -> Callable[[int], np.ndarray]:
    """The order of a key's rows, which depends on no other key."""
    if not rows.shuffle:
        return lambda _: np.arange(count)
    return partial(epoch_order, count, zlib.crc32(f"{rows.seed}/{key}".encode()))


def keyed_predictions(state: KeyedState, rows: KeyedRows) -> Any:
    """The outputs for all rows, in their order: each through the model of its key."""
    model, program = state.model, state.program
    positions = model.layer.positions(rows.keys)
    rank = places_in_key(positions)
    stacked = rows_by_key(model, program, rows)
    found: list[Any] = [None] * len(program.stacks)

    def of_stack(number: int) -> None:
        with tf.device(program.stacks[number].device):
            stacked[number].begin([0] * len(program.stacks[number].members))
            outputs = program.predict(rows.batch_size, state.stacked[number], stacked[number])
        found[number] = keras.tree.map_structure(lambda output: output.numpy(), outputs)

    program.each(of_stack)
    where = {
        member: (number, place)
        for number, stack in enumerate(program.stacks)
        for place, member in enumerate(stack.members)
    }
    places = np.array([where[member] for member in positions.tolist()], np.int64).reshape(-1, 2)

    def joined(*parts: np.ndarray) -> np.ndarray:
        whole = np.empty((len(positions), *parts[0].shape[2:]), parts[0].dtype)
        for number, part in enumerate(parts):
            own = places[:, 0] == number
            whole[own] = part[places[own, 1], rank[own]]
        return whole

    return keras.tree.map_structure(joined, *found)
