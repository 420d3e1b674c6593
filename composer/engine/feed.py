"""Rows to batches: each step hands every member its next batch, or says that it has none.

A member's rows come from its arrays or from a stream of batches (see `streams`). Batches of arrays are taken by the
program itself, from the arrays and the epoch's order of rows, so that many steps need nothing from outside; a stream is
asked for each of its batches by itself, so that one that fails stops no other. Members of unlike lengths run side by
side: nothing is padded, repeated or lost, and a member that is through or has stopped is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.slices import Slices
from composer.engine.streams import Stream, StreamRows
from composer.graph.private import data_adapter, sliceable, take_rows, without_autotune

MOST_STEPS = 2**40
"""More than any epoch has."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows in memory.

    Args:
        arrays: `(x,)`, `(x, y)` or `(x, y, sample_weight)`, each a tensor or a structure of tensors with the same
            first axis.
        num_rows: the length of that axis.
        batch_size: rows a batch; the last one is as long as what is left.
        shuffle: whether each epoch has an order of its own.
        seed: with the epoch, all that the order depends on.
    """

    arrays: tuple[Any, ...]
    num_rows: int
    batch_size: int
    shuffle: bool = False
    seed: int = 0

    @property
    def num_batches(self) -> int:
        return math.ceil(self.num_rows / self.batch_size)

    @property
    def batch_spec(self) -> Any:
        """The structure of one batch, its number of rows open."""
        return keras.tree.map_structure(_batch_spec, self.arrays)

    def order(self, epoch: int) -> np.ndarray:
        """The order of the rows in one epoch, int64."""
        if self.shuffle:
            return epoch_order(self.num_rows, self.seed, epoch)
        return np.arange(self.num_rows)


Rows = ArrayRows | StreamRows


def _batch_spec(array: Any) -> tf.TypeSpec:
    shape = (None, *array.shape[1:])
    if isinstance(array, tf.SparseTensor):
        return tf.SparseTensorSpec(shape, array.dtype)
    if isinstance(array, tf.RaggedTensor):
        return tf.RaggedTensorSpec(shape, array.dtype, array.ragged_rank, array.row_splits.dtype)
    return tf.TensorSpec(shape, array.dtype)


class ArrayBatches:
    """The batches of one member with arrays in one `fit`, `evaluate` or `predict`.

    Args:
        rows: its rows.
    """

    def __init__(self, rows: ArrayRows) -> None:
        self.rows = rows
        with tf.device("/device:CPU:0"):
            self._none = tf.zeros(0, tf.int64)
            self._size = tf.constant(rows.batch_size, tf.int64)
        self._order = self._none
        self._taken = 0

    def begin(self, epoch: int, *, present: bool = True) -> None:
        """Begin an epoch, the order of whose rows follows from its number, or sit it out."""
        with tf.device("/device:CPU:0"):
            self._order = tf.constant(self.rows.order(epoch), tf.int64) if present else self._none
        self._taken = 0

    @property
    def slices(self) -> Slices:
        """What the program takes the next batches from."""
        with tf.device("/device:CPU:0"):
            return Slices(self.rows.arrays, self._order, self._size, tf.constant(self._taken, tf.int64))

    def advance(self, steps: int) -> None:
        """So many joint steps have been taken."""
        self._taken += steps


@dataclass(frozen=True)
class Feed:
    """The rows of one `fit`, `evaluate` or `predict`.

    Args:
        batch_specs: the structure of one batch, by member.
        num_batches: batches an epoch, by member; None where a stream cannot tell.
        arrays: of the members with arrays, those left out that are in a bundle, which has their rows.
        streams: of the others.
    """

    batch_specs: dict[str, Any]
    num_batches: dict[str, int | None]
    arrays: dict[str, ArrayBatches]
    streams: dict[str, Stream]

    @property
    def endless(self) -> bool:
        """Whether Keras' loop does not end by itself: of a stream the length may be unknown, or change."""
        return bool(self.streams)

    @property
    def num_steps(self) -> int | None:
        """Steps of an epoch, as far as can be told."""
        counts = [count for count in self.num_batches.values() if count is not None]
        return max(counts, default=0) if len(counts) == len(self.num_batches) else None

    @property
    def steps(self) -> tf.data.Dataset:
        """What Keras' loop steps through: a number for each step of the longest member; without end where there are
        streams."""
        steps = tf.data.Dataset.range(1).repeat() if self.endless else tf.data.Dataset.range(self.num_steps)
        return without_autotune(steps)

    @property
    def counted_steps(self) -> tf.data.Dataset:
        """The same for a `fit`: Keras fixes the number of steps of one without end in the first epoch, and a later
        epoch may have more."""
        return without_autotune(tf.data.Dataset.range(MOST_STEPS)) if self.endless else self.steps

    def begin(self, name: str, epoch: int = 0, *, present: bool = True) -> None:
        """Let a member take part in the next pass, or sit it out."""
        if name in self.arrays:
            self.arrays[name].begin(epoch, present=present)
        elif name in self.streams and present:
            self.streams[name].begin(epoch)
        elif name in self.streams:
            self.streams[name].pause()

    def skip(self, name: str, batches: int) -> None:
        """Pass over the first batches of a member's pass: of a stream by taking them."""
        if name in self.arrays:
            self.arrays[name].advance(batches)
        elif name in self.streams:
            for _ in range(batches):
                self.streams[name].take()

    def replay(self, name: str, epoch: int) -> None:
        """Take an epoch of a member's batches for nothing, so that what yields them is where it was after it."""
        if name in self.streams:
            self.streams[name].begin(epoch)
            while self.streams[name].has_step():
                self.streams[name].take()

    def release(self) -> None:
        """Let go of the streams: what is left in them, and the workers that fetch it, need not wait for the garbage
        collector."""
        for stream in self.streams.values():
            stream.close()

    @property
    def slices(self) -> dict[str, Slices]:
        """Of every member with arrays, what the program takes its next batches from."""
        return {name: each.slices for name, each in self.arrays.items()}

    def advance(self, steps: int) -> None:
        """So many joint steps have been taken."""
        for each in self.arrays.values():
            each.advance(steps)


