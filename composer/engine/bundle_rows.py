"""The rows of the members of a stack, one after another, and the order in which each member takes its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.feed import ArrayRows

Order = Callable[[int], np.ndarray]
"""The order of a member's rows in an epoch."""


class StackedRows:
    """The rows of the members of a stack, as a program takes them.

    Args:
        arrays: of all members, in the structure of a batch.
        lengths: by member, its rows; 0 of one that has none.
        offsets: by member, where its rows begin in `arrays`.
        orders: by member, the order of its rows in an epoch.
    """

    def __init__(
        self,
        arrays: Any,
        lengths: np.ndarray,
        offsets: np.ndarray,
        orders: Sequence[Order | None],
    ) -> None:
        self.arrays = arrays
        self.lengths = lengths
        self.uneven = len(set(lengths.tolist())) > 1
        self._offsets = offsets
        self._orders = list(orders)
        # What stands behind a member's last row is the last one's: it is read and not used.
        self._order = np.zeros((len(lengths), int(lengths.max(initial=0))), np.int32)
        self.order = tf.constant(self._order)

    @classmethod
    def of(cls, rows: Sequence[ArrayRows | None]) -> StackedRows:
        """Of members of which each has arrays of its own; None of one that has none."""
        lengths = np.array([0 if each is None else each.num_rows for each in rows], np.int64)
        there = [each.arrays for each in rows if each is not None]
        arrays, starts = _joined(there) if there else ((), np.zeros(0, np.int64))
        offsets = np.zeros(len(rows), np.int64)
        offsets[lengths > 0] = starts
        return cls(arrays, lengths, offsets, [None if each is None else each.order for each in rows])

    def begin(self, epochs: Sequence[int | None]) -> None:
        """Let an epoch of each member begin; None for one that sits it out."""
        for member, (order, epoch) in enumerate(zip(self._orders, epochs, strict=True)):
            if order is not None and epoch is not None:
                self._order[member, : self.lengths[member]] = order(epoch) + self._offsets[member]
        self.order = tf.constant(self._order)

    def order_of(self, starts: np.ndarray, count: int, members: np.ndarray | None = None) -> np.ndarray:
        """(members, count): where so many rows of each are in `arrays`, from a start of its own in its order. Of all
        members, or some."""
        chosen = np.arange(len(starts)) if members is None else members
        found: np.ndarray = self._order[chosen[:, None], starts[chosen][:, None] + np.arange(count)]
        return found


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
