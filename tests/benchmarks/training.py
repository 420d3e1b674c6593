"""Training: one member against its own `fit`, and two joined against one after the other. Results must be equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
from keras import layers

import composer
from tests.benchmarks.timing import medians, report
from tests.helpers import assert_same_weights, twin

DIGITS = Path(__file__).parent.parent.parent / "examples" / "data" / "digits.npz"
BATCH_SIZE = 32
EPOCHS = 4
RUNS = 7
Rows = tuple[np.ndarray, np.ndarray]


def digits_net() -> keras.Model:
    """A small convolutional net."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Rescaling(1 / 16),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def table_net() -> keras.Model:
    """A dense net, nothing like the other."""
    return keras.Sequential([layers.Input((20,)), layers.Dense(64, activation="tanh"), layers.Dense(1)])


def digits_rows() -> Rows:
    data = np.load(DIGITS)
    return data["x"].astype("float32"), data["y"]


def table_rows() -> Rows:
    x = np.random.default_rng(0).normal(size=(1437, 20)).astype("float32")
    return x, x[:, :1] * x[:, 1:2]


MEMBERS: dict[str, tuple[Callable[[], keras.Model], Callable[[], Rows], str]] = {
    "digits": (digits_net, digits_rows, "sparse_categorical_crossentropy"),
    "table": (table_net, table_rows, "mse"),
}


def compare(names: tuple[str, ...]) -> tuple[float, float]:
    """Seconds an epoch of the members through composer and one after the other; asserts that both end alike."""
    rows = {name: MEMBERS[name][1]() for name in names}
    loss = {name: MEMBERS[name][2] for name in names}
    alone = {name: MEMBERS[name][0]() for name in names}
    members = {name: twin(model) for name, model in alone.items()}
    for name, model in alone.items():
        model.compile(keras.optimizers.Adam(1e-3), loss[name])
    joint = composer.compile(f"parallel({', '.join(names)}) on auto", models=members)
    joint.compile(optimizer={name: keras.optimizers.Adam(1e-3) for name in names}, loss=loss)
    settings = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "shuffle": False, "verbose": 0}

    def fit_alone() -> None:
        for name, model in alone.items():
            model.fit(*rows[name], **settings)

    contenders = {"composer": lambda: joint.fit(rows, **settings), "alone": fit_alone}
    for warm_up in contenders.values():
        warm_up()
    found = medians(contenders, RUNS)
    for name in names:
        assert_same_weights(members[name], alone[name], 1e-4)  # (1 + RUNS) * EPOCHS epochs of roundings
    return found["composer"] / EPOCHS, found["alone"] / EPOCHS


def one_member() -> bool:
    """One member through composer against the same member's own `fit`."""
    composed, alone = compare(("digits",))
    return report("one member through composer over its own fit, an epoch", composed / alone, 1.05)


def two_members() -> bool:
    """Two unlike members joined against their two `fit`s one after the other."""
    composed, alone = compare(("digits", "table"))
    return report("two unlike members joined over one after the other, an epoch", composed / alone, 1.0)
