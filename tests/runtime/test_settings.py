"""`train` settings as Keras' own objects and arguments."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from composer.compiler.ir import Call, Map, TrainSettings
from composer.errors import ComposerError
from composer.runtime.settings import compile_arguments, fit_arguments, make_callbacks, snake_case
from tests.helpers import needs_newest_keras, net, rows


def optimizer(name: str, **arguments: object) -> Call:
    return Call("optimizer", name, tuple(arguments.items()))  # type: ignore[arg-type]


def loss(name: str, **arguments: object) -> Call:
    return Call("loss", name, tuple(arguments.items()))  # type: ignore[arg-type]


def metric(name: str, /, **arguments: object) -> Call:
    return Call("metric", name, tuple(arguments.items()))  # type: ignore[arg-type]


def callback(name: str, **arguments: object) -> Call:
    return Call("callback", name, tuple(arguments.items()))  # type: ignore[arg-type]


def two_outputs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, [layers.Dense(1, name="price")(x), layers.Dense(3, name="kind")(x)])


# compile -----------------------------------------------------------------------------------------------------------


def test_optimizer_with_arguments_and_a_schedule() -> None:
    schedule = Call(
        "schedule", "ExponentialDecay", (("initial_learning_rate", 0.5), ("decay_steps", 10), ("decay_rate", 0.1))
    )
    made = compile_arguments(
        "a", TrainSettings(optimizer=optimizer("SGD", learning_rate=schedule, momentum=0.9)), net()
    )
    assert type(made["optimizer"]) is keras.optimizers.SGD
    assert made["optimizer"].momentum == 0.9
    assert float(made["optimizer"].learning_rate) == 0.5
    assert type(made["optimizer"]._learning_rate).__name__ == "ExponentialDecay"


@pytest.mark.parametrize("name", ["adam", "Adam", "rmsprop", "RMSprop", "ada_grad"])
def test_optimizer_in_any_spelling(name: str) -> None:
    made = compile_arguments("a", TrainSettings(optimizer=optimizer(name)), net())["optimizer"]
    assert type(made).__name__.lower() == name.replace("_", "").lower()


@needs_newest_keras
def test_optimizer_that_older_keras_lacks() -> None:
    made = compile_arguments("a", TrainSettings(optimizer=optimizer("schedule_free_adam_w")), net())["optimizer"]
    assert type(made).__name__ == "ScheduleFreeAdamW"


def test_names_of_losses_and_metrics_stay_strings() -> None:
    settings = TrainSettings(loss=loss("sparse_categorical_crossentropy"), metrics=(metric("accuracy"), metric("auc")))
    made = compile_arguments("a", settings, net(outputs=3))
    assert made == {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy", "auc"]}


def test_accuracy_is_the_one_that_fits_the_targets() -> None:
    model = net(outputs=3)
    settings = TrainSettings(loss=loss("sparse_categorical_crossentropy"), metrics=(metric("accuracy"),))
    model.compile(**compile_arguments("a", settings, model))
    x, _ = rows(8)
    model.run_eagerly = True
    history = model.fit(x, np.arange(8) % 3, verbose=0)
    assert set(history.history) == {"loss", "accuracy"}
    assert "SparseCategoricalAccuracy" in str(model._compile_metrics._flat_metrics[0].metrics)


def test_classes_with_arguments_are_fresh_objects_whose_names_do_not_count_up() -> None:
    settings = TrainSettings(
        loss=loss("Huber", delta=0.5), metrics=(metric("AUC", num_thresholds=7), metric("AUC", name="wide"))
    )
    first, second = (compile_arguments("a", settings, net()) for _ in range(2))
    assert type(first["loss"]) is keras.losses.Huber
    assert float(first["loss"](np.zeros((1, 1)), np.ones((1, 1)))) == pytest.approx(0.375)  # 0.5 * (1 - 0.5 / 2)
    assert [m.name for m in first["metrics"]] == [m.name for m in second["metrics"]] == ["auc", "wide"]
    assert first["metrics"][0].num_thresholds == 7
    assert first["metrics"][0] is not second["metrics"][0]


def test_losses_and_metrics_by_output() -> None:
    model = two_outputs()
    settings = TrainSettings(
        optimizer=optimizer("sgd"),
        loss=Map((("kind", loss("sparse_categorical_crossentropy")), ("price", loss("mse")))),
        metrics=Map((("kind", (metric("accuracy"),)),)),
    )
    model.compile(**compile_arguments("a", settings, model))
    x, y = rows(8)
    model.run_eagerly = True
    history = model.fit(x, [y, np.arange(8) % 3], verbose=0).history
    assert set(history) == {"loss", "price_loss", "kind_loss", "kind_accuracy"}
    by_position = TrainSettings(loss=(loss("mse"), loss("sparse_categorical_crossentropy")))
    assert compile_arguments("a", by_position, model)["loss"] == ["mse", "sparse_categorical_crossentropy"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            TrainSettings(loss=Map((("prize", loss("mse")),))),
            r"`loss` of `wine` is given for the output `prize`, .* are `price`, `kind`\. Did you mean `price`\?",
        ),
        (TrainSettings(loss=(loss("mse"),)), r"`loss` of `wine` is a list of 1, but the model has 2 output\(s\)"),
        (
            TrainSettings(metrics=(metric("mae"), metric("mse"), metric("auc"))),
            r"`metrics` of `wine` is a list of 3, but the model has 2 output\(s\): .*`metrics=\{price: \.\.\.\}`",
        ),
        (TrainSettings(loss=loss("msee")), r"`loss` of `wine`: Keras refuses `msee`"),
        (TrainSettings(loss=loss("mse", delta=1)), r"`loss` of `wine`: Keras .* has no loss class `mse`"),
        (
            TrainSettings(optimizer=optimizer("Adamm")),
            r"`optimizer` of `wine`: Keras .* has no optimizer class `Adamm`",
        ),
        (
            TrainSettings(optimizer=optimizer("Adam", clipnorm=1.0, clipvalue=2.0)),
            r"`optimizer` of `wine`: Keras refuses `adam\(clipnorm=1\.0, clipvalue=2\.0\)`: Only one of",
        ),
        (
            TrainSettings(metrics=Map((("kind", metric("AUC", num_thresholds=0)),))),
            r"`metrics` of `wine`: Keras refuses `auc\(num_thresholds=0\)`: .*must be an integer > 1",
        ),
    ],
)
def test_what_keras_refuses_names_the_member_and_the_option(settings: TrainSettings, message: str) -> None:
    with pytest.raises(ComposerError, match=message):
        compile_arguments("wine", settings, two_outputs())


def test_what_is_not_said_stays_as_the_model_was_compiled() -> None:
    model = net()
    assert compile_arguments("a", TrainSettings(epochs=3), model) == {}
    model.compile(keras.optimizers.Adam(0.25), "mae", metrics=["mse"])
    x, y = rows(8)
    model.run_eagerly = True
    model.train_on_batch(x, y)
    adam = model.optimizer
    assert compile_arguments("a", TrainSettings(epochs=3), model) == {}
    made = compile_arguments("a", TrainSettings(loss=loss("mse")), model)
    assert made["optimizer"] is adam
    assert (made["loss"], made["metrics"]) == ("mse", ["mse"])
    model.compile(**made)
    model.run_eagerly = True
    model.train_on_batch(x, y)
    assert int(model.optimizer.iterations) == 2


# fit ---------------------------------------------------------------------------------------------------------------


def test_fit_arguments_hold_what_is_said() -> None:
    assert fit_arguments(TrainSettings()) == {}
    settings = TrainSettings(batch=16, epochs=3, class_weight=Map(((0, 1.0), (1, 4.0))))
    assert fit_arguments(settings) == {"batch_size": 16, "epochs": 3, "class_weight": {0: 1.0, 1: 4.0}}


# Callbacks ---------------------------------------------------------------------------------------------------------


def test_callbacks_are_made_in_order_with_their_arguments(tmp_path: Path) -> None:
    calls = (callback("EarlyStopping", patience=3, monitor="loss"), callback("reduce_lr_on_plateau", factor=0.5))
    stop, reduce = make_callbacks("a", TrainSettings(callbacks=calls), tmp_path)
    assert type(stop) is keras.callbacks.EarlyStopping
    assert (stop.patience, stop.monitor) == (3, "loss")
    assert type(reduce) is keras.callbacks.ReduceLROnPlateau
    assert reduce.factor == 0.5
    assert list(tmp_path.iterdir()) == []


def test_callbacks_write_under_the_run_each_member_in_its_own_folder(tmp_path: Path) -> None:
    settings = TrainSettings(
        callbacks=(
            callback("CSVLogger", filename="logs/log.csv"),
            callback("ModelCheckpoint", filepath="best-{epoch}.keras"),
            callback("BackupAndRestore", backup_dir="backup"),
        )
    )
    x, y = rows(8)
    for member in ("a", "b"):
        model = net()
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(x, y, verbose=0, callbacks=make_callbacks(member, settings, tmp_path))
    for member in ("a", "b"):
        folder = tmp_path / "callbacks" / member
        assert (folder / "logs" / "log.csv").read_text().startswith("epoch,loss")
        assert (folder / "best-1.keras").is_file()


def test_callback_paths_that_are_absolute_stay(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "log.csv"
    (logger,) = make_callbacks(
        "a", TrainSettings(callbacks=(callback("CSVLogger", filename=str(target)),)), tmp_path / "run"
    )
    assert logger.filename == str(target)


def test_callback_faults_name_the_member(tmp_path: Path) -> None:
    with pytest.raises(ComposerError, match=r"`callbacks` of `wine`: Keras refuses `reduce_lr_on_plateau\(factor=2\)`"):
        make_callbacks("wine", TrainSettings(callbacks=(callback("ReduceLROnPlateau", factor=2),)), tmp_path)
    (tmp_path / "callbacks").touch()
    with pytest.raises(ComposerError, match=r"the callback `csv_logger` of `wine` cannot write to .*log\.csv: "):
        make_callbacks("wine", TrainSettings(callbacks=(callback("CSVLogger", filename="log.csv"),)), tmp_path)


@pytest.mark.parametrize(
    ("name", "snake"),
    [("EarlyStopping", "early_stopping"), ("CSVLogger", "csv_logger"), ("AUC", "auc"), ("F1Score", "f1_score")],
)
def test_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake
