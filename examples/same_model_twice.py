"""One model in two places: two members share its weights, each with rows, targets and results of its own.

    python examples/same_model_twice.py

The gradients of both add up in one step of the one optimizer, so the members must agree on it.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

import composer

SPEC = "parallel(tariff as day, tariff as night) on auto"


def make_model() -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dense(8, activation="relu"), layers.Dense(1)])


def make_rows() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two meters that follow one law."""
    rng = np.random.default_rng(0)
    day, night = rng.normal(size=(2, 64, 3)).astype("float32")
    law = np.array([[1.0], [-2.0], [0.5]], dtype="float32")
    return {"day": (day, day @ law), "night": (night, night @ law)}


def main() -> None:
    model, rows = make_model(), make_rows()
    joint = composer.compile(SPEC, tariff=model)
    joint.compile(optimizer=keras.optimizers.SGD(0.02), loss="mse")
    history = joint.fit(rows, epochs=10, batch_size=16, shuffle=False, verbose=0)
    for name, member in history.members.items():
        loss = member.history["loss"]
        print(f"{name}: loss {loss[0]:.3f} -> {loss[-1]:.3f}")
    assert joint.members["day"].model is joint.members["night"].model is model


if __name__ == "__main__":
    main()
