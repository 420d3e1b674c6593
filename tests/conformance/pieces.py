"""What layers are made with: regularizers, constraints, initializers, and the dtype policies they compute in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import keras
from keras import layers

from tests.conformance.found import classes, required
from tests.conformance.optimizers import numbers
from tests.conformance.trials import Entry, Trial

REGULARIZER_REASONS = {"Regularizer": "the base class"}
CONSTRAINT_REASONS = {"Constraint": "the base class"}
INITIALIZER_REASONS = {
    "Initializer": "the base class",
    "STFT": "the kernel of STFTSpectrogram, which has an entry as a layer",
}
ARGUMENTS: dict[str, Any] = {"value": 0.3}

POLICIES = ("mixed_float16", "mixed_bfloat16", "bfloat16", "float64")
"""`float32` is that of every other entry."""


def net(**arguments: Any) -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dense(4, **arguments), layers.Dense(2)])


def regularizers() -> Iterator[Entry]:
    for name, cls in classes(keras.regularizers, keras.regularizers.Regularizer).items():
        if name not in REGULARIZER_REASONS:
            yield _entry("regularizer", name, partial(_regularized, cls), name in ("L1L2", "OrthogonalRegularizer"))


def constraints() -> Iterator[Entry]:
    for name, cls in classes(keras.constraints, keras.constraints.Constraint).items():
        if name not in CONSTRAINT_REASONS:
            yield _entry("constraint", name, partial(_constrained, cls), name == "MinMaxNorm")


def initializers() -> Iterator[Entry]:
    """All in one training: they only say where it starts."""
    found = classes(keras.initializers, keras.initializers.Initializer)
    made = {name: cls for name, cls in found.items() if name not in INITIALIZER_REASONS}
    trial = Trial("initializers", partial(_initialized, tuple(made.values())), numbers)
    yield from (Entry("initializer", name, trial) for name in made)


def policies() -> Iterator[Entry]:
    for name in POLICIES:
        yield _entry("policy", name, partial(_of_policy, name), name == "mixed_float16")


def _entry(kind: str, name: str, model: Any, daily: bool) -> Entry:
    return Entry(kind, name, Trial(f"{kind} {name}", model, numbers), daily=daily)


def _regularized(cls: type) -> keras.Model:
    return net(kernel_regularizer=cls(), bias_regularizer="l2", activity_regularizer="l1")


def _constrained(cls: type) -> keras.Model:
    return net(kernel_constraint=cls())


def _initialized(made: tuple[type, ...]) -> keras.Model:
    x = keras.Input((3,))
    parts = [layers.Dense(3, kernel_initializer=cls(**required(cls, ARGUMENTS)))(x) for cls in made]
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()(parts)))


def _of_policy(name: str) -> keras.Model:
    """Of mixed precision with half floats, Keras scales the loss by itself."""
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        x = keras.Input((3,))
        hidden = layers.BatchNormalization()(layers.Dropout(0.2)(layers.Dense(4, activation="tanh")(x)))
        return keras.Model(x, layers.Dense(2)(hidden))
    finally:
        keras.config.set_dtype_policy(usual)
