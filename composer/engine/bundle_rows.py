"""The rows of the members of a stack, one after another, and the order in which each member takes its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.feed import ArrayRows


class StackedRows:
    """The rows of the members of a stack, as a program takes them.

    Args:
        rows: of each member; None of one that has none.
    """

    def __init__(self, rows: Sequence[ArrayRows | None]) -> None:
        self._members = list(rows)
        self.lengths = np.array([0 if each is None else each.num_rows for each in rows], np.int64)
        there = [each.arrays for each in rows if each is not None]
        self.arrays: Any
        self.arrays, starts = _joined(there) if there else ((), np.zeros(0, np.int64))
        self.uneven = len(set(self.lengths.tolist())) > 1
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
