"""A bundle: members of one architecture, stepped as one batched program.

Their states are stacked on a leading axis, and a pure step of the model that stands for all of them is mapped over it.
The stacks of a bundle run side by side, one a device or a core; no member needs anything of another, so each goes
through its rows at its own length: full batches by all that have one, the last short batch at its real size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from composer.engine.feed import ArrayRows
from composer.engine.functional_step import FunctionalStep, State, model_variables
from composer.engine.pfor import vectorized
from composer.engine.units import Unit

_TRACING = threading.RLock()
FEWEST_IN_STACK = 4
"""Members; a core does not get fewer to itself."""


class Kind(NamedTuple):
    """What the steps of a pass are.

    Args:
        trains: whether they train or evaluate.
        batch_size: rows of a full batch.
    """

    trains: bool
    batch_size: int


_ANY = Kind(False, 0)


class BundleProgram:
    """The traced functions of a bundle, for any number of its members and rows.

    Args:
        units: the members, in order; the first one's model stands for all.
        jit: whether steps of full batches are compiled by XLA.
    """

    def __init__(self, units: Sequence[Unit], *, jit: bool) -> None:
        self.units = tuple(units)
        self.jit = jit
        self.step = FunctionalStep.of(units[0].model)
        self.looped: set[str] = set()  # operations that are run member by member
        self.stacks = _placed(self.units, jit=jit)
        self._pool = ThreadPoolExecutor(len(self.stacks), thread_name_prefix="composer-bundle")
        self._functions: dict[Any, _Function] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(unit.name for unit in self.units)

    def each(self, function: Callable[[int], Any]) -> list[Any]:
        """Call a function with the number of each stack, side by side. Returns, or raises, when all are through."""
        calls = [self._pool.submit(function, number) for number in range(len(self.stacks))]
        wait(calls)
        return [call.result() for call in calls]

    def full_steps(
        self, kind: Kind, state: State, rows: StackedRows, span: tuple[int, int], through: np.ndarray | None
    ) -> State:
        """Steps of full batches.

        Args:
            kind: what they are.
            state: of the members of a stack.
            rows: theirs.
            span: the numbers of the first step and of the one after the last.
            through: by member the step before which it leaves; None where all stay.
        """
        function = self._function(kind, "full", masked=through is not None)
        leaving = () if through is None else (tf.constant(through, tf.int32),)
        first, last = (tf.constant(step, tf.int32) for step in span)
        try:
            return list(function(state, rows.arrays, rows.order, first, last, *leaving))
        except tf.errors.InvalidArgumentError as error:
            if not self.jit or "unsupported operations" not in error.message:
                raise
        self.jit = False  # XLA has no form of some operation
        return self.full_steps(kind, state, rows, span, through)

    def short_steps(
        self, kind: Kind, state: State, rows: StackedRows, starts: np.ndarray, counts: np.ndarray
    ) -> State:
        """One batch of less than the full size for each member that has one.

        Args:
            kind: what they are.
            state: of the members of a stack.
            rows: theirs.
            starts: by member, where the batch begins in its order.
            counts: by member, the rows in it; 0 where there is none.
        """
        if len(counts) > 1 and counts.min() == counts.max():
            index = rows.order_of(starts, int(counts[0]))
            return list(self._function(kind, "short")(state, rows.arrays, tf.constant(index)))
        which = np.flatnonzero(counts)
        chosen = (tf.constant(each, tf.int32) for each in (which, starts[which], counts[which]))
        return list(self._function(kind, "singly")(state, rows.arrays, rows.order, *chosen))

    def trace(self, kind: Kind, state: State, rows: StackedRows) -> None:
        """Trace the steps that every pass takes, so that a model that cannot be batched shows now.

        Raises:
            Exception: whatever TensorFlow says of an operation that it cannot batch.
        """
        step = tf.constant(0)
        self._function(kind, "full").trace(state, rows.arrays, rows.order, step, step)

    @property
    def log_names(self) -> list[str]:
        """The names that the members log under."""
        return list(self.units[0].model.get_metrics_result())

    def logs(self, state: list[tf.Tensor]) -> dict[str, np.ndarray]:
        """What the metrics of the members have counted, by name, a value for each member."""
        metrics = self._function(_ANY, "logs")(state)
        return {name: value.numpy() for name, value in metrics.items()}

    def _function(self, kind: Kind, form: str, *, masked: bool = False) -> _Function:
        jit = self.jit and form in ("full", "logs")
        key = (kind, form, masked, jit)
        with _TRACING:
            if key not in self._functions:
                make = {"full": self._full, "short": self._short, "singly": self._singly, "logs": self._logs}[form]
                function = tf.function(make(kind, masked), jit_compile=jit or None, autograph=False)
                self._functions[key] = _Function(function)
        return self._functions[key]

    def _full(self, kind: Kind, masked: bool) -> Callable[..., Any]:
        size = kind.batch_size

        def steps(state: Any, arrays: Any, order: Any, first: Any, last: Any, *through: Any) -> Any:
            def body(step: Any, *before: Any) -> Any:
                index = tf.slice(order, [0, step * size], [order.shape[0], size])
                after = self._step(kind, list(before), arrays, index)
                if masked:
                    active = step < through[0]
                    after = [_where(active, new, old) for new, old in zip(after, before, strict=True)]
                return (step + 1, *after)

            return tf.while_loop(lambda step, *_: step < last, body, (first, *state), parallel_iterations=1)[1:]

        return steps

    def _short(self, kind: Kind, _: bool) -> Callable[..., Any]:
        return lambda state, arrays, index: self._step(kind, list(state), arrays, index)

    def _singly(self, kind: Kind, _: bool) -> Callable[..., Any]:
        """Members of which each has as many rows as it likes take their steps one after another."""

        def steps(state: Any, arrays: Any, order: Any, which: Any, starts: Any, counts: Any) -> Any:
            def body(i: Any, *before: Any) -> Any:
                member = which[i]
                index = order[member, starts[i] : starts[i] + counts[i]]
                own = [tensor[member] for tensor in before]
                after = self._one(kind, own, keras.tree.map_structure(lambda array: tf.gather(array, index), arrays))
                put = zip(before, after, strict=True)
                return (i + 1, *(tf.tensor_scatter_nd_update(old, [[member]], new[None]) for old, new in put))

            return tf.while_loop(lambda i, *_: i < tf.size(which), body, (0, *state), parallel_iterations=1)[1:]

        return steps

    def _logs(self, _: Kind, __: bool) -> Callable[..., Any]:
        return lambda state: vectorized(lambda each: dict(self.step.logs(each)), list(state), self.looped)

    def _step(self, kind: Kind, state: State, arrays: Any, index: tf.Tensor) -> State:
        batch = keras.tree.map_structure(lambda array: tf.gather(array, index), arrays)
        return vectorized(lambda each: self._one(kind, each[0], each[1]), (state, batch), self.looped)

    def _one(self, kind: Kind, state: State, batch: Any) -> State:
        return (self.step.train if kind.trains else self.step.test)(state, batch)


def _where(mask: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.reshape(mask, [-1] + [1] * (len(new.shape) - 1)), new, old)


class _Function:
    """A `tf.function` that is traced by one thread at a time: the model that stands for all members is one object."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._known: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        return self.trace(*arguments)(*arguments)

    def trace(self, *arguments: Any) -> Any:
        key = tuple((tuple(leaf.shape), leaf.dtype) for leaf in keras.tree.flatten(arguments))
        with _TRACING:
            if key not in self._known:
                self._known[key] = self._function.get_concrete_function(*arguments)
        return self._known[key]


