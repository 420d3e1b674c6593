"""What must be as it was for a training that was cut off to go on exactly: as plain data, to be kept in its backup.

Everything that decides a member's numbers is described, as far as it can be: rows in memory by their hash, settings by
their configurations. What a dataset or a generator yields, and what a function computes, cannot be compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.graph.private import compile_settings, flatten_layers
from composer.runtime.arguments import FitRequest
from composer.runtime.callback_state import StatelessCallback
from composer.runtime.data import MemberData
from composer.runtime.session import MemberRun, TrainingSession

RATE, STEPS = "learning rate", "steps that its optimizer has taken"
MOST_VALUES = 100  # of a list that is kept as it is; of a longer one its hash

_REQUESTED = (
    "batch_size",
    "shuffle",
    "class_weight",
    "initial_epoch",
    "steps_per_epoch",
    "validation_split",
    "validation_batch_size",
    "validation_steps",
)
_COMPILED = ("loss", "loss_weights", "metrics", "weighted_metrics", "jit_compile", "run_eagerly", "auto_scale_loss")
_COUNTED = re.compile(r"_\d+$")  # `dense_7`: the seventh in its process
_OWN_PLACES = {"append", "backup_dir", "directory", "filename", "filepath", "log_dir", "min_delta", "verbose"}
"""Of callbacks' arguments: where they write, which may be moved, and what training changes."""


