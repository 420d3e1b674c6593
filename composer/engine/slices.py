"""The batches of one member's arrays, as a program takes them by itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf


class Slices(NamedTuple):
    """Arrays, and where their next batch begins: tensors, which a program takes as arguments.

    Args:
        arrays: a structure of tensors with one first axis, in host memory.
        order: int64, the rows of the epoch in their order; empty for a member that sits it out.
        size: int64, rows a batch; the last one is as long as what is left.
        taken: int64, batches taken before.
    """

    arrays: Any
    order: tf.Tensor
    size: tf.Tensor
    taken: tf.Tensor

    @classmethod
    def spec(cls, batch_spec: Any) -> Slices:
        """What a program that takes any number of rows takes."""
        return cls(
            batch_spec, tf.TensorSpec((None,), tf.int64), tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.int64)
        )

    def at(self, step: Any) -> SlicedBatch:
        """The batch of a step, counted from the next one."""
        return SlicedBatch(self, (self.taken + tf.cast(step, tf.int64)) * self.size)


class SlicedBatch(NamedTuple):
    """One batch, gathered where it is used; with the methods of `tf.experimental.Optional`."""

    slices: Slices
    start: tf.Tensor

    def has_value(self) -> tf.Tensor:
        return self.start < tf.size(self.slices.order, tf.int64)

    def get_value(self) -> Any:
        with tf.device("/device:CPU:0"):  # where the arrays are: elsewhere they would be copied whole
            rows = self.slices.order[self.start : self.start + self.slices.size]
            return keras.tree.map_structure(lambda array: tf.gather(array, rows, axis=0), self.slices.arrays)