@dataclass(frozen=True)
class Stack:
    """Members of a bundle whose states are stacked on one device.

    Args:
        device: TensorFlow's name of it.
        members: their positions in the bundle.
    """

    device: str
    members: tuple[int, ...]


def _placed(units: Sequence[Unit], *, jit: bool) -> list[Stack]:
    """The members by device. A program of XLA's uses one core of a CPU, so there every core gets a part of them."""
    by_device: dict[str, list[int]] = {}
    for index, unit in enumerate(units):
        by_device.setdefault(unit.home, []).append(index)
    cores = max((os.cpu_count() or 1) // len(by_device), 1)
    stacks = []
    for device, members in by_device.items():
        parts = min(cores, len(members) // FEWEST_IN_STACK) if jit and "CPU" in device.upper() else 1
        stacks += [Stack(device, tuple(members[part::parts])) for part in range(max(parts, 1))]
    return stacks


class BundleState:
    """The states of a bundle's members during one `fit` or `evaluate`.

    Args:
        program: of the bundle.
    """

    def __init__(self, program: BundleProgram) -> None:
        self.program = program
        self.variables = [
            [*model_variables(unit.model), *unit.model.optimizer.variables] for unit in program.units
        ]
        self.where = {
            program.names[member]: (number, position)
            for number, stack in enumerate(program.stacks)
            for position, member in enumerate(stack.members)
        }
        self.stacked: list[list[tf.Tensor]] = [self._read(stack) for stack in program.stacks]
        self._metrics = _metric_positions(program.step)
        self._initial = _initial_metrics(program.units[0].model)
        self._unwritten: set[str] = set()  # members whose own objects are behind
        self._parts: dict[int, list[list[tf.Tensor]]] = {}  # by stack, what is stacked taken apart

    def _read(self, stack: Stack) -> list[tf.Tensor]:
        with tf.device(stack.device):
            members = [self.variables[member] for member in stack.members]
            return [tf.stack([_value(variable) for variable in each]) for each in zip(*members, strict=True)]

    def reset_metrics(self, number: int, present: np.ndarray) -> None:
        """Let the metrics of some members of a stack begin anew."""
        stack, state = self.program.stacks[number], list(self.stacked[number])
        with tf.device(stack.device):
            begun = tf.constant(present)
            for position, initial in zip(self._metrics, self._initial, strict=True):
                state[position] = _where(begun, tf.broadcast_to(initial, state[position].shape), state[position])
        self.replace(number, state, np.flatnonzero(present))

    def replace(self, number: int, state: State, members: np.ndarray) -> None:
        """A stack has been stepped, some members of it."""
        self.stacked[number] = state
        stack = self.program.stacks[number]
        self._unwritten.update(self.program.names[stack.members[position]] for position in members)
        self._parts.pop(number, None)

    def write(self, names: Sequence[str] | None = None) -> None:
        """Bring the members' own objects up to date, those named or all."""
        for name in self._unwritten.intersection(self.where if names is None else names):
            number, position = self.where[name]
            if number not in self._parts:
                with tf.device(self.program.stacks[number].device):
                    self._parts[number] = [tf.unstack(tensor) for tensor in self.stacked[number]]
            variables = self.variables[self.program.stacks[number].members[position]]
            for variable, parts in zip(variables, self._parts[number], strict=True):
                tf.raw_ops.AssignVariableOp(resource=variable.value.handle, value=parts[position])
            self._unwritten.discard(name)

    def read(self, name: str) -> None:
        """Take over what was changed in a member's own objects since they were written; before that there is nothing
        to take over."""
        if name in self._unwritten:
            return
        number, position = self.where[name]
        member = self.program.stacks[number].members[position]
        state = self.stacked[number]
        parts = self._parts.get(number)
        with tf.device(self.program.stacks[number].device):
            for slot, variable in enumerate(self.variables[member]):
                value = variable.numpy()
                old = state[slot][position] if parts is None else parts[slot][position]
                if not np.array_equal(value, old.numpy(), equal_nan=value.dtype.kind == "f"):
                    state[slot] = tf.tensor_scatter_nd_update(state[slot], [[position]], [value])
                    self._parts.pop(number, None)


def _value(variable: keras.Variable) -> tf.Tensor:
    """A variable's value, without what Keras and TensorFlow do around it: a bundle may have many thousands."""
    held = variable.value
    return tf.raw_ops.ReadVariableOp(resource=held.handle, dtype=held.dtype)


def _metric_positions(step: FunctionalStep) -> list[int]:
    ids = {id(variable) for variable in step.model.metrics_variables}
    return [position for position, variable in enumerate(step.variables) if id(variable) in ids]


def _initial_metrics(model: keras.Model) -> list[np.ndarray]:
    """The values that a model's metrics begin with. They are brought back: it has not been stepped."""
    before = [variable.numpy() for variable in model.metrics_variables]
    model.reset_metrics()
    initial = [variable.numpy() for variable in model.metrics_variables]
    for variable, value in zip(model.metrics_variables, before, strict=True):
        variable.assign(value)
    return initial


class StackedRows:
    """The rows of the members of a stack, as a program takes them.

    Args:
        rows: of each member; None of one that has none.
    """

    def __init__(self, rows: Sequence[ArrayRows | None]) -> None:
        self._members = list(rows)
        self.lengths = np.array([0 if each is None else each.num_rows for each in rows], np.int64)
        there = [each.arrays for each in rows if each is not None]
        self.arrays, starts = _joined(there) if there else ((), np.zeros(0, np.int64))
        self._offsets = np.zeros(len(rows), np.int64)
        self._offsets[self.lengths > 0] = starts
        # What stands behind a member's last row is the last one's: it is read and not used.
        self._order = np.zeros((len(rows), int(self.lengths.max(initial=0))), np.int32)
        self.order = tf.constant(self._order)

    def begin(self, epochs: Sequence[int | None]) -> None:
        """Let an epoch of each member begin; None for one that sits it out."""
        for member, (rows, epoch) in enumerate(zip(self._members, epochs, strict=True)):
            if rows is not None and epoch is not None:
                self._order[member, : rows.num_rows] = rows.order(epoch) + self._offsets[member]
        self.order = tf.constant(self._order)

    def order_of(self, starts: np.ndarray, count: int) -> np.ndarray:
        """(members, count): where so many rows of each are in `arrays`, from a start of its own in its order."""
        found: np.ndarray = np.take_along_axis(self._order, starts[:, None] + np.arange(count), axis=1)
        return found


class BundlePass:
    """One pass over the rows of a bundle: an epoch of training, or an evaluation.

    Args:
        kind: what its steps are.
        state: of the members.
        rows: by member; those without any sit it out.
    """

    def __init__(self, kind: Kind, state: BundleState, rows: Mapping[str, ArrayRows]) -> None:
        self.kind = kind
        self.state = state
        self.program = state.program
        self.num_batches = {name: each.num_batches for name, each in rows.items()}
        self.taken = 0
        self._present: list[np.ndarray] = []
        self._rows = []
        for stack in self.program.stacks:
            with tf.device(stack.device):
                self._rows.append(StackedRows([rows.get(self.program.names[member]) for member in stack.members]))
            self._present.append(np.zeros(len(stack.members), bool))

    def trace(self) -> None:
        """See `BundleProgram.trace`."""
        for number in range(len(self.program.stacks)):
            self.program.trace(self.kind, self.state.stacked[number], self._rows[number])

    def begin(self, epochs: Mapping[str, int]) -> None:
        """Begin a pass with the members that take part, each with the epoch that tells the order of its rows."""
        self.taken = 0
        for number, stack in enumerate(self.program.stacks):
            begun = [epochs.get(self.program.names[member]) for member in stack.members]
            with tf.device(stack.device):
                self._rows[number].begin(begun)
            self._present[number] = np.array([epoch is not None for epoch in begun]) & (self._rows[number].lengths > 0)
            if self._present[number].any():
                self.state.reset_metrics(number, self._present[number])

    def pause(self, name: str) -> None:
        """Take no more of a member's batches in this pass, if it is in the bundle."""
        if name in self.state.where:
            number, position = self.state.where[name]
            self._present[number][position] = False

    def run(self, most: int) -> dict[str, int]:
        """Take so many steps with the members that have as many. Returns how many each took."""
        counts: dict[str, int] = {}
        for part in self.program.each(lambda number: self._run_stack(number, self.taken, self.taken + most)):
            counts.update(part)
        self.taken += most
        return counts

    def skip(self, steps: int) -> None:
        """Pass over what was taken before."""
        self.taken += steps

    def logs(self) -> dict[str, dict[str, float]]:
        """What the metrics of the members have counted in this pass."""
        found: dict[str, dict[str, float]] = {}
        for number, stack in enumerate(self.program.stacks):
            values = self.program.logs(self.state.stacked[number])
            for position, member in enumerate(stack.members):
                found[self.program.names[member]] = {key: value[position] for key, value in values.items()}
        return found

    def _run_stack(self, number: int, first: int, last: int) -> dict[str, int]:
        """Steps from one number up to another, those of full batches first: each member's last is its short one."""
        rows, present, stack = self._rows[number], self._present[number], self.program.stacks[number]
        size = self.kind.batch_size
        full, rest = rows.lengths // size, rows.lengths % size
        counts = np.where(present, np.clip(full + (rest > 0), first, last) - first, 0)
        names = [self.program.names[member] for member in stack.members]
        if counts.any():
            state = self.state.stacked[number]
            with tf.device(stack.device):
                state = self._full_steps(state, rows, first, np.where(present, np.minimum(full, last), 0))
                short = present & (rest > 0) & (full >= first) & (full < last)
                if short.any():
                    state = self.program.short_steps(self.kind, state, rows, full * size, np.where(short, rest, 0))
            self.state.replace(number, state, np.flatnonzero(counts))
        return dict(zip(names, counts.tolist(), strict=True))

    def _full_steps(self, state: State, rows: StackedRows, first: int, through: np.ndarray) -> State:
        """First all of the stack, then those of its members that have more full batches, the others masked."""
        common, last = int(through.min()), int(through.max())
        if common > first:
            state = self.program.full_steps(self.kind, state, rows, (first, common), None)
        if last > max(common, first):
            state = self.program.full_steps(self.kind, state, rows, (max(common, first), last), through)
        return state


def _joined(structures: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """The arrays of several members one after another, each that they have in common once, and where each begins."""
    starts: list[int] = []
    known: dict[tuple[int, ...], int] = {}
    distinct: list[list[tf.Tensor]] = []
    length = 0
    for structure in structures:
        leaves = keras.tree.flatten(structure)
        key = tuple(id(leaf) for leaf in leaves)
        if key not in known:
            known[key] = length
            distinct.append(leaves)
            length += int(leaves[0].shape[0])
        starts.append(known[key])
    joined = [part[0] if len(part) == 1 else tf.concat(part, axis=0) for part in zip(*distinct, strict=True)]
    return keras.tree.pack_sequence_as(structures[0], joined), np.array(starts, np.int64)


@dataclass(frozen=True)
class Bundles:
    """The bundles of one `fit` or `evaluate`.

    Args:
        states: of each.
        training: their passes over the rows that they train on.
        validation: those over the rows that they are evaluated on.
    """

    states: tuple[BundleState, ...] = ()
    training: tuple[BundlePass, ...] = ()
    validation: tuple[BundlePass, ...] = ()
