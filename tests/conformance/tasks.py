"""What a loss or a metric is for: a net with a fitting head, and rows with fitting targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers

from tests.conformance.trials import Rows

NUM_CLASSES = 3


@dataclass(frozen=True)
class Task:
    """One kind of targets.

    Args:
        head: makes the layers behind the first one.
        targets: makes that many rows of targets from a generator of random numbers.
        loss: one that fits.
    """

    head: Callable[[], list[keras.layers.Layer]]
    targets: Callable[[np.random.Generator, int], np.ndarray]
    loss: str = "mse"

    def model(self) -> keras.Model:
        return keras.Sequential([layers.Input((4,)), layers.Dense(6, activation="tanh"), *self.head()])

    def rows(self, n: int) -> Rows:
        rng = np.random.default_rng(n)
        return rng.normal(size=(n, 4)).astype("float32"), self.targets(rng, n)

    def weighted_rows(self, n: int) -> Rows:
        """With a weight a row, some of them 0."""
        return (*self.rows(n), np.linspace(0, 2, n).astype("float32"))


def dense(units: int, activation: str | None = None) -> Callable[[], list[keras.layers.Layer]]:
    return lambda: [layers.Dense(units, activation=activation)]


def _labels(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, NUM_CLASSES, size=n)


def _one_hot(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.eye(NUM_CLASSES, dtype="float32")[_labels(rng, n)]


def _maps() -> list[keras.layers.Layer]:
    return [layers.Dense(8, activation="sigmoid"), layers.Reshape((2, 2, 2))]


def _sequences() -> list[keras.layers.Layer]:
    return [layers.RepeatVector(5), layers.SimpleRNN(4, return_sequences=True)]


def _directions() -> list[keras.layers.Layer]:
    return [layers.Dense(4), layers.UnitNormalization()]


def _rounded(x: Any) -> Any:
    """Whole numbers, with the gradient of the numbers themselves."""
    return x + keras.ops.stop_gradient(keras.ops.round(x) - x)


def _floats(make: Callable[..., Any], *shape: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, n: np.asarray(make(rng, (n, *shape)), "float32")


REGRESSION = Task(dense(2), _floats(lambda rng, size: rng.normal(size=size), 2))
POSITIVE = Task(dense(2, "softplus"), _floats(lambda rng, size: rng.uniform(0.1, 2.0, size=size), 2))
BINARY = Task(
    dense(1, "sigmoid"), _floats(lambda rng, size: rng.integers(0, 2, size=size), 1), loss="binary_crossentropy"
)
SIGNS = Task(dense(1, "tanh"), _floats(lambda rng, size: rng.integers(0, 2, size=size) * 2 - 1, 1), loss="hinge")
CLASSES = Task(dense(NUM_CLASSES, "softmax"), _one_hot, loss="categorical_crossentropy")
LABELS = Task(dense(NUM_CLASSES, "softmax"), _labels, loss="sparse_categorical_crossentropy")
MAPS = Task(_maps, _floats(lambda rng, size: rng.integers(0, 2, size=size), 2, 2, 2))
SEQUENCES = Task(_sequences, lambda rng, n: rng.integers(1, 4, size=(n, 2)).astype("int32"))
DIRECTIONS = Task(_directions, _labels)
ROUNDED = Task(
    lambda: [layers.Dense(2), layers.Activation(_rounded)],
    _floats(lambda rng, size: rng.integers(-1, 2, size=size), 2),
)
