"""The arguments of `fit`, `evaluate` and `predict`, spread over the members and checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from composer.compiler.plan import Plan
from composer.errors import DataError
from composer.runtime.faults import ON_ERROR
from composer.runtime.members import ByMember

DEFAULTS: dict[str, Any] = {
    "batch_size": None,
    "epochs": None,
    "callbacks": None,
    "initial_epoch": 0,
    "shuffle": None,
    "class_weight": None,
    "sample_weight": None,
    "validation_split": 0.0,
    "validation_data": None,
    "validation_batch_size": None,
    "validation_freq": 1,
    "steps_per_epoch": None,
    "validation_steps": None,
    "on_error": "continue",
}

FOR_ALL = ("callbacks", "sample_weight", "validation_data", "on_error")
"""Arguments that are not spread over the members, or not here."""


@dataclass(frozen=True)
class FitRequest:
    """The arguments of one `fit`, each by member."""

    batch_size: dict[str, int | None]
    epochs: dict[str, int]
    initial_epoch: dict[str, int]
    shuffle: dict[str, bool]
    class_weight: dict[str, Any]
    sample_weight: Any
    validation_split: dict[str, float]
    validation_data: Any
    validation_batch_size: dict[str, int | None]
    validation_freq: dict[str, Any]
    steps_per_epoch: dict[str, int | None]
    validation_steps: dict[str, int | None]
    on_error: str
    callbacks: dict[str, list[keras.callbacks.Callback]]
    joint_callbacks: list[keras.callbacks.Callback]

    @classmethod
    def create(cls, names: ByMember, plan: Plan, given: Mapping[str, Any]) -> FitRequest:
        """Spread the arguments of `fit` over the members; what is left out comes from the spec's `train`, else from
        Keras.

        Raises:
            DataError: for an argument that is unknown, a member that is none, or a value out of range.
        """
        for name in given:
            if name not in DEFAULTS:
                raise DataError(f"`fit` has no argument `{name}`")
        values = {**DEFAULTS, **given}
        spread = {
            name: names.spread(f"`{name}`", values[name], default)
            for name, default in DEFAULTS.items()
            if name not in FOR_ALL
        }
        for placed in plan.members:
            name, train, data = placed.member.name, placed.member.train, placed.member.data
            said: dict[str, Any] = {
                "epochs": train.epochs,
                "batch_size": train.batch,
                "shuffle": None if data is None else data.shuffle,
            }
            said["class_weight"] = None if train.class_weight is None else train.class_weight.to_dict()
            for argument, value in said.items():
                if spread[argument][name] is None:
                    spread[argument][name] = value
            spread["epochs"][name] = 1 if spread["epochs"][name] is None else spread["epochs"][name]
            spread["shuffle"][name] = True if spread["shuffle"][name] is None else spread["shuffle"][name]
        own, joint = _callbacks(names, values["callbacks"])
        request = cls(
            sample_weight=values["sample_weight"],
            validation_data=values["validation_data"],
            on_error=values["on_error"],
            callbacks=own,
            joint_callbacks=joint,
            **spread,
        )
        _check_numbers(request)
        return request


def counts(names: ByMember, argument: str, value: Any) -> dict[str, int | None]:
    """The `batch_size` or the `steps` of each member in `evaluate` or `predict`."""
    spread = names.spread(f"`{argument}`", value)
    for name, count in spread.items():
        _check_number(argument, name, count, least=1)
    return spread


def _callbacks(names: ByMember, callbacks: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    """The callbacks of each member, and the joint ones: those under `"*"`, or a plain list."""
    joint = _as_list(callbacks.get("*") if isinstance(callbacks, Mapping) else callbacks)
    for callback in joint:
        _check_callback("all members", callback)
    if not isinstance(callbacks, Mapping):
        return {name: [] for name in names.names}, joint
    names.check_keys("`callbacks`", callbacks)
    own = names.spread("`callbacks`", {key: value for key, value in callbacks.items() if key != "*"} or None)
    held: dict[int, str] = {}
    for name, values in own.items():
        for callback in _as_list(values):
            _check_callback(f"`{name}`", callback)
            if held.setdefault(id(callback), name) != name:
                raise DataError(
                    f"`{held[id(callback)]}` and `{name}` were given one {type(callback).__name__} object, but a "
                    f"callback belongs "
                    "to one model. Make one for each"
                )
    return {name: _as_list(values) for name, values in own.items()}, joint


def _check_callback(whose: str, callback: Any) -> None:
    if not isinstance(callback, keras.callbacks.Callback):
        received = f"the class {callback.__name__}" if isinstance(callback, type) else repr(callback)
        raise DataError(f"a callback of {whose} must be a keras.callbacks.Callback object. Received: {received}")


def _as_list(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


def _check_number(argument: str, name: str, value: Any, least: int) -> None:
    if value is None and argument not in ("epochs", "initial_epoch"):
        return
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise DataError(f"`{argument}` of `{name}` must be a whole number of at least {least}. Received: {value!r}")


def _check_numbers(request: FitRequest) -> None:
    if request.on_error not in ON_ERROR:
        raise DataError(f"`on_error` is one of {', '.join(map(repr, ON_ERROR))}. Received: {request.on_error!r}")
    for argument in ("batch_size", "validation_batch_size", "steps_per_epoch", "validation_steps"):
        for name, value in getattr(request, argument).items():
            _check_number(argument, name, value, least=1)
    for argument in ("epochs", "initial_epoch"):
        for name, value in getattr(request, argument).items():
            _check_number(argument, name, value, least=0)
    for name, value in request.validation_split.items():
        if not isinstance(value, (int, float, np.number)):
            raise DataError(f"`validation_split` of `{name}` is a fraction of its rows. Received: {value!r}")
    for name, value in request.validation_freq.items():
        epochs = [value] if isinstance(value, (int, np.integer)) else value
        if not isinstance(epochs, Iterable) or not all(isinstance(each, (int, np.integer)) for each in epochs):
            raise DataError(f"`validation_freq` of `{name}` is a number of epochs or a list. Received: {value!r}")
        if any(each < 1 for each in epochs):
            raise DataError(f"`validation_freq` of `{name}` counts epochs from 1. Received: {value!r}")
    for name, value in request.class_weight.items():
        if value is not None and not isinstance(value, Mapping):
            raise DataError(f"`class_weight` of `{name}` is a dict of a weight a class. Received: {value!r}")
