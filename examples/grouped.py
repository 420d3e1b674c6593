"""Members of unlike length in step: 300 rows and 600 rows, thirty steps an epoch for both.

    python examples/grouped.py

`group=10` lets a member take ten rows for each row of the joint batch: inside the joint graph its input is
(n, 10, ...), run as (n * 10, ...) and given back as (n, 10, ...). At the surface its rows stay flat: 300 rows in,
300 predictions out.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

import composer

SPEC = "parallel(short group=10, long group=20) on auto"


def make_models() -> dict[str, keras.Model]:
    return {
        "short": keras.Sequential([layers.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(1)]),
        "long": keras.Sequential([layers.Input((2,)), layers.Dense(16, activation="tanh"), layers.Dense(3)]),
    }


def make_rows() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    short, long = rng.normal(size=(300, 4)).astype("float32"), rng.normal(size=(600, 2)).astype("float32")
    return {
        "short": (short, short.sum(axis=1, keepdims=True)),
        "long": (long, np.stack([long[:, 0], long[:, 1], long[:, 0] * long[:, 1]], axis=1)),
    }


def main() -> None:
    models, rows = make_models(), make_rows()
    joint = composer.compile(SPEC, models=models)
    joint.compile(optimizer="adam", loss="mse")
    history = joint.fit(rows, epochs=5, batch_size={"short": 10, "long": 20}, shuffle=False, verbose=0)
    for name, member in history.members.items():
        loss = member.history["loss"]
        print(f"{name}: {len(rows[name][0])} rows, loss {loss[0]:.3f} -> {loss[-1]:.3f}")
    predictions = joint.predict({name: x for name, (x, _) in rows.items()}, verbose=0)
    print({name: prediction.shape for name, prediction in predictions.items()})


if __name__ == "__main__":
    main()