def conditions(
    session: TrainingSession, request: FitRequest, rows: Mapping[str, Mapping[str, Any]], spec: str
) -> dict[str, Any]:
    """What decides the numbers of one `fit`.

    Args:
        session: the `fit`, not begun.
        request: its arguments.
        rows: by member, what `described_rows` says of its rows.
        spec: the text of the spec.

    Returns:
        `spec`, `on_error`, and by member what it is called in words -> its value.
    """
    members = {name: _member(run, request, session) | dict(rows[name]) for name, run in session.runs.items()}
    joint = [_callback(each) for each in request.joint_callbacks if not isinstance(each, StatelessCallback)]
    found = {"spec": spec, "on_error": request.on_error, "joint callbacks": joint, "members": members}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def described_rows(data: MemberData | None) -> Any:
    """What is kept of rows: their number and their hash; None of what comes in batches, or where there are none."""
    if data is None or data.dataset is not None:
        return None
    found = hashlib.sha256()
    for leaf in keras.tree.flatten(data.arrays):
        for part in _parts(leaf):
            array = np.ascontiguousarray(part)
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.view(np.uint8).data)
    return {"rows": data.num_rows, "SHA-256": found.hexdigest()}


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two answers of `conditions`, each in words with both values.

    The rate of an optimizer that has stepped since is not compared: a `fit` that is called again in the process in
    which it was cut off finds the rate that training had come to.
    """
    told = []
    for name, settings in now["members"].items():
        unlike = _unlike(was["members"].get(name, {}), settings)
        if unlike.pop(STEPS, None) is not None:
            unlike.pop(RATE, None)
        told += [f"the {what} of `{name}`{_both(*pair)}" for what, pair in unlike.items()]
    return told + [f"the {key}{_both(*pair)}" for key, pair in _unlike(was, now).items() if key != "members"]


def _member(run: MemberRun, request: FitRequest, session: TrainingSession) -> dict[str, Any]:
    member, name = run.member, run.member.name
    trainer = member.trainer
    settings = compile_settings(trainer)
    weights = [[list(each.shape), str(each.dtype), bool(each.trainable)] for each in trainer.variables]
    return {
        "`epochs`": run.epochs.stop,
        **{f"`{argument}`": _plain(getattr(request, argument)[name]) for argument in _REQUESTED},
        "`validation_freq`": _plain(run.validation_freq),
        "number of batches an epoch": session.training.feed.num_batches[name],
        RATE: _rate(trainer.optimizer),
        STEPS: None if trainer.optimizer is None else int(trainer.optimizer.iterations),
        "optimizer": _optimizer(trainer.optimizer),
        **{f"`{setting}`": _plain(settings.get(setting)) for setting in _COMPILED},
        "callbacks": [
            _callback(each)
            for each in run.callbacks.callbacks
            if not isinstance(each, StatelessCallback | keras.callbacks.History)
        ],
        "seed": member.plan.member.seed,
        "number of replicas": len(member.layer.devices),
        "layers": [_plain(layer) for layer in flatten_layers(member.model) if not isinstance(layer, keras.Model)],
        "weights": _shortened(weights),
    }


def _optimizer(optimizer: Any) -> Any:
    """Its configuration without the rate, which training may change."""
    described = _plain(optimizer)
    inner = described
    while isinstance(inner, dict):
        if not isinstance(inner.get("learning_rate"), dict):
            inner.pop("learning_rate", None)
        inner = inner.get("inner_optimizer", {}).get("config")  # of one that scales its loss
    return described


def _rate(optimizer: Any) -> float | None:
    """The rate that an optimizer steps with; None of a schedule, which its configuration has."""
    scaled = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(scaled, "_learning_rate", None)
    return float(rate) if isinstance(rate, keras.Variable) else None


def _callback(callback: keras.callbacks.Callback) -> Any:
    """Of a callback of Keras' its class, and its arguments as far as they can be read off it; of others that they are
    there."""
    kind = type(callback)
    if not kind.__module__.startswith("keras."):
        return "one of the user's own"
    code = kind.__init__.__code__
    names = [name for name in code.co_varnames[1 : code.co_argcount] if name not in _OWN_PLACES]
    said = {name: _plain(vars(callback)[name]) for name in names if name in vars(callback)}
    return {"class": kind.__qualname__, **said}


def _plain(value: Any) -> Any:
    """A value as JSON can hold it, alike in every process: no addresses, no counters behind names."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.number | np.bool_):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if isinstance(value, Mapping):
        return {str(key): _named(item) if key == "name" else _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return _shortened([_plain(item) for item in (sorted(value, key=repr) if isinstance(value, set) else value)])
    if isinstance(value, np.ndarray | tf.Tensor | keras.Variable):
        return _shortened(np.array(value).tolist())
    if isinstance(value, type) or not hasattr(value, "get_config"):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"
    try:
        config = _plain(value.get_config())
    except Exception:  # whatever a class of the user's own raises
        config = {}
    return {"class": type(value).__qualname__, **config}


def _named(name: Any) -> Any:
    return _COUNTED.sub("", name) if isinstance(name, str) else _plain(name)


def _shortened(values: list[Any]) -> Any:
    if len(values) <= MOST_VALUES:
        return values
    return f"{len(values)} values, SHA-256 {hashlib.sha256(json.dumps(values).encode()).hexdigest()}"


def _parts(leaf: Any) -> Iterator[Any]:
    """The arrays that a leaf of some rows is made of."""
    if isinstance(leaf, tf.SparseTensor):
        yield from (leaf.indices, leaf.values, leaf.dense_shape)
    elif isinstance(leaf, tf.RaggedTensor):
        yield from (leaf.flat_values, *leaf.nested_row_splits)
    else:
        yield leaf


def _unlike(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {key: (was.get(key), value) for key, value in now.items() if was.get(key) != value}


def _both(was: Any, now: Any) -> str:
    """What was and what is, of two unlike values: only what differs of dicts and lists."""
    path = ""
    while type(was) is type(now) and isinstance(was, dict | list):
        keys: Any = range(len(was)) if isinstance(was, list) else was
        if isinstance(was, dict) and was.get("class") != now.get("class"):
            keys = ["class"]
        elif len(was) != len(now) or (isinstance(was, dict) and set(was) != set(now)):
            break
        key = next(key for key in keys if was[key] != now[key])
        path += f".{key}" if isinstance(was, dict) else f"[{key}]"
        was, now = was[key], now[key]
    return (f" (`{path.lstrip('.')}`)" if path else "") + f": {_shown(was)} then, {_shown(now)} now"


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
