"""What a callback remembers, as plain data: so that training goes on in another process as if it had not stopped.

A callback begins anew in the new process (`on_train_begin` opens its files) and is then given what it remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

_NOT_STATE = {"model", "_model", "params", "_params", "validation_data"}
_OWN_BEGINNING = {  # what the beginning of a training decides anew, for what is there then
    keras.callbacks.BackupAndRestore: None,
    keras.callbacks.CSVLogger: {"append", "append_header"},
    keras.callbacks.TensorBoard: None,
}
_TRUSTED = ("keras", "numpy")
_FUNCTION, _ARRAY, _TUPLE = "$function", "$array", "$tuple"


class StatelessCallback(keras.callbacks.Callback):
    """A callback that looks on: nothing of it is kept, and training goes on with or without it."""


class NotPlainError(Exception):
    """A value that is no plain data."""


def callback_state(callback: keras.callbacks.Callback, arrays: dict[str, np.ndarray], prefix: str) -> dict[str, Any]:
    """The attributes of a callback that are numbers, texts, arrays, functions of Keras, or lists and dicts of such.

    Others (open files, models, objects of the user's own) are left out: the callback makes them anew when training
    begins.

    Args:
        callback: whose state.
        arrays: gets the arrays of the state.
        prefix: of their names there.

    Returns:
        The state as JSON can hold it.
    """
    state = {}
    for name, value in vars(callback).items():
        if name not in _NOT_STATE and not _is_begun_anew(callback, name):
            try:
                state[name] = encoded(value, arrays, f"{prefix}{name}")
            except NotPlainError:
                continue
    return state


def restore_callback(callback: keras.callbacks.Callback, state: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Give a callback the attributes that `callback_state` took of it."""
    for name, value in state.items():
        held, kept = getattr(callback, name, None), decoded(value, arrays)
        if isinstance(held, dict) and isinstance(kept, dict):  # of the class it is, and for whoever else holds it
            held.clear()
            held.update(kept)
        else:
            setattr(callback, name, kept)


def _is_begun_anew(callback: keras.callbacks.Callback, attribute: str) -> bool:
    for kind, names in _OWN_BEGINNING.items():
        if isinstance(callback, kind):
            return names is None or attribute in names
    return False


def encoded(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """A value as JSON can hold it, its arrays apart.

    Raises:
        NotPlainError: for anything else.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biufUV":
        arrays[name] = np.asarray(value)
        return {_ARRAY: name, "dtype": value.dtype.name}
    if isinstance(value, (list, tuple)):
        items = [encoded(item, arrays, f"{name}/{index}") for index, item in enumerate(value)]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encoded(item, arrays, f"{name}/{key}") for key, item in value.items()}
    place = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    if callable(value) and _function(place) is value:
        return {_FUNCTION: place}
    raise NotPlainError


def decoded(value: Any, arrays: Mapping[str, Any]) -> Any:
    """The value that `encoded` was given."""
    if isinstance(value, list):
        return [decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        array = arrays[value[_ARRAY]]
        return array.view(np.dtype(value["dtype"])) if array.dtype.kind == "V" else array  # NumPy knows no bfloat16
    if _TUPLE in value:
        return tuple(decoded(item, arrays) for item in value[_TUPLE])
    if _FUNCTION in value:
        return _function(value[_FUNCTION])
    return {key: decoded(item, arrays) for key, item in value.items()}


def _function(place: str) -> Any:
    """A function of Keras or NumPy by `module:name`, from what is loaded; None for any other."""
    module, _, name = place.partition(":")
    if module.partition(".")[0] not in _TRUSTED:
        return None
    return getattr(sys.modules.get(module), name, None)
