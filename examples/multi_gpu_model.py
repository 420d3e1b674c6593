"""The three forms of Keras' former `multi_gpu_model`, in this language, on devices that logical CPUs stand in for.

    python examples/multi_gpu_model.py

| then                                                     | now                                       |
| -------------------------------------------------------- | ----------------------------------------- |
| `with tf.device("/cpu:0")`, then `multi_gpu_model(m, 4)` | `parallel(m x4) on gpus=4`                |
| `multi_gpu_model(m, 4, cpu_relocation=True)`             | `parallel(m x4) on gpus=4 weights=cpu`    |
| `multi_gpu_model(m, 4, cpu_merge=False)`                 | `parallel(m x4) on gpus=4 merge=gpu`      |

The model trained is the caller's own: there is no hidden clone, and nothing but the model itself has to be saved.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import composer

NUM_DEVICES = 4

FORMS = {
    "weights on the CPU": "parallel(m x4) on gpus=4",
    "relocation": "parallel(m x4) on gpus=4 weights=cpu",
    "merge on the GPU": "parallel(m x4) on gpus=4 merge=gpu",
}


def make_model(form: str) -> keras.Model:
    """A small net; for the first form its weights are made in host memory, as they were then."""
    with tf.device("/cpu:0" if form == "weights on the CPU" else None):
        return keras.Sequential([layers.Input((6,)), layers.Dense(16, activation="relu"), layers.Dense(2)])


def make_rows(num_rows: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Fifty rows: with batches of sixteen, the last one has two, fewer than there are replicas."""
    x = np.random.default_rng(0).normal(size=(num_rows, 6)).astype("float32")
    return x, np.stack([x[:, :3].sum(axis=1), x[:, 3:].sum(axis=1)], axis=1)


def train(form: str, model: keras.Model) -> keras.callbacks.History:
    """Trains a model in one of the three forms and returns its history."""
    joint = composer.compile(FORMS[form], m=model)
    joint.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    history = joint.fit({"m": make_rows()}, epochs=3, batch_size=16, shuffle=False, verbose=0)
    return history.members["m"]


def main() -> None:
    composer.simulate(NUM_DEVICES)
    for form, spec in FORMS.items():
        loss = train(form, make_model(form)).history["loss"]
        print(f"{form}: {spec}: loss {loss[0]:.3f} -> {loss[-1]:.3f}")


if __name__ == "__main__":
    main()
