"""Rows to batches: one dataset that hands every member its next batch, or says that it has none.

A member's rows come from its arrays or from its own `tf.data.Dataset`. The joint dataset yields a dict with an optional
batch a member, so that members of unlike lengths run side by side: nothing is padded, repeated or lost, and a member
that is through or has stopped is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf


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
        return keras.tree.map_structure(lambda array: tf.TensorSpec((None, *array.shape[1:]), array.dtype), self.arrays)


@dataclass(frozen=True)
class DatasetRows:
    """Rows that a `tf.data.Dataset` of batches yields."""

    dataset: tf.data.Dataset

    @property
    def num_batches(self) -> int | None:
        """None where the dataset cannot tell."""
        cardinality = int(self.dataset.cardinality())
        return cardinality if cardinality >= 0 else None

    @property
    def batch_spec(self) -> Any:
        """The structure of one batch."""
        return self.dataset.element_spec

    def end_epoch(self) -> None:
        """Draw from a shuffling dataset's random state what Keras' own `fit` draws between two epochs.

        Every iterator a dataset gives takes its order from that state, and Keras makes one more than it uses at the
        end of an epoch whose length it knows; without it the orders of later epochs would differ from the member's
        alone.
        """
        if self.num_batches is not None:
            iter(self.dataset)


Rows = ArrayRows | DatasetRows


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
    """The joint dataset of one `fit`, `evaluate` or `predict`.

    Args:
        dataset: yields `{member: tf.experimental.Optional of a batch}`.
        batch_specs: the structure of one batch, by member.
        num_batches: batches an epoch, by member; None where a dataset cannot tell.
        gates: by member.
        rows: by member.
    """

    dataset: tf.data.Dataset
    batch_specs: dict[str, Any]
    num_batches: dict[str, int | None]
    gates: dict[str, Gate]
    rows: dict[str, Rows]

    @property
    def endless(self) -> bool:
        """Whether some length is not known, so that the joint dataset does not end by itself."""
        return None in self.num_batches.values()

    def end_epoch(self, name: str) -> None:
        """A member has ended an epoch."""
        rows = self.rows[name]
        if isinstance(rows, DatasetRows):
            rows.end_epoch()


def joint_feed(rows: Mapping[str, Rows]) -> Feed:
    """Join the rows of several members.

    An epoch is as long as its longest member. Where a length is not known the joint dataset has no end; the step in
    which no member has a batch is the end of the epoch.
    """
    gates = {name: Gate.create() for name in rows}
    steps = {name: _member_steps(source, gates[name]) for name, source in rows.items()}
    num_batches = {name: source.num_batches for name, source in rows.items()}
    joint = tf.data.Dataset.zip(steps)
    if None not in num_batches.values():
        joint = joint.take(max(count or 0 for count in num_batches.values()))
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # a second pass over the graph, for nothing
    joint = joint.with_options(options).prefetch(tf.data.AUTOTUNE)
    return Feed(joint, {name: source.batch_spec for name, source in rows.items()}, num_batches, gates, dict(rows))


def epoch_order(num_rows: int, seed: int, epoch: Any) -> tf.Tensor:
    """The order of a member's rows in one epoch: a permutation that depends on nothing but its seed and the epoch."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    keys = tf.random.stateless_uniform([num_rows], seeds, minval=None, maxval=None, dtype=tf.int64)
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


def _member_steps(rows: Rows, gate: Gate) -> tf.data.Dataset:
    """One epoch of a member's batches as optionals, none where its gate is shut when the epoch begins; then empty ones
    without end."""
    present = _array_steps(rows, gate) if isinstance(rows, ArrayRows) else _dataset_steps(rows, gate)
    empty = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(rows.batch_spec))
    return present.concatenate(empty.repeat())


# Every function a dataset maps is built for each `fit` and instantiated for each epoch: few of them, and none that
# AutoGraph has to rewrite.


def _array_steps(rows: ArrayRows, gate: Gate) -> tf.data.Dataset:
    def index_batches(_: tf.Tensor) -> tf.data.Dataset:
        return _index_batches(rows, gate)

    def batch(index: tf.Tensor, arrays: tuple[Any, ...]) -> tf.experimental.Optional:
        gathered = keras.tree.map_structure(lambda array: tf.gather(array, index, axis=0), arrays)
        return tf.experimental.Optional.from_value(gathered)

    indices = tf.data.Dataset.range(1).flat_map(_unconverted(index_batches))
    # Passed as an element, as Keras does: a captured array would be copied into the function's graph.
    held = tf.data.Dataset.from_tensors(rows.arrays).repeat()
    steps = tf.data.Dataset.zip((indices, held))
    return steps.map(_unconverted(batch), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _index_batches(rows: ArrayRows, gate: Gate) -> tf.data.Dataset:
    """The rows of each batch of one epoch. Full batches and the last one have one spec, whatever the number of rows, so
    that programs traced on it are shared."""
    if rows.shuffle:
        order = epoch_order(rows.num_rows, rows.seed, gate.epoch.read_value())
    else:
        order = tf.range(rows.num_rows, dtype=tf.int64)
    num_full = rows.num_rows // rows.batch_size
    full, rest = order[: num_full * rows.batch_size], order[num_full * rows.batch_size :]
    batches = tf.data.Dataset.from_tensor_slices(tf.reshape(full, (num_full, rows.batch_size)))
    batches = batches.concatenate(tf.data.Dataset.from_tensors(rest)).take(rows.num_batches)
    return batches.take(tf.where(gate.present.read_value(), tf.constant(-1, tf.int64), 0))


def _dataset_steps(rows: DatasetRows, gate: Gate) -> tf.data.Dataset:
    spec = rows.batch_spec

    def batches(_: tf.Tensor) -> tf.data.Dataset:
        return rows.dataset

    def optional(*batch: Any) -> tf.experimental.Optional:
        return tf.experimental.Optional.from_value(batch if isinstance(spec, tuple) else batch[0])

    # Skipped as a whole: one that is taken 0 elements of would still draw an order.
    present = tf.data.Dataset.range(1).filter(_unconverted(lambda _: gate.present.read_value()))
    return present.flat_map(_unconverted(batches)).map(_unconverted(optional))


def _unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is written: AutoGraph has nothing to rewrite in it."""
    converted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return converted
