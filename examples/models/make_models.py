"""Makes the untrained models of this folder: what the quickstart trains.

    python examples/models/make_models.py

The files are committed, so nobody has to run this. They were written with the oldest Keras that composer supports,
since newer ones read what older ones wrote.
"""

from __future__ import annotations

import csv
from pathlib import Path

import keras
import numpy as np
from keras import layers

FOLDER = Path(__file__).parent
SEED = 20


def main() -> None:
    keras.utils.set_random_seed(SEED)
    digits_model().save(FOLDER / "digits.keras")
    keras.utils.set_random_seed(SEED)
    wine_model(measurements(FOLDER.parent / "data" / "wine.csv")).save(FOLDER / "wine.keras")


def digits_model() -> keras.Model:
    """A small convolutional net: 8 x 8 pixels in 0..16, one channel, to ten probabilities."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1), name="image"),
            layers.Rescaling(1 / 16),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(32, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ],
        name="digits",
    )


def wine_model(train_rows: np.ndarray) -> keras.Model:
    """A dense net: thirteen measurements as they are, standardised inside the model, to three probabilities."""
    standardise = layers.Normalization()
    standardise.adapt(train_rows)
    return keras.Sequential(
        [
            layers.Input((13,), name="measurements"),
            standardise,
            layers.Dense(32, activation="relu"),
            layers.Dense(3, activation="softmax"),
        ],
        name="wine",
    )


def measurements(path: Path) -> np.ndarray:
    """The rows of a wine file without their target."""
    with path.open(encoding="utf-8") as file:
        rows = [[float(value) for value in row[:-1]] for row in list(csv.reader(file))[1:]]
    return np.array(rows, dtype="float32")


if __name__ == "__main__":
    main()
