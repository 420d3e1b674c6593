"""Which members are alike: those that one batched program can step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from composer.engine.bundle_program import Purpose
from composer.engine.feed import ArrayRows, Rows
from composer.engine.functional_optimizers import Varying, varying
from composer.engine.units import Unit
from composer.graph.private import compile_settings, flatten_layers, random_states
from composer.runtime.programs import compiled_as

_OWN_STEPS = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")
_STEEP = (keras.layers.STFTSpectrogram,)  # of a model alone, compiled and not, it ends percents apart
_COARSE = ("bfloat16", "float16")
_UNLIKE_OPTIMIZERS = ("LossScaleOptimizer", "MultiOptimizer", "ScheduleFreeAdamW")
"""On TensorFlow the last reads a momentum that it has just changed for the one before; a pure function cannot."""
_RATE = "learning_rate"  # a variable anyway


def why_alone(unit: Unit, rows: Rows, shared: Counter[int], purpose: Purpose) -> str | None:
    """Why a member can be in no bundle, in words; None if it can.

    Args:
        unit: the member.
        rows: those it is to be stepped on.
        shared: by the `id` of a variable, how many members have it.
        purpose: what its steps do.
    """
    model = unit.model
    if len(unit.devices) > 1:
        return "it has replicas"
    if not isinstance(rows, ArrayRows) or not all(_is_dense(leaf) for leaf in keras.tree.flatten(rows.arrays)):
        return "its rows are no plain arrays of numbers"
    if any(shared[id(variable)] > 1 for variable in model.variables):
        return "it shares variables with another member"
    if getattr(model, "run_eagerly", False):
        return "it runs eagerly"
    if any(getattr(type(model), step) is not getattr(keras.Model, step) for step in _OWN_STEPS):
        return "its model has a step of its own"
    layers = [model, *flatten_layers(model)]
    own = next((layer for layer in layers if not _of_keras(layer) or isinstance(layer, keras.layers.Lambda)), None)
    if own is not None:
        return f"only Keras' own layers are batched, and `{own.name}` is a {type(own).__name__}"
    augmenting = next(
        (layer for layer in layers if ".preprocessing." in type(layer).__module__ and _draws(layer)), None
    )
    if augmenting is not None:
        return f"what `{augmenting.name}` draws has another shape or order for each member"
    stateful = next((layer for layer in layers if getattr(layer, "stateful", False)), None)
    if stateful is not None:
        return f"`{stateful.name}` carries a state from batch to batch"
    steep = next((layer for layer in layers if isinstance(layer, _STEEP)), None)
    if steep is not None:
        return f"the gradients of `{steep.name}` turn roundings into differences that show"
    coarse = next((layer.compute_dtype for layer in layers if layer.compute_dtype in _COARSE), None)
    if coarse is not None:
        return f"in {coarse} the roundings of a batched program would show"
    if purpose == "predict":
        recurrent = any(isinstance(layer, keras.layers.RNN) for layer in layers)
        return (
            "its recurrent cells draw random numbers in a prediction too"
            if recurrent and random_states(model)
            else None
        )
    if purpose == "train" and (not _of_keras(model.optimizer) or type(model.optimizer).__name__ in _UNLIKE_OPTIMIZERS):
        return f"its optimizer is a {type(model.optimizer).__name__}"
    counted = keras.tree.flatten(compile_settings(model))
    of_user = next((leaf for leaf in counted if _counts(leaf) and not _of_keras(leaf)), None)
    return None if of_user is None else f"`{type(of_user).__name__}` is a class of the user's own"


def likeness(unit: Unit, rows: ArrayRows, purpose: Purpose) -> Hashable:
    """What members of one bundle have in common: layers, shapes, loss, metrics, the optimizer's rule and batch size.

    Names, seeds and initial values may differ, the learning rate where it is a variable, and the numbers among the
    optimizer's settings, see `varying_settings`.
    """
    model = unit.model
    if purpose == "predict":
        return (_frozen(_without_names(model.get_config())), _shapes(model), rows_key(rows))
    if purpose == "test":
        return (_compiled_key(model), _shapes(model), rows_key(rows))
    return (_compiled_key(model), rows_key(rows), _optimizer_key(model.optimizer))


def _shapes(model: keras.Model) -> Hashable:
    variables = [*model.trainable_variables, *model.non_trainable_variables]
    return tuple((tuple(variable.shape), variable.dtype, variable.trainable) for variable in variables)


_KNOWN: WeakKeyDictionary[keras.Model, tuple[list[Any], Hashable]] = WeakKeyDictionary()


def _compiled_key(model: keras.Model) -> Hashable:
    """Layers, what of them is frozen, loss and metrics. As Keras' own `fit`, it sees a change of a layer only when the
    model is compiled anew: of a thousand members, telling their layers takes longer than an epoch."""
    now = compiled_as([model])
    before, key = _KNOWN.get(model, (None, None))
    if before != now:
        settings = {name: value for name, value in compile_settings(model).items() if name != "optimizer"}
        layers = (_frozen(_without_names(model.get_config())), _shapes(model))
        key = (layers, _frozen(_described(settings)), model.jit_compile)
        _KNOWN[model] = (now, key)
    return key


def _optimizer_key(optimizer: keras.optimizers.Optimizer) -> Hashable:
    config = optimizer.get_config()
    signs = {name: ["sign", (value > 0) - (value < 0)] for name, value in _numbers(config).items()}
    return (type(optimizer), _frozen(_without_names({**config, **signs})))


def _numbers(config: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in config.items() if isinstance(value, float)}


def varying_settings(units: Sequence[Unit]) -> tuple[list[list[Unit]], list[Varying]]:
    """Members that are alike in groups whose optimizers' rules are the same, and the settings that differ within them.

    A rule that wants to know a number when it is traced (`varying`) parts members that differ in it.
    """
    settings = [_numbers(unit.model.optimizer.get_config()) for unit in units]
    differing = [name for name in settings[0] if len({each[name] for each in settings}) > 1 and name != _RATE]
    found = {name: varying(units[0].model.optimizer, name) for name in differing}
    groups: dict[Hashable, list[Unit]] = {}
    for unit, each in zip(units, settings, strict=True):
        fixed = tuple(each[name] for name, setting in found.items() if setting is None)
        groups.setdefault(fixed, []).append(unit)
    return list(groups.values()), [setting for setting in found.values() if setting is not None]


def rows_key(rows: ArrayRows) -> Hashable:
    """The structure of batches and their size."""
    leaves = keras.tree.flatten(rows.arrays)
    structure = keras.tree.map_structure(lambda _: None, rows.arrays)
    return (repr(structure), tuple((tuple(leaf.shape[1:]), leaf.dtype) for leaf in leaves), rows.batch_size)


def _is_dense(array: Any) -> bool:
    return isinstance(array, tf.Tensor) and array.dtype != tf.string


def _of_keras(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "keras"


def _draws(layer: keras.layers.Layer) -> bool:
    return bool(random_states(layer))


def _counts(thing: Any) -> bool:
    return isinstance(thing, (keras.losses.Loss, keras.metrics.Metric))


def _without_names(config: Any) -> Any:
    """A config with each name that it defines replaced by the place it comes in, and without what may differ."""
    places: dict[str, str] = {}

    def define(part: Any) -> None:
        if isinstance(part, Mapping):
            if isinstance(part.get("name"), str):
                places.setdefault(part["name"], f"#{len(places)}")
            for value in part.values():
                define(value)
        elif isinstance(part, (list, tuple)):
            for value in part:
                define(value)

    def replaced(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {
                key: replaced(value)
                for key, value in part.items()
                if key not in ("seed", "build_config") and not str(key).endswith("_initializer")
            }
        if isinstance(part, (list, tuple)):
            return [replaced(value) for value in part]
        return places.get(part, part) if isinstance(part, str) else part

    define(config)
    return replaced(config)


def _described(part: Any) -> Any:
    """Losses and metrics as data, without their names; a function stands for itself."""
    if isinstance(part, Mapping):
        return {key: _described(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_described(value) for value in part]
    if hasattr(part, "get_config"):
        config = part.get_config()
        own = config.pop("name", None)
        return [type(part).__qualname__, own == "loss", _described(config)]  # that name is taken: one counts for two
    return ["function", id(part)] if isinstance(part, Callable) else part  # type: ignore[arg-type]


def _frozen(part: Any) -> Hashable:
    if isinstance(part, Mapping):
        return tuple((str(key), _frozen(value)) for key, value in sorted(part.items(), key=lambda item: str(item[0])))
    if isinstance(part, (list, tuple)):
        return tuple(_frozen(value) for value in part)
    if isinstance(part, np.ndarray):
        return (part.shape, part.tobytes())
    return part if isinstance(part, Hashable) else repr(part)
