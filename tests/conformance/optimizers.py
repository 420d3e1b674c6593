"""Every optimizer and every schedule of Keras, and what can be set of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import layers

from tests.conformance.found import classes, required
from tests.conformance.trials import Entry, Rows, Trial

REASONS = {
    "Optimizer": "the base class",
    "OptimizerMap": "part of MultiOptimizer",
}
"""Why a class has no entry."""

ARGUMENTS = {
    "initial_learning_rate": 0.05, "decay_steps": 4, "first_decay_steps": 3, "decay_rate": 0.5, "boundaries": [2, 5],
    "values": [0.1, 0.05, 0.01],
}  # fmt: skip

DAILY = {
    "Adafactor", "Adam", "AdamW", "Ftrl", "Lion", "LossScaleOptimizer", "MultiOptimizer", "Muon", "Nadam", "RMSprop",
    "SGD", "SGD clipnorm", "SGD ema_overwrite_frequency", "SGD global_clipnorm", "SGD gradient_accumulation_steps",
    "SGD nesterov", "SGD weight_decay", "ScheduleFreeAdamW", "ExponentialDecay", "PiecewiseConstantDecay",
}  # fmt: skip
"""Those of the ordinary run; the rest differ from them in a formula."""

SCHEDULE_REASONS = {"LearningRateSchedule": "the base class"}

SETTINGS: dict[str, dict[str, Any]] = {
    "clipnorm": {"clipnorm": 0.05},
    "clipvalue": {"clipvalue": 0.01},
    "global_clipnorm": {"global_clipnorm": 0.05},
    "use_ema": {"use_ema": True, "ema_momentum": 0.8},
    "ema_overwrite_frequency": {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3},
    "gradient_accumulation_steps": {"gradient_accumulation_steps": 2},
    "weight_decay": {"weight_decay": 0.01},
    "loss_scale_factor": {"loss_scale_factor": 8.0},
}
"""Arguments that every optimizer takes."""

OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "SGD momentum": {"momentum": 0.9},
    "SGD nesterov": {"momentum": 0.9, "nesterov": True},
    "Adam amsgrad": {"amsgrad": True},
    "RMSprop centered": {"centered": True, "momentum": 0.5},
    "ScheduleFreeAdamW warmup_steps": {"warmup_steps": 4},
}
"""Arguments that change the rule of one optimizer."""

UNBUILT = {
    "ScheduleFreeAdamW": "built within a traced step, it forgets to start its averages at the weights and sets those "
    "back to 0",
}
"""Optimizers that Keras builds rightly only ahead of `fit`."""


def net() -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dense(5, activation="tanh"), layers.Dense(2)])


def numbers(n: int) -> Rows:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 3)).astype("float32"), rng.normal(size=(n, 2)).astype("float32")


def entries() -> Iterator[Entry]:
    """Every optimizer as it is and with every setting, and those of its own."""
    found = classes(keras.optimizers, keras.optimizers.Optimizer)
    plain = {name: cls for name, cls in found.items() if name not in REASONS and name not in MADE}
    for name, cls in plain.items():
        yield _entry(name, cls)
    for name, make in MADE.items():
        if name in found:
            yield _entry(name, make)
    for name, settings in OWN_SETTINGS.items():
        cls = plain.get(name.split()[0])
        if cls is not None:
            yield _entry(name, lambda cls=cls, settings=settings: cls(**settings))
    for name, cls in plain.items():
        for setting, values in SETTINGS.items():
            if not (cls is keras.optimizers.AdamW and setting == "weight_decay"):
                yield _entry(f"{name} {setting}", lambda cls=cls, values=values: cls(**values))


def schedule_entries() -> Iterator[Entry]:
    """Every schedule, of the rate of plain gradient descent."""
    base = keras.optimizers.schedules.LearningRateSchedule
    for name, cls in classes(keras.optimizers.schedules, base).items():
        if name not in SCHEDULE_REASONS:
            yield _entry(
                name,
                lambda cls=cls: keras.optimizers.SGD(cls(**required(cls, ARGUMENTS))),
                kind="schedule",
            )


def _entry(name: str, make: Callable[[], Any], kind: str = "optimizer") -> Entry:
    loss = _large_loss if name == "LossScaleOptimizer" else "mse"
    built = UNBUILT.get(name.split()[0], "")
    trial = Trial(f"{kind} {name}", net, numbers, lambda: {"optimizer": make(), "loss": loss}, built=built)
    return Entry(kind, name, trial, daily=name in DAILY)


def _large_loss(y_true: Any, y_pred: Any) -> Any:
    return 1e6 * keras.losses.mean_squared_error(y_true, y_pred)


def _scaled() -> Any:
    """With a scale that overflows at first, is halved until it does not, and then grows again."""
    inner = keras.optimizers.Adam(global_clipnorm=1.0)
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**109, dynamic_growth_steps=2)


def _by_variable() -> Any:
    rules = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.05))
    rules[".*kernel"] = keras.optimizers.Adam()
    return keras.optimizers.MultiOptimizer(rules)


MADE: dict[str, Callable[[], Any]] = {
    "LossScaleOptimizer": _scaled,
    "MultiOptimizer": _by_variable,
}
"""Optimizers that are made of others."""
