"""Rows to batches: one dataset that hands every member its next batch, or says that it has none.

A member's rows come from its arrays or from its own `tf.data.Dataset`. The joint dataset yields a dict with an optional
batch a member, so that members of unlike lengths run side by side: nothing is padded, repeated or lost, and a member
    that
is through or has stopped is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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


@dataclass(frozen=True)
class DatasetRows:
    """Rows that a `tf.data.Dataset` of batches yields."""

    dataset: tf.data.Dataset

    @property
    def num_batches(self) -> int | None:
        """None where the dataset cannot tell."""
        cardinality = int(self.dataset.cardinality())
        return cardinality if cardinality >= 0 else None

    def end_epoch(self) -> None:
        """Draw from a shuffling dataset's random state what Keras' own `fit` draws between two epochs.

        Every iterator a dataset gives takes its order from that state, and Keras makes one more than it uses at the
        end of
        an epoch whose length it knows; without it the orders of later epochs would differ from the member's alone.
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
    """Join the rows of several members. An epoch is as long as its longest member, or endless where a length is not
    known:
    then the step in which no member has a batch is the end of it."""
    gates = {name: Gate.create() for name in rows}
    batches = {name: _member_batches(source, gates[name]) for name, source in rows.items()}
    num_batches = {name: source.num_batches for name, source in rows.items()}
    joint = tf.data.Dataset.zip({name: _optional(dataset) for name, dataset in batches.items()})
    if None not in num_batches.values():
        joint = joint.take(max(count or 0 for count in num_batches.values()))
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # a second pass over the graph, for nothing
    joint = joint.with_options(options).prefetch(tf.data.AUTOTUNE)
    specs = {name: dataset.element_spec for name, dataset in batches.items()}
    return Feed(joint, specs, num_batches, gates, dict(rows))


def epoch_order(num_rows: int, seed: int, epoch: Any) -> tf.Tensor:
    """The order of a member's rows in one epoch: a permutation that depends on nothing but its seed and the epoch."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    keys = tf.random.stateless_uniform([num_rows], seeds, minval=None, maxval=None, dtype=tf.int64)
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


def _member_batches(rows: Rows, gate: Gate) -> tf.data.Dataset:
    """One epoch of a member's batches; none where the gate is shut when the epoch begins."""
    epoch = tf.data.Dataset.range(1).filter(lambda _: gate.present.read_value())
    if isinstance(rows, DatasetRows):
        return epoch.flat_map(lambda _: rows.dataset)
    indices = epoch.flat_map(lambda _: _index_batches(rows, gate))
    # Passed as an element, as Keras does: a captured array would be copied into the function's graph.
    held = tf.data.Dataset.from_tensors(rows.arrays).repeat()

    def gather(index: tf.Tensor, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        return keras.tree.map_structure(lambda array: tf.gather(array, index, axis=0), arrays)

    batches = tf.data.Dataset.zip((indices, held))
    return batches.map(
        lambda index, arrays: gather(index, arrays), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _index_batches(rows: ArrayRows, gate: Gate) -> tf.data.Dataset:
    if rows.shuffle:
        order = epoch_order(rows.num_rows, rows.seed, gate.epoch.read_value())
    else:
        order = tf.range(rows.num_rows, dtype=tf.int64)
    full = rows.num_rows // rows.batch_size * rows.batch_size
    batches = tf.data.Dataset.from_tensor_slices(tf.reshape(order[:full], (-1, rows.batch_size)))
    if full == rows.num_rows:
        # Both kinds of batch have one spec, whatever the number of rows: the programs traced on it are shared.
        return batches.map(lambda index: tf.ensure_shape(tf.reshape(index, [-1]), [None]))
    return batches.concatenate(tf.data.Dataset.from_tensors(order[full:]))


def _optional(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset's elements as optionals, then empty ones without end."""
    spec = dataset.element_spec
    present = dataset.map(lambda *batch: tf.experimental.Optional.from_value(_as_element(spec, batch)))
    empty = tf.data.Dataset.range(1).map(lambda _: tf.experimental.Optional.empty(spec))
    return present.concatenate(empty.repeat())


def _as_element(spec: Any, batch: tuple[Any, ...]) -> Any:
    """Undo the unpacking that `map` does to tuples."""
    return batch if isinstance(spec, tuple) else batch[0]
