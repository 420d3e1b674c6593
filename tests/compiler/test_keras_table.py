"""The table of what Keras has is that of the installed Keras."""

from __future__ import annotations

import json
from typing import Any

import keras
import pytest

from composer.compiler import keras_table
from tests.helpers import NEWEST_KERAS, needs_newest_keras
from tests.make_keras_table import TABLE, build_table, render

MODULES = {
    "optimizer": keras.optimizers,
    "schedule": keras.optimizers.schedules,
    "loss": keras.losses,
    "metric": keras.metrics,
    "callback": keras.callbacks,
    "regularizer": keras.regularizers,
    "initializer": keras.initializers,
    "constraint": keras.constraints,
}


@needs_newest_keras
def test_the_table_is_what_the_script_writes() -> None:
    """Fails when Keras moves: run `python -m tests.make_keras_table` and read the difference."""
    written = TABLE.read_text(encoding="utf-8")
    table, made = json.loads(written), build_table()
    told, found = (tuple(map(int, version.split(".")[:2])) for version in (table["keras"], made["keras"]))
    assert told == found == NEWEST_KERAS
    made["keras"] = table["keras"]  # a patch release may come at any time
    assert table == json.loads(render(made))
    assert written == render(made)


@needs_newest_keras
def test_every_entry_is_a_class_of_its_module() -> None:
    assert set(keras_table.families()) == set(MODULES)
    for family, module in MODULES.items():
        for name in keras_table.entries(family):
            assert isinstance(getattr(module, name), type), f"keras has no {family} {name}"


def test_kinds_are_known() -> None:
    kinds = {"number", "int", "bool", "str", "list", "map", *keras_table.families()}
    for family in keras_table.families():
        for entry in keras_table.entries(family).values():
            for parameter in entry.parameters.values():
                assert set(parameter.kinds) <= kinds


REQUIRED: dict[str, Any] = {  # a value that fits, for each parameter without a default
    "initial_learning_rate": 0.1, "decay_steps": 10, "first_decay_steps": 10, "decay_rate": 0.5, "boundaries": [2, 5],
    "values": [1.0, 0.5, 0.1], "num_classes": 3, "target_class_ids": [0, 1], "recall": 0.5, "precision": 0.5,
    "specificity": 0.5, "sensitivity": 0.5,
}  # fmt: skip


@needs_newest_keras
@pytest.mark.parametrize("family", ["optimizer", "schedule", "loss", "metric"])
def test_defaults_of_the_table_make_the_object_that_keras_makes(family: str) -> None:
    """Every class is made with all parameters of the table; its config is that of the bare class."""
    for name, entry in keras_table.entries(family).items():
        cls = getattr(MODULES[family], name)
        given = {**REQUIRED, "inner_optimizer": keras.optimizers.SGD()}
        required = {key: given[key] for key, parameter in entry.parameters.items() if parameter.required}
        rest = {key: parameter.default for key, parameter in entry.parameters.items() if not parameter.required}
        plain, made = cls(**required).get_config(), cls(**required, **rest).get_config()
        assert {**made, "name": None} == {**plain, "name": None}, name


@pytest.mark.parametrize("family", ["loss", "metric"])
def test_strings_are_taken_by_keras_itself(family: str) -> None:
    for name, entry in keras_table.entries(family).items():
        for text in entry.strings:
            if any(parameter.required for parameter in entry.parameters.values()):
                continue
            found = MODULES[family].get(text)
            wrapped = getattr(getattr(MODULES[family], name)(), "fn", None)
            assert type(found).__name__ == name or found is wrapped, text


@pytest.mark.parametrize(
    ("family", "name", "found"),
    [
        ("optimizer", "adam", "Adam"),
        ("optimizer", "AdamW", "AdamW"),
        ("optimizer", "rmsprop", "RMSprop"),
        ("schedule", "cosine_decay", "CosineDecay"),
        ("loss", "mse", "MeanSquaredError"),
        ("loss", "MSE", "MeanSquaredError"),
        ("loss", "sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"),
        ("loss", "kl_divergence", "KLDivergence"),
        ("metric", "mae", "MeanAbsoluteError"),
        ("metric", "auc", "AUC"),
        ("metric", "mean_iou", "MeanIoU"),
        ("metric", "mean_io_u", "MeanIoU"),
        ("callback", "early_stopping", "EarlyStopping"),
        ("callback", "terminate_on_nan", "TerminateOnNaN"),
        ("callback", "csv_logger", "CSVLogger"),
        ("callback", "reduce_lr_on_plateau", "ReduceLROnPlateau"),
        ("regularizer", "l1_l2", "L1L2"),
        ("initializer", "he_normal", "HeNormal"),
    ],
)
def test_names_are_found_however_they_are_spelt(family: str, name: str, found: str) -> None:
    entry = keras_table.find(family, name)
    assert entry is not None
    assert entry.name == found


def test_what_keras_has_not_is_not_found() -> None:
    assert keras_table.find("optimizer", "adamm") is None
    assert keras_table.find("loss", "adam") is None
    for family, base in (("optimizer", "Optimizer"), ("loss", "Loss"), ("metric", "Metric"), ("callback", "History")):
        assert keras_table.find(family, base) is None
