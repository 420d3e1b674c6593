"""The same model twice, in both senses.

    python examples/same_model_twice.py

`parallel(tariff as day, tariff as night)`: one set of weights under two names, each with rows and results of its own.
Such members predict, evaluate and serve together; training them together is not supported yet and refused.

`parallel(tariff copies=2)`: one architecture, two sets of weights, each drawn from its own seed and trained on its own
rows: `tariff_0` and `tariff_1`.
"""

from __future__ import annotations

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


def evaluate_shared(model: keras.Model) -> dict[str, dict[str, float]]:
    """The loss of one model by day and by night, in one program."""
    joint = composer.compile(SHARED, tariff=model)
    joint.compile(optimizer="adam", loss="mse")
    return joint.evaluate({name: make_rows(name) for name in joint.members}, verbose=0)


def train_copies(model: keras.Model) -> composer.ComposedModel:
    """Two models of one architecture, one trained on the day's rows and one on the night's."""
    joint = composer.compile(COPIES, tariff=model)
    joint.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
    rows = dict(zip(joint.members, (make_rows("day"), make_rows("night")), strict=True))
    history = joint.fit(rows, epochs=20, batch_size=16, verbose=0)
    for name, member in history.members.items():
        loss = member.history["loss"]
        print(f"{name}: loss {loss[0]:.3f} -> {loss[-1]:.3f}")
    return joint


def main() -> None:
    model = make_model()
    for name, results in evaluate_shared(model).items():
        print(f"{name}: loss {results['loss']:.3f} before training")
    train_copies(model)


if __name__ == "__main__":
    main()