def joint_feed(rows: Mapping[str, Rows], bundled: Collection[str] = ()) -> Feed:
    """Join the rows of several members, of which some are in bundles."""
    single = {name: source for name, source in rows.items() if name not in bundled}
    return Feed(
        {name: source.batch_spec for name, source in rows.items()},
        {name: source.num_batches for name, source in rows.items()},
        {name: ArrayBatches(source) for name, source in single.items() if isinstance(source, ArrayRows)},
        {name: Stream(source) for name, source in single.items() if isinstance(source, StreamRows)},
    )


def epoch_order(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    """The order of a member's rows in one epoch: a permutation that depends on nothing but its seed and the epoch."""
    return np.random.default_rng([seed % 2**64, epoch]).permutation(num_rows)


def array_stream(rows: ArrayRows, steps: int, first: int = 0) -> StreamRows:
    """Rows in memory of which an epoch takes so many batches, not all: the next epoch goes on where it stopped.

    Args:
        rows: their batches are taken in passes over all rows, each in an order of its own if they are shuffled.
        steps: batches an epoch.
        first: the number of the first pass, for its order.
    """
    with tf.device("/device:CPU:0"):
        passes = tf.Variable(first - 1, dtype=tf.int64, trainable=False)

    def batches(_: tf.Tensor) -> tf.data.Dataset:
        return _index_batches(rows, passes.assign_add(1))

    dataset = _gathered(rows, tf.data.Dataset.range(1).flat_map(_unconverted(batches)))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(rows.num_batches)).prefetch(tf.data.AUTOTUNE)
    return StreamRows(data_adapter(dataset), dataset, steps)


def _gathered(rows: ArrayRows, indices: tf.data.Dataset) -> tf.data.Dataset:
    """The batches whose rows `indices` tells."""

    def batch(index: tf.Tensor, arrays: tuple[Any, ...]) -> Any:
        return keras.tree.map_structure_up_to(rows.arrays, lambda array: take_rows(array, index), arrays)

    # Passed as an element, as Keras does: a captured array would be copied into the function's graph.
    held = tf.data.Dataset.from_tensors(keras.tree.map_structure(sliceable, rows.arrays)).repeat()
    steps = tf.data.Dataset.zip((indices, held))
    return steps.map(_unconverted(batch), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _index_batches(rows: ArrayRows, epoch: tf.Tensor) -> tf.data.Dataset:
    """The rows of each batch of one epoch. Full batches and the last one have one spec, whatever the number of rows, so
    that programs traced on it are shared."""
    order = tf.ensure_shape(tf.numpy_function(rows.order, [epoch], tf.int64), [rows.num_rows])
    num_full = rows.num_rows // rows.batch_size
    full, rest = order[: num_full * rows.batch_size], order[num_full * rows.batch_size :]
    batches = tf.data.Dataset.from_tensor_slices(tf.reshape(full, (num_full, rows.batch_size)))
    return batches.concatenate(tf.data.Dataset.from_tensors(rest)).take(rows.num_batches)


def _unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is written: AutoGraph has nothing to rewrite in it."""
    converted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return converted
