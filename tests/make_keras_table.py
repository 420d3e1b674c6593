"""Writes `composer/compiler/keras_table.json` from the installed Keras: its optimizers, losses, metrics, callbacks, ...

Run by hand when Keras moves: `python -m tests.make_keras_table`. `tests/compiler/test_keras_table.py` holds the table
against the installed Keras.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from composer.compiler.keras_table import folded

TABLE = Path(__file__).parents[1] / "composer" / "compiler" / "keras_table.json"

# Classes nobody names in a spec: bases, wrappers and what `fit` makes itself.
LEFT_OUT = {
    "Optimizer", "OptimizerMap", "MultiOptimizer", "LearningRateSchedule", "Loss", "LossFunctionWrapper", "Metric",
    "MeanMetricWrapper", "Callback", "CallbackList", "History", "ProgbarLogger", "Regularizer", "Initializer",
    "Constraint",
}  # fmt: skip
# Known, but made from Python functions: a spec cannot say them.
FROM_PYTHON = {"LambdaCallback", "LearningRateScheduler"}

# Kinds that a default value does not tell, by parameter name.
BY_NAME: dict[str, str] = {
    "learning_rate": "number|schedule",
    "inner_optimizer": "optimizer",
    "name": "str",
    "dtype": "str",
    "average": "str",
    "seed": "int",
    "axis": "int|list",
    "input_axes": "int|list",
    "output_axes": "int|list",
    "thresholds": "number|list",
    "threshold": "number",
    "verbose": "bool|int",
    "save_freq": "int|str",
    "update_freq": "int|str",
    "profile_batch": "int|list",
    "window": "str",
    "embeddings_metadata": "str|map",
    "headers": "map",
    "value": "number|list",
    "exclude_layers": "list",
    "label_weights": "list",
    "target_class_ids": "list",
    "boundaries": "list",
    "values": "list",
    "filename": "str",
    "filepath": "str",
    "directory": "str",
    "backup_dir": "str",
    "schedule": "function",
}
WHOLE = {  # an integer default of these means a count, of others just a number
    "patience", "start_from_epoch", "cooldown", "num_thresholds", "num_labels", "num_classes", "num_regressors", "k",
    "top_k", "class_id", "ignore_class", "ema_overwrite_frequency", "gradient_accumulation_steps", "ns_steps",
    "max_to_keep",
    "histogram_freq", "embeddings_freq", "dynamic_growth_steps", "warmup_steps",
}  # fmt: skip


def build_table() -> dict[str, Any]:
    """The table as data: families, each with its entries by class name."""
    import keras
    from keras.src.losses import ALL_OBJECTS_DICT as LOSSES
    from keras.src.metrics import ALL_OBJECTS_DICT as METRICS

    modules = {
        "optimizer": (keras.optimizers, keras.optimizers.Optimizer, {}),
        "schedule": (keras.optimizers.schedules, keras.optimizers.schedules.LearningRateSchedule, {}),
        "loss": (keras.losses, keras.losses.Loss, LOSSES),
        "metric": (keras.metrics, keras.metrics.Metric, METRICS),
        "callback": (keras.callbacks, keras.callbacks.Callback, {}),
        "regularizer": (keras.regularizers, keras.regularizers.Regularizer, {}),
        "initializer": (keras.initializers, keras.initializers.Initializer, {}),
        "constraint": (keras.constraints, keras.constraints.Constraint, {}),
    }
    return {"keras": keras.__version__, "families": {family: _family(*found) for family, found in modules.items()}}


def _family(module: Any, base: type, strings: dict[str, Any]) -> dict[str, Any]:
    names: dict[type, set[str]] = {}
    for name in sorted(dir(module)):
        cls = getattr(module, name)
        if not inspect.isclass(cls) or not issubclass(cls, base) or name in LEFT_OUT or cls.__name__ in LEFT_OUT:
            continue
        names.setdefault(cls, set()).add(name)
    return {
        cls.__name__: _entry(cls, names[cls], _strings(cls, strings))
        for cls in sorted(names, key=lambda cls: cls.__name__)
    }


def _entry(cls: type, names: set[str], strings: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"spelled": _snake(cls.__name__)}
    aliases = sorted({text for text in names | set(strings) if folded(text) != folded(cls.__name__)})
    if aliases:
        entry["aliases"] = aliases
    if strings:
        entry["strings"] = strings  # what Keras' own `get` takes as a string
    if cls.__name__ in FROM_PYTHON:
        entry["from_python"] = True
        return entry
    entry["parameters"] = _parameters(cls)
    return entry


def _strings(cls: type, strings: dict[str, Any]) -> list[str]:
    """Strings that Keras resolves to this class or to the function behind it."""
    wrapped = getattr(cls(), "fn", None) if strings and not _required(cls) else None
    return sorted(text for text, found in strings.items() if found is cls or (wrapped is not None and found is wrapped))


def _required(cls: type) -> list[str]:
    parameters = inspect.signature(cls).parameters.values()
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in parameters if p.kind is named and p.default is inspect.Parameter.empty]


def _parameters(cls: type) -> dict[str, list[Any]]:
    """Parameter -> [kind] where it has to be given, [kind, default] elsewhere."""
    found: dict[str, list[Any]] = {}
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        default = parameter.default
        kind = _kind(parameter.name, default)
        found[parameter.name] = [kind] if default is inspect.Parameter.empty else [kind, _plain(default)]
    return found


def _kind(name: str, default: Any) -> str:
    if name.endswith("_regularizer"):
        return "regularizer"
    if name.endswith("_initializer"):
        return "initializer"
    if name in BY_NAME:
        return BY_NAME[name]
    if name in WHOLE:
        return "int"
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, str):
        return "str"
    if isinstance(default, list | tuple):
        return "list"
    return "number"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _snake(name: str) -> str:
    """The usual spelling, as `keras.src.utils.naming.to_snake_case` makes it, but with names like `NaN` kept whole."""
    for odd, even in (("NaN", "Nan"), ("IoU", "Iou"), ("RMSprop", "Rmsprop"), ("AdamW", "Adamw")):
        name = name.replace(odd, even)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def render(table: dict[str, Any]) -> str:
    """The table as text: one entry a line, so that a change shows as one line."""
    lines = [f'{{"keras": {json.dumps(table["keras"])}, "families": {{']
    families = list(table["families"].items())
    for i, (family, entries) in enumerate(families):
        lines.append(f' "{family}": {{')
        rows = [f'  "{name}": {json.dumps(entry)}' for name, entry in entries.items()]
        lines.append(",\n".join(rows))
        lines.append(" }" if i == len(families) - 1 else " },")
    return "\n".join([*lines, "}}"]) + "\n"


if __name__ == "__main__":
    TABLE.write_text(render(build_table()), encoding="utf-8")
