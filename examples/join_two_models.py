"""Two unlike models trained at the same time on one device.

The question, asked again and again: ten Keras models, one GPU used at 10 %, and separate processes that are slower
together than one after the other (https://stackoverflow.com/questions/50474336). The answer given there joins the
models by hand and has to feed both the same number of rows, in step. Here each keeps its own rows, batch size, epochs,
optimizer and loss, and ends with the weights that training it alone would have given it.

    python examples/join_two_models.py
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

import composer

SPEC = "parallel(images, points) on auto"


def make_models() -> dict[str, keras.Model]:
    """The two models of that answer: a convolution over 20 x 20 x 3, and a dense net over two numbers."""
    images = keras.Sequential(
        [
            layers.Input((20, 20, 3)),
            layers.Conv2D(10, 3, activation="tanh"),
            layers.Flatten(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    points = keras.Sequential([layers.Input((2,)), layers.Dense(20), layers.Dense(3)])
    return {"images": images, "points": points}


def make_rows() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """30 rows for one, 45 for the other."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(45, 2)).astype("float32")
    return {
        "images": (
            rng.normal(size=(30, 20, 20, 3)).astype("float32"),
            rng.integers(0, 2, size=(30, 1)).astype("float32"),
        ),
        "points": (points, np.stack([points[:, 0], points[:, 1], points.sum(axis=1)], axis=1)),
    }


def main() -> None:
    models, rows = make_models(), make_rows()
    joint = composer.compile(SPEC, models=models)
    joint.compile(
        optimizer={"images": keras.optimizers.Adam(1e-3), "points": keras.optimizers.SGD(0.05)},
        loss={"images": "binary_crossentropy", "points": "mse"},
    )
    history = joint.fit(
        rows, epochs={"images": 5, "points": 20}, batch_size={"images": 10, "points": 15}, shuffle=False, verbose=0
    )
    for name, member in history.members.items():
        loss = member.history["loss"]
        print(f"{name}: {len(loss)} epochs, loss {loss[0]:.3f} -> {loss[-1]:.3f}")
    predictions = joint.predict({name: x for name, (x, _) in rows.items()}, verbose=0)
    print({name: prediction.shape for name, prediction in predictions.items()})


if __name__ == "__main__":
    main()
