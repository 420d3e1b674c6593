"""Small models, rows and comparisons that the tests share. Importing it starts Keras."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import pytest
from keras import layers

NEWEST_KERAS = (3, 15)
"""The Keras that the table of its classes is made from. On Python 3.10 the newest there is is 3.12, which has less."""

needs_newest_keras = pytest.mark.skipif(
    tuple(map(int, keras.__version__.split(".")[:2])) < NEWEST_KERAS,
    reason=f"Keras {keras.__version__} is older than the table of its classes",
)

ROUNDING = 2e-6
"""What the solo contract allows, relative to the largest weight (unfused)."""


def net(inputs: int = 3, outputs: int = 1, units: int = 8, name: str | None = None) -> keras.Model:
    """A dense net: `(batch inputs) -> (batch outputs)`."""
    return keras.Sequential(
        [layers.Input((inputs,)), layers.Dense(units, activation="relu"), layers.Dense(outputs)], name=name
    )


def twin(model: keras.Model) -> keras.Model:
    """A second model with the same architecture and the same state: every variable, seed states included."""
    copy = keras.models.clone_model(model)
    for mine, theirs in zip(copy.variables, model.variables, strict=True):
        mine.assign(theirs)
    return copy


def rows(n: int, inputs: int = 3, outputs: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`n` normally distributed rows: x of shape `(n, inputs)` and y of shape `(n, outputs)`, float32."""
    rng = np.random.default_rng([seed, n, inputs, outputs])
    return rng.normal(size=(n, inputs)).astype("float32"), rng.normal(size=(n, outputs)).astype("float32")


def assert_same_weights(a: keras.Model, b: keras.Model, tolerance: float = ROUNDING) -> None:
    """Asserts that two models hold the same weights, to `tolerance` times the largest weight of `b`."""
    assert_same_arrays(a.get_weights(), b.get_weights(), tolerance)


def assert_same_arrays(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float = ROUNDING) -> None:
    """Asserts that two lists of arrays are equal, to `tolerance` times the largest value in `want`."""
    assert len(got) == len(want)
    scale = max((float(np.abs(array).max(initial=0)) for array in want), default=0.0)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * scale)


def assert_same_history(got: dict[str, list[float]], want: dict[str, list[float]], tolerance: float = 1e-5) -> None:
    """Asserts that two histories have the same keys, as many epochs and the same values."""
    assert set(got) == set(want)
    for key, values in want.items():
        np.testing.assert_allclose(got[key], values, rtol=tolerance, err_msg=key)
