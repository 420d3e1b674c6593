"""Cutting a batch into contiguous slices and joining what comes back, for tensors and structures of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


def slice_sizes(num_rows: Any, num_slices: int) -> tf.Tensor:
    """The rows of each slice: they differ by at most one, larger first (5 over 4 is 2, 1, 1, 1; 1 over 2 is 1, 0).

    Args:
        num_rows: scalar integer, a tensor where it is known only at run time.
        num_slices: at least 1.

    Returns:
        int32 tensor of shape `(num_slices,)` that sums to `num_rows`.
    """
    num_rows = tf.cast(num_rows, tf.int32)
    return num_rows // num_slices + tf.cast(tf.range(num_slices) < num_rows % num_slices, tf.int32)


def num_rows(structure: Any) -> tf.Tensor:
    """The length of the batch axis, read from the first tensor of the structure."""
    return tf.shape(keras.tree.flatten(structure)[0])[0]


def split_rows(structure: Any, num_slices: int) -> list[Any]:
    """Cut every tensor of a structure along its first axis: `(rows) ... -> num_slices times (slice) ...`."""
    sizes = slice_sizes(num_rows(structure), num_slices)
    leaves = [tf.split(leaf, sizes, axis=0) for leaf in keras.tree.flatten(structure)]
    return [keras.tree.pack_sequence_as(structure, slices) for slices in zip(*leaves, strict=True)]


def join_rows(slices: Sequence[Any]) -> Any:
    """Join structures of tensors along their first axis, in order."""
    return keras.tree.map_structure(lambda *leaves: tf.concat(leaves, axis=0), *slices)


def no_rows_like(structure: Any) -> Any:
    """A structure of the same dtypes and inner shapes with 0 rows."""
    return keras.tree.map_structure(
        lambda leaf: tf.zeros(tf.concat([[0], tf.shape(leaf)[1:]], axis=0), leaf.dtype), structure
    )
