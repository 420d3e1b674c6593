"""The states of a bundle's members, stacked; and back to the members' own objects."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import BundleProgram, Stack, choose
from composer.engine.functional_step import FunctionalStep, State


class StackedState:
    """The states of many members of one architecture, stacked by device and core.

    Args:
        program: of the members.
        stacked: of each stack of the program a tensor for each variable, the members first.
    """

    def __init__(self, program: BundleProgram, stacked: Sequence[State]) -> None:
        self.program = program
        self.stacked = list(stacked)
        self.where = {
            program.names[member]: (number, position)
            for number, stack in enumerate(program.stacks)
            for position, member in enumerate(stack.members)
        }
        self._metrics = _metric_positions(program.step)
        self._initial = _initial_metrics(program.units[0].model)

    @property
    def log_names(self) -> dict[str, list[str]]:
        """By member the names that it logs under."""
        by_member = self.program.log_names
        return {name: by_member[self.program.stacks[number].members[at]] for name, (number, at) in self.where.items()}

    def reset_metrics(self, number: int, present: np.ndarray) -> None:
        """Let the metrics of some members of a stack begin anew."""
        stack, state = self.program.stacks[number], list(self.stacked[number])
        with tf.device(stack.device):
            begun = tf.constant(present)
            for position, initial in zip(self._metrics, self._initial, strict=True):
                state[position] = choose(begun, tf.broadcast_to(initial, state[position].shape), state[position])
        self.replace(number, state, np.flatnonzero(present))

    def replace(self, number: int, state: State, members: np.ndarray) -> None:
        """A stack has been stepped, some members of it."""
        self.stacked[number] = state

    def write(self, names: Sequence[str] | None = None) -> None:
        """Bring the objects that the states belong to up to date, those of the members named or of all."""
        raise NotImplementedError

    def read(self, name: str) -> None:
        """Take over what was changed in a member's objects since they were written."""
        raise NotImplementedError


class BundleState(StackedState):
    """The states of a bundle's members during one `fit` or `evaluate`, read from the members' own objects.

    Args:
        program: of the bundle.
    """

    def __init__(self, program: BundleProgram) -> None:
        self.program = program
        self.variables = program.variables
        super().__init__(program, [self._read(stack) for stack in program.stacks])
        self._unwritten: set[str] = set()  # members whose own objects are behind
        self._parts: dict[int, list[list[tf.Tensor]]] = {}  # by stack, what is stacked taken apart

    def _read(self, stack: Stack) -> list[tf.Tensor]:
        with tf.device(stack.device):
            members = [self.variables[member] for member in stack.members]
            values = [tf.stack([_value(variable) for variable in each]) for each in zip(*members, strict=True)]
            return [*values, *self._settings(stack)]

    def _settings(self, stack: Stack) -> list[tf.Tensor]:
        optimizers = [self.program.units[member].model.optimizer for member in stack.members]
        return [
            tf.constant([getattr(optimizer, setting.name) for optimizer in optimizers], setting.dtype)
            for setting in self.program.settings
        ]

    def replace(self, number: int, state: State, members: np.ndarray) -> None:
        super().replace(number, state, members)
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
            for variable, parts in zip(variables, self._parts[number], strict=False):  # settings are no variables
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
