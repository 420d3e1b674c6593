"""What a `train` statement says -> the arguments of Keras' `compile` and `fit`, and callbacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from composer.compiler.checks import outputs_fault
from composer.compiler.ir import Call, Map, TrainSettings, Value
from composer.compiler.keras_table import folded
from composer.errors import ComposerError
from composer.graph.private import compile_settings
from composer.graph.signatures import output_structure, own_names

CALLBACK_FOLDER = "callbacks"
"""The folder of a run in which each member's callbacks write, under the member's name."""

_MODULES = {
    "optimizer": keras.optimizers,
    "schedule": keras.optimizers.schedules,
    "loss": keras.losses,
    "metric": keras.metrics,
    "callback": keras.callbacks,
    "regularizer": keras.regularizers,
    "initializer": keras.initializers,
    "constraint": keras.constraints,
}
_PATHS = {  # callback -> the argument that is a path it writes to, and Keras' own value for it
    "BackupAndRestore": ("backup_dir", None),
    "CSVLogger": ("filename", None),
    "ModelCheckpoint": ("filepath", None),
    "OrbaxCheckpoint": ("directory", None),
    "TensorBoard": ("log_dir", "logs"),
}
_CHOSEN_BY_KERAS = {"accuracy", "acc", "crossentropy", "ce"}  # strings whose meaning depends on the targets
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def compile_arguments(member: str, settings: TrainSettings, model: keras.Model) -> dict[str, Any]:
    """The arguments that `model.compile` takes for a member.

    What the settings leave out stays as the model was compiled, its optimizer with its state included. Names such as
    `accuracy` or `mse` stay strings, so that Keras picks the variant that fits the targets and the key in the history
    is the name as written; classes with arguments become fresh objects.

    Args:
        member: the member's name, for messages.
        settings: its `train` settings.
        model: its model; the names of its outputs are what losses and metrics may be given for.

    Returns:
        `optimizer`, `loss`, `metrics` and what else the model was compiled with. Empty where the settings say nothing:
        then the model is to stay as it is.

    Raises:
        ComposerError: Keras refuses a value, or a loss or metric is for an output that the model has not.

    Example:
        >>> adam = Call("optimizer", "Adam", (("learning_rate", 1e-3),))
        >>> settings = TrainSettings(optimizer=adam, loss=Call("loss", "mse"))
        >>> arguments = compile_arguments("a", settings, model_a)
        >>> model_a.compile(**arguments)
    """
    said: dict[str, Any] = {}
    if settings.optimizer is not None:
        said["optimizer"] = _make(member, "optimizer", settings.optimizer)
    for option, value in (("loss", settings.loss), ("metrics", settings.metrics)):
        if value is not None:
            _check_outputs(member, option, value, model)
            said[option] = _make(member, option, value)
    return {**compile_settings(model), **said} if said else {}


def fit_arguments(settings: TrainSettings) -> dict[str, Any]:
    """The arguments that `fit` takes for a member: `batch_size`, `epochs` and `class_weight`, as far as they are "
    "said."""
    arguments = {"batch_size": settings.batch, "epochs": settings.epochs}
    if settings.class_weight is not None:
        arguments["class_weight"] = settings.class_weight.to_dict()  # type: ignore[assignment]
    return {name: value for name, value in arguments.items() if value is not None}


def make_callbacks(member: str, settings: TrainSettings, folder: Path) -> list[keras.callbacks.Callback]:
    """The member's callbacks, fresh ones.

    A relative path that a callback writes to lies under `folder/callbacks/<member>`, so that two members with the same
    settings do not write over each other.

    Args:
        member: the member's name.
        settings: its `train` settings.
        folder: the run folder.

    Returns:
        The callbacks in the order of the spec.

    Raises:
        ComposerError: Keras refuses an argument, or a folder to write to cannot be made.
    """
    return [_make_callback(member, call, folder / CALLBACK_FOLDER / member) for call in settings.callbacks]


def _make_callback(member: str, call: Call, folder: Path) -> keras.callbacks.Callback:
    parameter, default = _PATHS.get(call.name, (None, None))
    arguments = dict(call.arguments)
    path = arguments.get(parameter, default) if parameter else None
    if parameter and isinstance(path, str):
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ComposerError(
                f"the callback `{snake_case(call.name)}` of `{member}` cannot write to {target}: {error.strerror}"
            ) from error
        arguments[parameter] = str(target)
    return _make(member, "callbacks", Call(call.family, call.name, tuple(arguments.items())))


def _make(member: str, option: str, value: Value) -> Any:
    """A value as Keras takes it: calls become objects or strings, tuples lists, maps dicts."""
    if isinstance(value, Call):
        return _make_call(member, option, value)
    if isinstance(value, Map):
        return {key: _make(member, option, item) for key, item in value.items}
    if isinstance(value, tuple):
        return [_make(member, option, item) for item in value]
    return value


def _make_call(member: str, option: str, call: Call) -> Any:
    found = _find(call)
    if not call.arguments and call.family in ("loss", "metric"):
        if call.name in _CHOSEN_BY_KERAS:
            return call.name
        if not isinstance(found, type) or call.name != found.__name__:
            return _checked_string(member, option, call)
    if not isinstance(found, type):
        raise ComposerError(
            f"`{option}` of `{member}`: Keras {keras.__version__} has no {call.family} class `{call.name}`, and only a "
            "class takes arguments"
        )
    arguments = {name: _make(member, option, item) for name, item in call.arguments}
    if call.family == "metric":
        arguments.setdefault("name", snake_case(found.__name__))  # else it counts up with each one made in the process
    return _guarded(member, option, call, lambda: found(**arguments))


def _checked_string(member: str, option: str, call: Call) -> str:
    _guarded(member, option, call, lambda: _MODULES[call.family].get(call.name))
    return call.name


def _guarded(member: str, option: str, call: Call, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # Keras raises whatever it meets
        text = " ".join(str(error).split())
        raise ComposerError(f"`{option}` of `{member}`: Keras refuses `{_show(call)}`: {text}") from error


def _find(call: Call) -> Any:
    """The public Keras class or function of a name in any spelling; None where there is none."""
    module = _MODULES.get(call.family)
    if module is None:
        return None
    exact = getattr(module, call.name, None)
    if exact is not None:
        return exact
    names = [
        name for name in dir(module) if folded(name) == folded(call.name) and isinstance(getattr(module, name), type)
    ]
    return getattr(module, names[0]) if names else None


def _show(call: Call) -> str:
    arguments = ", ".join(
        f"{name}={_show(value) if isinstance(value, Call) else value!r}" for name, value in call.arguments
    )
    return f"{snake_case(call.name)}({arguments})" if arguments else snake_case(call.name)


def snake_case(name: str) -> str:
    """`EarlyStopping` -> `early_stopping`; what is in snake case stays."""
    return _WORDS.sub("_", name).lower()


def _check_outputs(member: str, option: str, value: Value, model: keras.Model) -> None:
    fault = outputs_fault(member, option, value, _output_names(model))
    if fault is not None:
        message, _, help = fault
        raise ComposerError(f"{message}. {help[:1].upper()}{help[1:]}" if help else message)


def _output_names(model: keras.Model) -> list[str]:
    """The names that losses and metrics may be keyed by; empty for a subclassed model that was never called."""
    try:
        outputs = output_structure(model)
    except Exception:  # whatever the call of a model that is not built raises
        return []
    return own_names(outputs, "output")
