"""Members beside the same models alone: one joint `fit`, a `fit` of each twin, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

import composer
from tests.helpers import ROUNDING, assert_same_arrays, assert_same_history, twin

Rows = Any  # (x, y), (x, y, sample_weight), x, or a dataset


@dataclass(frozen=True)
class Alone:
    """A member and what its own `compile` and `fit` get. What has state is made anew for each of the two trainings.

    Args:
        model: its model; the twin starts from the same state.
        rows: makes its rows.
        settings: makes the arguments of `compile`.
        fit: the arguments of `fit` that are plain values.
        validation: makes its validation data, if any.
        callbacks: makes its callbacks.
        other: its twin, for a model that cannot be cloned.
        traced: whether the twin is trained by a traced function too. Op by op, Keras weighs the losses that it logs for
            each of several outputs otherwise.
    """

    model: keras.Model
    rows: Callable[[], Rows]
    settings: Callable[[], dict[str, Any]]
    fit: Mapping[str, Any] = field(default_factory=dict)
    validation: Callable[[], Rows] | None = None
    callbacks: Callable[[], list[keras.callbacks.Callback]] = list
    other: keras.Model | None = None
    traced: bool = False


class Fleet:
    """Several members, trained side by side; each twin is trained alone when it is first asked for.

    Args:
        members: by name.
        spec: the composition; one replica each if left out.
        **fit: arguments of the joint `fit`; `shuffle=False` and `verbose=0` unless they are given.
    """

    def __init__(self, members: Mapping[str, Alone], spec: str | None = None, **fit: Any) -> None:
        self.members = dict(members)
        self.models = {name: member.model for name, member in members.items()}
        self.callbacks = {name: member.callbacks() for name, member in members.items()}
        self._twins = {name: member.other or twin(member.model) for name, member in members.items()}
        self._histories: dict[str, keras.callbacks.History] = {}
        self.twin_callbacks: dict[str, list[keras.callbacks.Callback]] = {}
        for member in members.values():
            member.model.compile(**member.settings())
        self.joint = composer.compile(spec or f"parallel({', '.join(members)})", models=self.models)
        arguments: dict[str, Any] = {"shuffle": False, "verbose": 0}
        for name, member in members.items():
            for key, value in member.fit.items():
                arguments.setdefault(key, {})[name] = value
            if member.validation is not None:
                arguments.setdefault("validation_data", {})[name] = member.validation()
        self.callbacks_of_all = fit.pop("callbacks", {}).get("*", [])
        arguments["callbacks"] = {**self.callbacks, "*": self.callbacks_of_all}
        self.history = self.joint.fit({name: member.rows() for name, member in members.items()}, **{**arguments, **fit})

    def alone(self, name: str) -> tuple[keras.Model, dict[str, list[float]]]:
        """The twin after its own `fit`, and its history."""
        model, member = self._twins[name], self.members[name]
        if name not in self._histories:
            model.compile(**member.settings())
            self.twin_callbacks[name] = member.callbacks()
            self._histories[name] = fit_alone(
                model,
                member.rows(),
                validation_data=None if member.validation is None else member.validation(),
                callbacks=self.twin_callbacks[name],
                traced=member.traced,
                **member.fit,
            )
        return model, self._histories[name].history

    def assert_same(self, name: str, tolerance: float = ROUNDING, *, counters: bool = True) -> None:
        """Asserts that a member's weights, statistics, seed states, slots and history are those of its model alone."""
        model, history = self.alone(name)
        assert_same_state(self.models[name], model, tolerance, counters=counters)
        assert_same_history(self.history.members[name].history, history)


def fit_alone(model: keras.Model, rows: Rows, *, traced: bool = False, **fit: Any) -> keras.callbacks.History:
    """A model's own `fit` on `(x, y)`, `(x, y, sample_weight)` or a dataset, in the order of the rows."""
    arguments = {"verbose": 0, "shuffle": False, **fit}
    if not isinstance(rows, tuple):
        return model.fit(rows, **arguments)
    x, y, sample_weight = (*rows, None)[:3]
    return model.fit(x, y, sample_weight=sample_weight, **arguments)


def state(model: keras.Model) -> list[np.ndarray]:
    """Everything that `fit` changes: weights, statistics and seed states, and the optimizer's state."""
    return [np.array(variable) for variable in (*model.variables, *model.optimizer.variables)]


def set_state(model: keras.Model, values: list[np.ndarray]) -> None:
    """Bring a model and its optimizer back to a state that `state` gave, in place."""
    for variable, value in zip((*model.variables, *model.optimizer.variables), values, strict=True):
        variable.assign(value)


def compiled(model: keras.Model, *arguments: Any, **settings: Any) -> keras.Model:
    """The model, compiled, its optimizer built."""
    model.compile(*arguments, **settings)
    model.optimizer.build(model.trainable_variables)
    return model


def assert_same_state(
    got: keras.Model, want: keras.Model, tolerance: float = ROUNDING, *, counters: bool = True
) -> None:
    """Asserts that two models hold the same weights, statistics, seed states and optimizer state.

    Args:
        got, want: the models.
        tolerance: relative to the largest weight, and to the largest slot.
        counters: whether whole numbers (seed states, steps) are compared too; they must be equal.
    """
    pairs = [(got.variables, want.variables), (got.optimizer.variables, want.optimizer.variables)]
    for mine, theirs in pairs:
        arrays = [(np.array(a), np.array(b)) for a, b in zip(mine, theirs, strict=True)]
        floats = [(a, b) for a, b in arrays if np.issubdtype(b.dtype, np.floating)]
        assert_same_arrays([a for a, _ in floats], [b for _, b in floats], tolerance)
        for a, b in arrays:
            if counters and not np.issubdtype(b.dtype, np.floating):
                np.testing.assert_array_equal(a, b)


def assert_equal_bits(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Asserts that two lists of arrays are equal to the bit."""
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
