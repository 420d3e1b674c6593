"""Cutting a batch into contiguous slices and joining what comes back, for tensors and structures of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from composer.graph.private import mask_of, set_mask


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
    """Join structures of tensors along their first axis, in order. Masks are joined with them: a loss reads them."""

    def join(*leaves: Any) -> tf.Tensor:
        joined = tf.concat(leaves, axis=0)
        if mask_of(leaves[0]) is not None:
            set_mask(joined, tf.concat([mask_of(leaf) for leaf in leaves], axis=0))
        return joined

    return keras.tree.map_structure(join, *slices)


def masks_of(structure: Any) -> list[Any]:
    """The masks of the tensors of a structure, of those that have one."""
    return [mask_of(leaf) for leaf in keras.tree.flatten(structure) if mask_of(leaf) is not None]


def set_masks(structure: Any, masks: Sequence[Any], like: Any) -> None:
    """Leave masks on the tensors of a structure: on those that have one in `like`, in order."""
    masked = [mask_of(leaf) is not None for leaf in keras.tree.flatten(like)]
    leaves = [leaf for leaf, is_masked in zip(keras.tree.flatten(structure), masked, strict=True) if is_masked]
    for leaf, mask in zip(leaves, masks, strict=True):
        set_mask(leaf, mask)


def no_rows_like(structure: Any) -> Any:
    """A structure of the same dtypes and inner shapes with 0 rows."""
    return keras.tree.map_structure(
        lambda leaf: tf.zeros(tf.concat([[0], tf.shape(leaf)[1:]], axis=0), leaf.dtype), structure
    )
