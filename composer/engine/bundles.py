"""A bundle: members of one architecture, stepped as one batched program.

Their states are stacked on a leading axis, and a pure step of the model that stands for all of them is mapped over it.
The stacks of a bundle run side by side, one a device or a core; no member needs anything of another, so each goes
through its rows at its own length: full batches by all that have one, the last short batch at its real size.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import BundleProgram, Kind
from composer.engine.bundle_rows import StackedRows
from composer.engine.bundle_state import BundleState, StackedState
from composer.engine.feed import ArrayRows
from composer.engine.functional_step import State


class BundlePass:
    """One pass over the rows of a bundle: an epoch of training, or an evaluation.

    Args:
        kind: what its steps are.
        state: of the members.
        rows: of each stack; members without any sit it out.
    """

    def __init__(self, kind: Kind, state: StackedState, rows: Sequence[StackedRows]) -> None:
        self.kind = kind
        self.state = state
        self.program = state.program
        self.taken = 0
        self._rows = list(rows)
        self._present = [np.zeros(len(stack.members), bool) for stack in self.program.stacks]

    @classmethod
    def of(cls, kind: Kind, state: BundleState, rows: Mapping[str, ArrayRows]) -> BundlePass:
        """Over the rows of members, by name."""
        stacked = []
        for stack in state.program.stacks:
            with tf.device(stack.device):
                stacked.append(StackedRows.of([rows.get(state.program.names[member]) for member in stack.members]))
        return cls(kind, state, stacked)

    def prepare(self) -> None:
        """See `BundleProgram.prepare`."""

        def stack(number: int) -> None:
            with tf.device(self.program.stacks[number].device):
                self.program.prepare(self.kind, self.state.stacked[number], self._rows[number])

        self.program.each(stack)

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

    def logs(self) -> dict[str, dict[str, Any]]:
        """What the metrics of the members have counted in this pass."""
        found: dict[str, dict[str, Any]] = {}
        log_names = self.program.log_names
        for number, stack in enumerate(self.program.stacks):
            values = self.program.logs(self.state.stacked[number])
            rows = zip(*(value.tolist() if value.ndim == 1 else list(value) for value in values.values()), strict=True)
            for member, row in zip(stack.members, rows, strict=True):
                own = dict(zip(log_names[0], log_names[member], strict=True))
                found[self.program.names[member]] = {own[key]: value for key, value in zip(values, row, strict=True)}
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
        if rows.uneven:  # masked all along, so that there is one program to compile
            common = first
        if common > first:
            state = self.program.full_steps(self.kind, state, rows, (first, common), None)
        masked = (max(common, first), last)
        return state if masked[1] <= masked[0] else self.program.full_steps(self.kind, state, rows, masked, through)


@dataclass(frozen=True)
class Bundles:
    """The bundles of one `fit` or `evaluate`.

    Args:
        states: of each.
        training: their passes over the rows that they train on.
        validation: those over the rows that they are evaluated on.
    """

    states: tuple[StackedState, ...] = ()
    training: tuple[BundlePass, ...] = ()
    validation: tuple[BundlePass, ...] = ()


NO_BUNDLES = Bundles()


def predictions(program: BundleProgram, rows: Mapping[str, ArrayRows]) -> dict[str, Any]:
    """The outputs of the members of a bundle for their rows, each in the member's own structure."""
    state = BundleState(program)
    sizes = {each.batch_size for each in rows.values()}

    def of_stack(number: int) -> dict[str, Any]:
        stack = program.stacks[number]
        names = [program.names[member] for member in stack.members]
        with tf.device(stack.device):
            stacked = StackedRows.of([rows.get(name) for name in names])
            stacked.begin([0] * len(names))
            outputs = program.predict(max(sizes), state.stacked[number], stacked)
        parts = keras.tree.map_structure(lambda output: output.numpy(), outputs)
        own = ((name, (position, slice(rows[name].num_rows))) for position, name in enumerate(names))
        return {name: keras.tree.map_structure(operator.itemgetter(where), parts) for name, where in own}

    return {name: found for part in program.each(of_stack) for name, found in part.items()}
