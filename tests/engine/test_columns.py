"""Convolutions as matrix products: each as TensorFlow's own, member by member."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from composer.engine.columns import Axis, convolution, filter_gradient, image_gradient

PADDINGS = ("SAME", "VALID", ((2, 1), (0, 3)))
CASES = list(itertools.product((7, 10), ((1, 1), (2, 3), (3, 2)), (1, 2, 3), PADDINGS))


def tensor(rng: np.random.Generator, *shape: int) -> tf.Tensor:
    return tf.constant(rng.normal(size=shape).astype("float32"))


@pytest.mark.parametrize(("length", "size", "stride", "padding"), CASES)
def test_convolutions_and_their_gradients(length: int, size: tuple[int, int], stride: int, padding: object) -> None:
    rng = np.random.default_rng(0)
    image, weights = tensor(rng, 2, 3, length, 8, 2), tensor(rng, 2, *size, 2, 4)
    along = (padding, padding) if isinstance(padding, str) else padding
    axes = [Axis.of(n, s, stride, 1, p) for n, s, p in zip((length, 8), size, along, strict=True)]
    given = padding if isinstance(padding, str) else [[0, 0], *map(list, along), [0, 0]]
    with tf.GradientTape() as tape:
        tape.watch([image, weights])
        pairs = zip(tf.unstack(image), tf.unstack(weights), strict=True)
        expected = tf.stack([tf.nn.conv2d(x, w, stride, given) for x, w in pairs])
        gradient = tensor(rng, *expected.shape)
    image_expected, weights_expected = tape.gradient(expected, [image, weights], gradient)
    np.testing.assert_allclose(convolution(image, weights, *axes), expected, atol=1e-5)
    np.testing.assert_allclose(filter_gradient(image, gradient, *axes), weights_expected, atol=5e-5)
    np.testing.assert_allclose(image_gradient(weights, gradient, *axes), image_expected, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_dilated_filters(padding: str) -> None:
    rng = np.random.default_rng(0)
    image, weights = tensor(rng, 2, 3, 9, 8, 2), tensor(rng, 2, 3, 2, 2, 4)
    axes = [Axis.of(n, s, 1, 2, padding) for n, s in ((9, 3), (8, 2))]
    pairs = zip(tf.unstack(image), tf.unstack(weights), strict=True)
    expected = tf.stack([tf.nn.convolution(x, w, 1, padding, dilations=[2, 2]) for x, w in pairs])
    np.testing.assert_allclose(convolution(image, weights, *axes), expected, atol=1e-5)
