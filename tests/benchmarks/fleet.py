"""Eight unlike small members of unequal lengths: one joint `fit` against their own one after another, all included.

Each round makes fresh models, so that both pay for composing, compiling, tracing and the first epoch.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial

import keras
import numpy as np
from keras import layers

import composer
from tests.benchmarks.timing import seconds
from tests.helpers import assert_same_weights, twin

EPOCHS = 10
ROUNDS = 3
AT_LEAST = 2.5


@dataclass(frozen=True)
class Kind:
    """A small model and how it is trained.

    Args:
        shape: of one row.
        body: its layers.
        num_rows: how many it has.
        optimizer: by name.
    """

    shape: tuple[int, ...]
    body: tuple[tuple[str, dict[str, object]], ...]
    num_rows: int
    optimizer: str

    def model(self) -> keras.Model:
        return keras.Sequential([layers.Input(self.shape), *(getattr(layers, name)(**to) for name, to in self.body)])

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        draws = np.random.default_rng(self.num_rows)
        outputs = int(self.model().output_shape[-1])
        return tuple(draws.normal(size=(self.num_rows, *size)).astype("float32") for size in (self.shape, (outputs,)))


def dense(*units: int) -> tuple[tuple[str, dict[str, object]], ...]:
    hidden = tuple(("Dense", {"units": width, "activation": "relu"}) for width in units[:-1])
    return (*hidden, ("Dense", {"units": units[-1]}))


KINDS = {
    "a": Kind((8,), dense(16, 1), 2048, "adam"),
    "b": Kind((20,), dense(32, 16, 1), 1500, "sgd"),
    "c": Kind((5,), dense(64, 3), 700, "rmsprop"),
    "d": Kind((8, 8, 1), (("Conv2D", {"filters": 8, "kernel_size": 3}), ("Flatten", {}), *dense(10)), 1200, "adam"),
    "e": Kind((12,), dense(24, 24, 24, 2), 300, "adamw"),
    "f": Kind((6, 4), (("GRU", {"units": 8}), *dense(1)), 900, "adam"),
    "g": Kind((30,), dense(8, 1), 1800, "nadam"),
    "h": Kind((16,), dense(48, 4), 450, "adagrad"),
}


SETTINGS = {"batch_size": 32, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
Rows = dict[str, tuple[np.ndarray, np.ndarray]]


def separately(models: dict[str, keras.Model], rows: Rows) -> None:
    for name, model in models.items():
        model.compile(KINDS[name].optimizer, "mse")
        model.fit(*rows[name], **SETTINGS)


def jointly(models: dict[str, keras.Model], rows: Rows) -> None:
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    joint.compile(optimizer={name: kind.optimizer for name, kind in KINDS.items()}, loss="mse")
    joint.fit(rows, **SETTINGS)


def eight_members() -> bool:
    """How many times faster one joint `fit` is, in the median of some rounds."""
    rows = {name: kind.rows() for name, kind in KINDS.items()}
    ratios = []
    for turn in range(ROUNDS):
        members = {name: kind.model() for name, kind in KINDS.items()}
        alone = {name: twin(model) for name, model in members.items()}
        works = {"separately": partial(separately, alone, rows), "jointly": partial(jointly, members, rows)}
        times = {name: seconds(works[name]) for name in (works if turn % 2 == 0 else reversed(works))}
        ratios.append(times["separately"] / times["jointly"])
        for name, model in members.items():
            assert_same_weights(model, alone[name], 1e-6)
    found = statistics.median(ratios)
    holds = found >= AT_LEAST
    told = f"eight unlike members in one fit of {EPOCHS} epochs, everything included: {found:.2f} times faster"
    print(f"{'ok  ' if holds else 'MISS'} {told} (at least {AT_LEAST:g})", flush=True)
    return holds
