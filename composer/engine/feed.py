"""Rows to batches: each step hands every member its next batch, or says that it has none.

A member's rows come from its arrays or from a stream of batches (see `streams`). The arrays of all members are one
joint dataset, which yields a dict with an optional batch a member; a stream is asked for each of its batches by itself,
so that one that fails stops no other. Members of unlike lengths run side by side: nothing is padded, repeated or lost,
and a member that is through or has stopped is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from composer.engine.streams import Stream, StreamRows
from composer.graph.private import data_adapter, sliceable, take_rows

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
    def num_batches(self) -> int | None:
        return math.ceil(self.num_rows / self.batch_size)

    @property
    def batch_spec(self) -> Any:
        """The structure of one batch, its number of rows open."""
        return keras.tree.map_structure(_batch_spec, self.arrays)


Rows = ArrayRows | StreamRows


def _batch_spec(array: Any) -> tf.TypeSpec:
    shape = (None, *array.shape[1:])
    if isinstance(array, tf.SparseTensor):
        return tf.SparseTensorSpec(shape, array.dtype)
    if isinstance(array, tf.RaggedTensor):
        return tf.RaggedTensorSpec(shape, array.dtype, array.ragged_rank, array.row_splits.dtype)
    return tf.TensorSpec(shape, array.dtype)


@dataclass(frozen=True)
class Gate:
    """What the joint dataset asks about a member each time an epoch begins.

    Args:
        present: boolean variable, whether the member takes part in this epoch.
        epoch: int64 variable, the member's epoch, for its order of rows.
    """

    present: tf.Variable
    epoch: tf.Variable

    @classmethod
    def create(cls) -> Gate:
        with tf.device("/device:CPU:0"):
            return cls(tf.Variable(True, trainable=False), tf.Variable(0, dtype=tf.int64, trainable=False))


@dataclass(frozen=True)
class Feed:
    """The rows of one `fit`, `evaluate` or `predict`.

    Args:
        dataset: what Keras' loop steps through: `{member: tf.experimental.Optional of a batch}` of the members with
            arrays, as many as the longest member has steps; without end where a length is not known.
        batch_specs: the structure of one batch, by member.
        num_batches: batches an epoch, by member; None where a stream cannot tell.
        gates: of the members with arrays.
        streams: of the others.
    """

    dataset: tf.data.Dataset
    batch_specs: dict[str, Any]
    num_batches: dict[str, int | None]
    gates: dict[str, Gate]
    streams: dict[str, Stream]

    @property
    def endless(self) -> bool:
        """Whether some length is not known, so that the joint dataset does not end by itself."""
        return None in self.num_batches.values()

    @property
    def counted(self) -> tf.data.Dataset:
        """The joint dataset for a `fit`: Keras fixes the number of steps of one without end in the first epoch, and a
        later epoch may have more."""
        return self.dataset.take(MOST_STEPS) if self.endless else self.dataset

    def begin(self, name: str, epoch: int = 0, *, present: bool = True) -> None:
        """Let a member take part in the next pass, or sit it out. Called before Keras asks for an iterator."""
        if name in self.gates:
            self.gates[name].present.assign(present)
            self.gates[name].epoch.assign(epoch)
        elif present:
            self.streams[name].begin(epoch)


def joint_feed(rows: Mapping[str, Rows]) -> Feed:
    """Join the rows of several members.

    An epoch is as long as its longest member. Where a length is not known the joint dataset has no end; the step in
    which no member has a batch is the end of the epoch.
    """
    arrays = {name: source for name, source in rows.items() if isinstance(source, ArrayRows)}
    gates = {name: Gate.create() for name in arrays}
    num_batches = {name: source.num_batches for name, source in rows.items()}
    steps = {name: _array_steps(source, gates[name]) for name, source in arrays.items()}
    joint = tf.data.Dataset.zip(steps) if steps else tf.data.Dataset.from_tensors({"": 0}).repeat()
    if None not in num_batches.values():
        joint = joint.take(max(count or 0 for count in num_batches.values()))
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # a second pass over the graph, for nothing
    joint = joint.with_options(options).prefetch(tf.data.AUTOTUNE)
    return Feed(
        joint,
        {name: source.batch_spec for name, source in rows.items()},
        num_batches,
        gates,
        {name: Stream(source) for name, source in rows.items() if isinstance(source, StreamRows)},
    )


def epoch_order(num_rows: int, seed: int, epoch: Any) -> tf.Tensor:
    """The order of a member's rows in one epoch: a permutation that depends on nothing but its seed and the epoch."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    keys = tf.random.stateless_uniform([num_rows], seeds, minval=None, maxval=None, dtype=tf.int64)
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


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

    dataset = _gathered(rows, tf.data.Dataset.range(1).flat_map(_unconverted(batches)), lambda batch: batch)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(rows.num_batches)).prefetch(tf.data.AUTOTUNE)
    return StreamRows(data_adapter(dataset), dataset, steps)


# Every function a dataset maps is built for each `fit` and instantiated for each epoch: few of them, and none that
# AutoGraph has to rewrite.


def _array_steps(rows: ArrayRows, gate: Gate) -> tf.data.Dataset:
    """One epoch of a member's batches as optionals, none where its gate is shut when the epoch begins; then empty ones
    without end."""

    def batches(_: tf.Tensor) -> tf.data.Dataset:
        present = tf.where(gate.present.read_value(), tf.constant(-1, tf.int64), 0)
        return _index_batches(rows, gate.epoch.read_value()).take(present)

    indices = tf.data.Dataset.range(1).flat_map(_unconverted(batches))
    present = _gathered(rows, indices, tf.experimental.Optional.from_value)
    empty = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(rows.batch_spec))
    return present.concatenate(empty.repeat())


def _gathered(rows: ArrayRows, indices: tf.data.Dataset, wrap: Callable[[Any], Any]) -> tf.data.Dataset:
    """The batches whose rows `indices` tells, each wrapped."""

    def batch(index: tf.Tensor, arrays: tuple[Any, ...]) -> Any:
        return wrap(keras.tree.map_structure_up_to(rows.arrays, lambda array: take_rows(array, index), arrays))

    # Passed as an element, as Keras does: a captured array would be copied into the function's graph.
    held = tf.data.Dataset.from_tensors(keras.tree.map_structure(sliceable, rows.arrays)).repeat()
    steps = tf.data.Dataset.zip((indices, held))
    return steps.map(_unconverted(batch), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _index_batches(rows: ArrayRows, epoch: tf.Tensor) -> tf.data.Dataset:
    """The rows of each batch of one epoch. Full batches and the last one have one spec, whatever the number of rows, so
    that programs traced on it are shared."""
    order = epoch_order(rows.num_rows, rows.seed, epoch) if rows.shuffle else tf.range(rows.num_rows, dtype=tf.int64)
    num_full = rows.num_rows // rows.batch_size
    full, rest = order[: num_full * rows.batch_size], order[num_full * rows.batch_size :]
    batches = tf.data.Dataset.from_tensor_slices(tf.reshape(full, (num_full, rows.batch_size)))
    return batches.concatenate(tf.data.Dataset.from_tensors(rest)).take(rows.num_batches)


def _unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is written: AutoGraph has nothing to rewrite in it."""
    converted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return converted
