"""The same model twice, in both senses.

    python examples/same_model_twice.py

`parallel(tariff as day, tariff as night)`: one set of weights under two names, each with rows and results of its own.
Trained together, their gradients add and one optimizer takes the step: one model that has seen the rows of both.

`parallel(tariff copies=2)`: one architecture, two sets of weights, each drawn from its own seed and trained on its own
rows: `tariff_0` and `tariff_1`.
"""

from __future__ import annotations

import warnings

import keras
import numpy as np
from keras import layers

import composer

SHARED = "parallel(tariff as day, tariff as night) on auto"
COPIES = "parallel(tariff copies=2) on auto"

Rows = tuple[np.ndarray, np.ndarray]


def make_model() -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dense(8, activation="relu"), layers.Dense(1)])


def make_rows(name: str) -> Rows:
    """A meter's readings and what they cost: by day twice what they cost by night."""
    x = np.random.default_rng(len(name)).uniform(size=(64, 3)).astype("float32")
    price = 2.0 if name == "day" else 1.0
    return x, price * x.sum(axis=1, keepdims=True)


def train(joint: composer.ComposedModel) -> None:
    """Fit the first member on the day's rows, the second on the night's."""
    joint.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
    rows = dict(zip(joint.members, (make_rows("day"), make_rows("night")), strict=True))
    history = joint.fit(rows, epochs=20, batch_size=16, verbose=0)
    for name, member in history.members.items():
        loss = member.history["loss"]
        print(f"{name}: loss {loss[0]:.3f} -> {loss[-1]:.3f}")


def train_shared(model: keras.Model) -> composer.ComposedModel:
    """One model by day and by night."""
    joint = composer.compile(SHARED, tariff=model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "warning.MG321", composer.ComposerWarning)  # as it is meant here
        train(joint)
    return joint


def train_copies(model: keras.Model) -> composer.ComposedModel:
    """Two models of one architecture, one trained on the day's rows and one on the night's."""
    joint = composer.compile(COPIES, tariff=model)
    train(joint)
    return joint


def main() -> None:
    train_shared(make_model())
    train_copies(make_model())


if __name__ == "__main__":
    main()
