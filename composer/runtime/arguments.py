"""The arguments of `fit`, `evaluate` and `predict`, spread over the members and checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from composer.compiler.plan import Plan
from composer.errors import DataError
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
}

NOT_YET = ("steps_per_epoch", "validation_steps")


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
    callbacks: dict[str, list[keras.callbacks.Callback]]
    joint_callbacks: list[keras.callbacks.Callback]

    @classmethod
    def create(cls, names: ByMember, plan: Plan, given: Mapping[str, Any]) -> FitRequest:
        """Spread the arguments of `fit` over the members; what is left out comes from the spec's `train`, else from
        Keras.

        Raises:
            DataError: for an argument that is unknown or not supported, a member that is none, or a value out of range.
        """
        for name, value in given.items():
            if name in NOT_YET and value is not None:
                raise DataError(f"`{name}` is not supported yet. Give each member a dataset of the length of its epoch")
            if name not in (*DEFAULTS, *NOT_YET):
                raise DataError(f"`fit` has no argument `{name}`")
        values = {**DEFAULTS, **given}
        spread = {
            name: names.spread(f"`{name}`", values[name], default)
            for name, default in DEFAULTS.items()
            if name not in ("callbacks", "sample_weight", "validation_data")
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
            callbacks=own,
            joint_callbacks=joint,
            **spread,
        )
        _check_numbers(request)
        return request


def batch_sizes(names: ByMember, batch_size: Any) -> dict[str, int | None]:
    """The batch size of each member in `evaluate` or `predict`."""
    sizes = names.spread("`batch_size`", batch_size)
    for name, size in sizes.items():
        _check_number("batch_size", name, size, least=1)
    return sizes


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
    if value is None and argument.endswith("batch_size"):
        return
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise DataError(f"`{argument}` of `{name}` must be a whole number of at least {least}. Received: {value!r}")


def _check_numbers(request: FitRequest) -> None:
    for argument, least in (("epochs", 0), ("initial_epoch", 0), ("batch_size", 1), ("validation_batch_size", 1)):
        for name, value in getattr(request, argument).items():
            _check_number(argument, name, value, least)
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
