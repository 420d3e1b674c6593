"""The traced functions of a bundle: steps of all members of a stack as one batched computation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_rows import StackedRows
from composer.engine.functional_optimizers import Varying
from composer.engine.functional_step import FunctionalStep, State, model_variables, unrolled
from composer.engine.pfor import vectorized
from composer.engine.units import Unit
from composer.graph.private import compiled_metrics

Purpose = Literal["train", "test", "predict"]
_TRACING = threading.RLock()
FEWEST_IN_STACK = 4
"""Members; a core does not get fewer to itself."""
FEWEST_OF_A_SIZE = 4
"""Members whose short batches are equally long; fewer take them one after another."""


class Kind(NamedTuple):
    """What the steps of a pass are.

    Args:
        purpose: what a step does.
        batch_size: rows of a full batch.
    """

    purpose: Purpose
    batch_size: int


class BundleProgram:
    """The traced functions of a bundle, for any number of its members and rows.

    Args:
        units: the members, in order; the first one's model stands for all.
        jit: whether steps of full batches are compiled by XLA.
        trains: whether it is to train; else the optimizers are left out.
        settings: of the optimizers, which differ from member to member.
    """

    def __init__(
        self, units: Sequence[Unit], *, jit: bool, trains: bool = True, settings: Sequence[Varying] = ()
    ) -> None:
        self.units = tuple(units)
        self.names = tuple(unit.name for unit in units)
        self.jit = jit
        self.columns = jit and all("CPU" in unit.home.upper() for unit in units)  # see `vectorized`
        self.trains = trains
        self.settings = tuple(settings)
        self.step = FunctionalStep.of(units[0].model, trains=trains, settings=settings)
        # Kept: as in Keras' own `fit`, freezing a layer of a program that is traced waits for a `compile`.
        self.variables = [
            [*model_variables(unit.model), *(unit.model.optimizer.variables if trains else [])] for unit in units
        ]
        flags = [[variable.trainable for variable in unit.model.variables] for unit in units]
        if any(each != flags[0] for each in flags):
            raise ValueError("layers have been frozen in some of them since they were compiled")
        self.looped: set[str] = set()  # operations that are run member by member
        self.stacks = _placed(self.units, jit=jit)
        self._pool = ThreadPoolExecutor(len(self.stacks), thread_name_prefix="composer-bundle")
        self._functions: dict[Any, _Function] = {}

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
        return list(function(state, rows.arrays, rows.order, first, last, *leaving))

    def short_steps(self, kind: Kind, state: State, rows: StackedRows, starts: np.ndarray, counts: np.ndarray) -> State:
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
        for size, members in _of_one_size(counts).items():
            chosen, index = tf.constant(members, tf.int32), rows.order_of(starts, size, members)
            state = self._function(kind, "sized")(state, rows.arrays, chosen, tf.constant(index))
            counts = np.where(counts == size, 0, counts)
        if not counts.any():
            return list(state)
        first = np.argsort(counts == 0, kind="stable")  # those with a batch come first
        chosen = [tf.constant(each, tf.int32) for each in (first, starts[first], counts[first])]
        many = tf.constant(np.count_nonzero(counts), tf.int32)
        return list(self._function(kind, "singly")(state, rows.arrays, rows.order, *chosen, many))

    def prepare(self, kind: Kind, state: State, rows: StackedRows) -> None:
        """Trace and compile the steps that a pass takes, so that a model that cannot be batched shows now.

        Raises:
            Exception: whatever TensorFlow says of an operation that it cannot batch or compile.
        """
        if rows.lengths.max() >= kind.batch_size:
            through = np.zeros(len(state[0]), np.int32) if rows.uneven else None
            self.full_steps(kind, state, rows, (0, 0), through)  # no step
        rest = rows.lengths % kind.batch_size
        if len(rest) > 1 and rest[0] and (rest == rest[0]).all():
            index = tf.constant(rows.order_of(np.zeros_like(rest), int(rest[0])))
            self._function(kind, "short").trace(state, rows.arrays, index)

    @cached_property
    def log_names(self) -> list[list[str]]:
        """By member the names that it logs under; metrics and outputs may be named by the layers' counts."""
        first = self.units[0].model
        alike = list(first.get_metrics_result())
        return [
            alike if naming(unit.model) == naming(first) else list(unit.model.get_metrics_result())
            for unit in self.units
        ]

    def logs(self, state: list[tf.Tensor]) -> dict[str, np.ndarray]:
        """What the metrics of the members have counted, by the first one's names, a value for each member."""
        metrics = self._function(Kind("test", 0), "logs")(state)
        return {name: value.numpy() for name, value in metrics.items()}

    def _function(self, kind: Kind, form: str, *, masked: bool = False) -> _Function:
        jit = self.jit and form in ("full", "logs", "predict")
        key = (kind, form, masked, jit)
        with _TRACING:
            if key not in self._functions:
                forms = {"full": self._full, "short": self._short, "sized": self._sized, "singly": self._singly}
                make = {**forms, "logs": self._logs, "predict": self._predict}[form]
                function = tf.function(make(kind, masked), jit_compile=jit or None, autograph=False)
                within = partial(unrolled, self.step.model) if jit else nullcontext
                self._functions[key] = _Function(function, within, num_open=2 if form == "sized" else 0)
        return self._functions[key]

    def _full(self, kind: Kind, masked: bool) -> Callable[..., Any]:
        size = kind.batch_size

        def steps(state: Any, arrays: Any, order: Any, first: Any, last: Any, *through: Any) -> Any:
            def body(step: Any, *before: Any) -> Any:
                index = tf.slice(order, [0, step * size], [order.shape[0], size])
                after = self._step(kind, list(before), arrays, index)
                if masked:
                    active = step < through[0]
                    after = [choose(active, new, old) for new, old in zip(after, before, strict=True)]
                return (step + 1, *after)

            return tf.while_loop(lambda step, *_: step < last, body, (first, *state), parallel_iterations=1)[1:]

        return steps

    def predict(self, batch_size: int, state: State, rows: StackedRows) -> Any:
        """The outputs of all members of a stack for all of its rows, batch by batch: tensors (members, rows, ...).

        Rows behind a member's last one mean nothing.
        """
        length = rows.order.shape[1]
        size = max(min(batch_size, length), 1)
        missing = -length % size if length else 1
        order = tf.pad(rows.order, [[0, 0], [0, missing]], constant_values=0)
        outputs = self._function(Kind("predict", size), "predict")(state, rows.arrays, order)
        return keras.tree.map_structure(lambda output: output[:, :length], outputs)

    def _predict(self, kind: Kind, _: bool) -> Callable[..., Any]:
        size = kind.batch_size

        def run(state: Any, arrays: Any, order: Any) -> Any:
            members, length = order.shape

            def batch(index: Any) -> Any:
                x = keras.tree.map_structure(lambda array: tf.gather(array, index), arrays)
                return vectorized(
                    lambda each: self.step.predict(each[0], each[1]),
                    (list(state), x),
                    self.looped,
                    columns=self.columns,
                )

            batches = tf.transpose(tf.reshape(order, [members, length // size, size]), [1, 0, 2])
            if length == size:
                return batch(batches[0])
            like = keras.tree.map_structure(
                lambda output: tf.TensorSpec(output.shape, output.dtype),
                tf.function(batch, autograph=False).get_concrete_function(batches[0]).structured_outputs,
            )
            steps = tf.map_fn(batch, batches, fn_output_signature=like, parallel_iterations=1)
            return keras.tree.map_structure(_by_member, steps)

        return run

    def _short(self, kind: Kind, _: bool) -> Callable[..., Any]:
        return lambda state, arrays, index: self._step(kind, list(state), arrays, index)

    def _sized(self, kind: Kind, _: bool) -> Callable[..., Any]:
        """Some members take a step of so many rows each; how many members and rows, is open."""

        def step(state: Any, arrays: Any, chosen: Any, index: Any) -> Any:
            after = self._step(kind, [tf.gather(tensor, chosen) for tensor in state], arrays, index)
            where = chosen[:, None]
            return [tf.tensor_scatter_nd_update(old, where, new) for old, new in zip(state, after, strict=True)]

        return step

    def _singly(self, kind: Kind, _: bool) -> Callable[..., Any]:
        """Members of which each has as many rows as it likes take their steps one after another."""

        def steps(state: Any, arrays: Any, order: Any, which: Any, starts: Any, counts: Any, many: Any) -> Any:
            def body(i: Any, *before: Any) -> Any:
                member = which[i]
                index = order[member, starts[i] : starts[i] + counts[i]]
                own = [tensor[member] for tensor in before]
                after = self._one(kind, own, keras.tree.map_structure(lambda array: tf.gather(array, index), arrays))
                put = zip(before, after, strict=True)
                return (i + 1, *(tf.tensor_scatter_nd_update(old, [[member]], new[None]) for old, new in put))

            return tf.while_loop(lambda i, *_: i < many, body, (0, *state), parallel_iterations=1)[1:]

        return steps

    def _logs(self, _: Kind, __: bool) -> Callable[..., Any]:
        return lambda state: vectorized(lambda each: dict(self.step.logs(each)), list(state), self.looped)

    def _step(self, kind: Kind, state: State, arrays: Any, index: tf.Tensor) -> State:
        batch = keras.tree.map_structure(lambda array: tf.gather(array, index), arrays)
        return vectorized(
            lambda each: self._one(kind, each[0], each[1]), (state, batch), self.looped, columns=self.columns
        )

    def _one(self, kind: Kind, state: State, batch: Any) -> State:
        return (self.step.train if kind.purpose == "train" else self.step.test)(state, batch)


def naming(model: keras.Model) -> tuple[Any, ...]:
    """What of a model decides the names that it logs under, where losses and metrics are alike."""
    outputs = tuple(getattr(model, "output_names", None) or ())
    return (outputs if len(outputs) > 1 else (), *(metric.name for metric in compiled_metrics(model)))


def choose(mask: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """The new values of some members, the old ones of the others."""
    return tf.where(tf.reshape(mask, [-1] + [1] * (len(new.shape) - 1)), new, old)


def _of_one_size(counts: np.ndarray) -> dict[int, np.ndarray]:
    """The members whose batches are equally long, by length, where they are several."""
    sizes, numbers = np.unique(counts[counts > 0], return_counts=True)
    return {int(size): np.flatnonzero(counts == size) for size in sizes[numbers >= FEWEST_OF_A_SIZE]}


def _by_member(steps: tf.Tensor) -> tf.Tensor:
    """(steps, members, rows, ...) to (members, steps * rows, ...)."""
    shape = steps.shape
    return tf.reshape(tf.experimental.numpy.moveaxis(steps, 0, 1), [shape[1], shape[0] * shape[2], *shape[3:]])


class _Function:
    """A `tf.function` that is traced by one thread at a time: the model that stands for all members is one object.

    Args:
        function: with its structure of arguments fixed and their shapes open.
        within: makes the context to trace in.
        num_open: of the last arguments, how many are tensors of any shape.
    """

    def __init__(self, function: Any, within: Callable[[], AbstractContextManager[None]], num_open: int = 0) -> None:
        self._function = function
        self._within = within
        self._num_open = num_open
        self._known: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        return self.trace(*arguments)(*arguments)

    def trace(self, *arguments: Any) -> Any:
        fixed = len(arguments) - self._num_open
        loose = [tf.TensorSpec([None] * len(each.shape), each.dtype) for each in arguments[fixed:]]
        arguments = (*arguments[:fixed], *loose)
        key = tuple((tuple(leaf.shape), leaf.dtype) for leaf in keras.tree.flatten(arguments))
        with _TRACING:
            if key not in self._known:
                with self._within():
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
        parts = max(parts, 1)
        stacks += [Stack(device, tuple(members[part::parts])) for part in range(parts)]
    return stacks
