"""Convolutions of which every member has its own filter, as batched matrix products ("im2col").

XLA has no fast form for CPUs of a convolution within a loop, nor of a grouped one; of a batched matrix product it has.
Images are (members, images, height, width, channels), filters (members, rows, columns, channels, outputs). Method:
Chellapilla et al., "High Performance Convolutional Neural Networks for Document Processing", 2006.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Axis:
    """A filter along one axis of an image.

    Args:
        length: of the image.
        size: of the filter.
        stride, dilation: of the filter.
        before, after: zeros on both sides of the image.
    """

    length: int
    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @classmethod
    def of(cls, length: int, size: int, stride: int, dilation: int, padding: str | Sequence[int]) -> Axis:
        """Padding is `SAME`, `VALID`, or the zeros before and after."""
        if padding == "VALID":
            return cls(length, size, stride, dilation, 0, 0)
        if padding == "SAME":
            places = -(-length // stride)
            zeros = max((places - 1) * stride + (size - 1) * dilation + 1 - length, 0)
            return cls(length, size, stride, dilation, zeros // 2, zeros - zeros // 2)
        return cls(length, size, stride, dilation, *padding)

    @property
    def padded(self) -> int:
        return self.before + self.length + self.after

    @property
    def places(self) -> int:
        """The length of what the filter gives."""
        return (self.padded - (self.size - 1) * self.dilation - 1) // self.stride + 1

    def taken(self, tap: int) -> slice:
        """What one number of the filter is multiplied with, of the padded image."""
        start = tap * self.dilation
        return slice(start, start + (self.places - 1) * self.stride + 1, self.stride)


def convolution(image: tf.Tensor, weights: tf.Tensor, height: Axis, width: Axis) -> tf.Tensor:
    """(members, images, places, places, outputs)."""
    members, images = image.shape[:2]
    product = tf.matmul(_columns(image, height, width), _matrix(weights))
    return tf.reshape(product, [members, images, height.places, width.places, weights.shape[-1]])


def filter_gradient(image: tf.Tensor, gradient: tf.Tensor, height: Axis, width: Axis) -> tf.Tensor:
    """Of the filters, from the gradient of what they gave."""
    members, outputs = gradient.shape[0], gradient.shape[-1]
    product = tf.matmul(_columns(image, height, width), tf.reshape(gradient, [members, -1, outputs]), transpose_a=True)
    return tf.reshape(product, [members, height.size, width.size, image.shape[-1], outputs])


def image_gradient(weights: tf.Tensor, gradient: tf.Tensor, height: Axis, width: Axis) -> tf.Tensor:
    """Of the images, from the gradient of what the filters gave."""
    members, images, _, _, outputs = gradient.shape
    channels = weights.shape[3]
    product = tf.matmul(tf.reshape(gradient, [members, -1, outputs]), _matrix(weights), transpose_b=True)
    shape = [members, images, height.places, width.places, height.size * width.size, channels]
    total: Any = 0
    for number, (row, column) in enumerate(_taps(height, width)):
        part = tf.reshape(product, shape)[:, :, :, :, number]
        total += _put(_put(part, 2, height, row), 3, width, column)
    rows, columns = (slice(axis.before, axis.before + axis.length) for axis in (height, width))
    return total[:, :, rows, columns]


def _taps(height: Axis, width: Axis) -> Iterator[tuple[int, int]]:
    return ((row, column) for row in range(height.size) for column in range(width.size))


def _columns(image: tf.Tensor, height: Axis, width: Axis) -> tf.Tensor:
    """(members, images * places, taps * channels): what each place of the filters is multiplied with."""
    zeros = [[0, 0], [0, 0], [height.before, height.after], [width.before, width.after], [0, 0]]
    padded = tf.pad(image, zeros)
    taken = [padded[:, :, height.taken(row), width.taken(column)] for row, column in _taps(height, width)]
    return tf.reshape(tf.concat(taken, axis=-1), [image.shape[0], -1, len(taken) * image.shape[-1]])


def _matrix(weights: tf.Tensor) -> tf.Tensor:
    members, rows, columns, channels, outputs = weights.shape
    return tf.reshape(weights, [members, rows * columns * channels, outputs])


def _put(part: tf.Tensor, at: int, axis: Axis, tap: int) -> tf.Tensor:
    """What a tap took of the padded image, back in its places: the inverse of `Axis.taken` along one axis."""
    if axis.stride > 1:
        shape = part.shape.as_list()
        apart = tf.pad(tf.expand_dims(part, at + 1), _zeros(len(shape) + 1, at + 1, 0, axis.stride - 1))
        apart = tf.reshape(apart, [*shape[:at], shape[at] * axis.stride, *shape[at + 1 :]])
        part = tf.split(apart, [shape[at] * axis.stride - axis.stride + 1, axis.stride - 1], at)[0]
    start = tap * axis.dilation
    return tf.pad(part, _zeros(len(part.shape), at, start, axis.padded - start - part.shape[at]))


def _zeros(rank: int, at: int, before: int, after: int) -> list[list[int]]:
    return [[before, after] if axis == at else [0, 0] for axis in range(rank)]
