"""Models of the examples, as factories that a spec can name: `zoo:digits_net(filters=16)`."""

from __future__ import annotations

import csv
from pathlib import Path

import keras
import numpy as np
from keras import layers

DATA = Path(__file__).parent / "data"


def digits_net(filters: int = 16, dropout: float = 0.3) -> keras.Model:
    """A small convolutional net: 8 x 8 pixels in 0..16, one channel, to ten probabilities."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1), name="image"),
            layers.Rescaling(1 / 16),
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.Conv2D(2 * filters, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(32, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ],
        name="digits",
    )


def wine_net(units: int = 32) -> keras.Model:
    """A dense net: thirteen measurements as they are, standardised inside the model, to three probabilities."""
    standardise = layers.Normalization()
    standardise.adapt(measurements(DATA / "wine.csv"))
    return keras.Sequential(
        [
            layers.Input((13,), name="measurements"),
            standardise,
            layers.Dense(units, activation="relu"),
            layers.Dense(3, activation="softmax"),
        ],
        name="wine",
    )


def measurements(path: Path) -> np.ndarray:
    """The rows of a wine file without their target, the last column."""
    with path.open(encoding="utf-8") as file:
        rows = [[float(value) for value in row[:-1]] for row in list(csv.reader(file))[1:]]
    return np.array(rows, dtype="float32")
