"""Callbacks: a member's own see it as in its own `fit`; joint ones see the joint model and every member's logs."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, assert_equal_bits, assert_same_state, compiled, fit_alone, state


class Recorder(keras.callbacks.Callback):
    """Keeps the name, the place and the logged names of every call, and the model each was made with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.models: set[int] = set()

    def record(self, hook: str, place: int | None, logs: Any) -> None:
        self.models.add(id(self.model))
        self.calls.append((hook, place, sorted(logs or {})))


def _plain_hook(name: str) -> Callable[..., None]:
    return lambda self, logs=None: self.record(name, None, logs)


def _placed_hook(name: str) -> Callable[..., None]:
    return lambda self, place, logs=None: self.record(name, place, logs)


PLAIN = ["on_train_begin", "on_train_end", "on_test_begin", "on_test_end"]
PLACED = [f"on_{kind}_{end}" for kind in ("epoch", "train_batch", "test_batch") for end in ("begin", "end")]
for hook in PLAIN:
    setattr(Recorder, hook, _plain_hook(hook))
for hook in PLACED:
    setattr(Recorder, hook, _placed_hook(hook))


class StopInBatch(keras.callbacks.Callback):
    """Stops its model in the middle of its second epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.epoch == 1 and batch == 1:
            self.model.stop_training = True


def member(callbacks: Callable[[], list[Any]], rate: float = 0.1, validate: bool = True, **fit: Any) -> Alone:
    """A small net, with validation that gets worse where the rate is high."""
    return Alone(
        net(),
        lambda: rows(22),
        lambda: {"optimizer": keras.optimizers.SGD(rate, momentum=0.9), "loss": "mse"},
        {"epochs": 6, "batch_size": 5, **fit},
        validation=(lambda: rows(7, seed=1)) if validate else None,
        callbacks=callbacks,
    )


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders that members wrote to: first the joint training's, then those of the models alone."""
    return [tmp_path_factory.mktemp("joint"), tmp_path_factory.mktemp("alone")]


@pytest.fixture(scope="module")
def fleet(folders: list[Path]) -> Fleet:
    keras.utils.set_random_seed(11)
    turns = {name: itertools.count() for name in ("rates", "stopped")}

    def writers(name: str) -> list[Any]:
        folder = folders[next(turns[name])]
        best = keras.callbacks.ModelCheckpoint(folder / f"{name}.keras", monitor="val_loss", save_best_only=True)
        return [best, keras.callbacks.CSVLogger(folder / f"{name}.csv")]

    def early() -> list[Any]:
        return [keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True), *writers("stopped")]

    def rates() -> list[Any]:
        halved = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8)
        return [halved, keras.callbacks.ReduceLROnPlateau(factor=0.1, patience=1, min_delta=1.0), *writers("rates")]

    return Fleet(
        {
            "stopped": member(early, rate=0.1, epochs=9),
            "rates": member(rates, rate=0.2),
            "recorded": member(lambda: [Recorder()], epochs=2, validation_freq=2),
            "broken_off": member(lambda: [StopInBatch()], validate=False),
        },
        callbacks={"*": [Recorder()]},
    )


@pytest.mark.parametrize("name", ["stopped", "rates", "recorded", "broken_off"])
def test_members_with_callbacks_end_as_alone(fleet: Fleet, name: str) -> None:
    """EarlyStopping, ModelCheckpoint, CSVLogger, LearningRateScheduler, ReduceLROnPlateau, stops within an epoch."""
    fleet.assert_same(name)


def test_early_stopping_stops_its_member_and_no_other(fleet: Fleet) -> None:
    lengths = {name: len(run.history["loss"]) for name, run in fleet.history.members.items()}
    assert lengths["stopped"] < 9
    assert lengths == {"stopped": lengths["stopped"], "rates": 6, "recorded": 2, "broken_off": 2}
    assert fleet.models["stopped"].stop_training
    assert not fleet.models["rates"].stop_training
    (early, *_), (alone, *_) = fleet.callbacks["stopped"], fleet.twin_callbacks["stopped"]
    assert (early.stopped_epoch, early.best_epoch) == (alone.stopped_epoch, alone.best_epoch)
    assert early.best_epoch < early.stopped_epoch


def test_learning_rates_are_in_the_members_history(fleet: Fleet) -> None:
    seen = fleet.history.members["rates"].history["learning_rate"]
    assert len(set(seen)) == 6
    np.testing.assert_allclose(seen, fleet.alone("rates")[1]["learning_rate"], rtol=1e-6)


def test_a_stop_within_an_epoch_takes_no_further_batch(fleet: Fleet) -> None:
    assert int(fleet.models["broken_off"].optimizer.iterations) == 5 + 2


@pytest.mark.parametrize("name", ["stopped", "rates"])
def test_c19_c27_checkpoints_hold_the_plain_model_of_its_own_best_epoch(
    fleet: Fleet, folders: list[Path], name: str
) -> None:
    fleet.alone(name)
    joint, alone = (keras.saving.load_model(folder / f"{name}.keras", safe_mode=True) for folder in folders)
    assert [type(layer).__name__ for layer in joint.layers] == ["Dense", "Dense"]
    assert_same_state(joint, alone)
    losses = fleet.history.members[name].history["val_loss"]
    assert joint.evaluate(*rows(7, seed=1), verbose=0) == pytest.approx(min(losses), rel=1e-5)
    assert np.argmin(losses) < len(losses) - 1


def test_csv_logs_hold_the_members_plain_names(fleet: Fleet, folders: list[Path]) -> None:
    fleet.alone("rates")
    joint, alone = (read_csv(folder / "rates.csv") for folder in folders)
    assert list(joint[0]) == list(alone[0]) == ["epoch", "learning_rate", "loss", "val_loss"]
    for mine, theirs in zip(joint, alone, strict=True):
        assert {key: float(value) for key, value in mine.items()} == pytest.approx(
            {key: float(value) for key, value in theirs.items()}, rel=1e-5
        )


def test_batch_callbacks_are_called_as_alone(fleet: Fleet) -> None:
    """Every call, in order, with the same places and the same logged names; the model is the member's own."""
    fleet.alone("recorded")
    (joint,), (alone,) = fleet.callbacks["recorded"], fleet.twin_callbacks["recorded"]
    assert joint.calls == alone.calls
    assert {call[0] for call in joint.calls} == {*PLAIN, *PLACED}
    assert joint.models == {id(fleet.models["recorded"])}
    assert joint.params == alone.params


def test_joint_callbacks_see_every_member_under_its_name(fleet: Fleet) -> None:
    (recorder,) = fleet.callbacks_of_all
    assert recorder.models == {id(fleet.joint)}
    logged = [names for hook, _, names in recorder.calls if hook == "on_epoch_end"]
    members = {name: run.history for name, run in fleet.history.members.items()}
    for epoch, names in enumerate(logged):
        trained = {f"{name}_loss" for name, history in members.items() if epoch < len(history["loss"])}
        validated = {f"val_{name}" for name in trained - {"broken_off_loss"}}
        if epoch % 2 == 0:
            validated -= {"val_recorded_loss"}  # every second epoch
        assert set(names) == trained | validated


def test_c66_a_stopped_member_is_frozen_to_the_bit() -> None:
    """Momentum, weight decay, averages, statistics: nothing of a stopped member moves while the other goes on."""
    x = keras.Input((3,))
    normed = keras.layers.BatchNormalization()(keras.layers.Dense(4)(x))
    stopped = keras.Model(x, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(normed)))
    compiled(stopped, keras.optimizers.AdamW(0.1, weight_decay=0.1, use_ema=True), "mse")
    other = compiled(net(), "sgd", "mse")
    at_stop: list[list[np.ndarray]] = []

    class Stop(keras.callbacks.Callback):
        def on_train_end(self, logs: Any = None) -> None:
            at_stop.append(state(stopped))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = epoch == 1

    joint = composer.compile("parallel(stopped, other)", stopped=stopped, other=other)
    joint.fit(
        {"stopped": rows(12), "other": rows(40)}, batch_size=4, epochs=5, callbacks={"stopped": [Stop()]}, verbose=0
    )
    assert int(stopped.optimizer.iterations) == 6
    assert int(other.optimizer.iterations) == 50
    assert_equal_bits(state(stopped), at_stop[0])


def test_callbacks_defined_on_the_object_hear_of_batches() -> None:
    heard: list[Any] = []
    model = compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(a)", a=model)
    listen = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: heard.append(batch),
        on_test_batch_end=lambda batch, logs: heard.append(sorted(logs)),
    )
    joint.fit({"a": rows(7)}, batch_size=4, validation_data={"a": rows(4)}, callbacks={"a": listen}, verbose=0)
    assert heard == [0, 1, ["loss"]]


def test_joint_callbacks_monitor_one_member_and_stop_all(tmp_path: Path) -> None:
    """EarlyStopping, ModelCheckpoint and CSVLogger of Keras work on the joint model."""
    models = {name: compiled(net(), "sgd", "mse") for name in "ab"}
    joint = composer.compile("parallel(a, b)", models=models)
    callbacks = [
        keras.callbacks.EarlyStopping(monitor="val_a_loss", mode="min", min_delta=100.0, patience=2),
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="a_loss", mode="min", save_best_only=True),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
    ]
    history = joint.fit(
        {"a": rows(8), "b": rows(8)},
        epochs={"a": 9, "b": 2},
        validation_data={"a": rows(4)},
        callbacks=callbacks,
        verbose=0,
    )
    assert {name: run.epoch for name, run in history.members.items()} == {"a": [0, 1, 2], "b": [0, 1]}
    log = read_csv(tmp_path / "log.csv")
    assert [row["b_loss"] for row in log][2] == "NA"
    assert float(log[2]["val_a_loss"]) == pytest.approx(history.history["val_a_loss"][2])
    loaded = composer.load(tmp_path / "best.keras")
    assert_equal_bits(loaded.members["b"].model.get_weights(), models["b"].get_weights())


@pytest.mark.parametrize("key", ["a", "*"])
def test_backup_and_restore_goes_on_where_it_was(tmp_path: Path, key: str) -> None:
    """A run that breaks off goes on with the same epochs, weights and slots, of one member or of all."""

    class BreakOff(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise RuntimeError("break off")

    a, b, alone = (compiled(net(), "adam", "mse") for _ in range(3))
    alone.set_weights(a.get_weights())
    joint = composer.compile("parallel(a, b)", a=a, b=b)

    def fit(*more: keras.callbacks.Callback) -> Any:
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        return joint.fit(
            {"a": rows(8), "b": rows(8)},
            epochs=4,
            shuffle=False,
            callbacks={key: [backup, *more]},
            on_error="raise",
            verbose=0,
        )

    with pytest.raises(composer.ComposerError if key == "a" else RuntimeError, match="break off"):
        fit(BreakOff())
    history = fit()
    assert history.members["a"].epoch == [2, 3]
    assert history.members["b"].epoch == ([2, 3] if key == "*" else [0, 1, 2, 3])
    fit_alone(alone, rows(8), epochs=4)
    assert_same_state(a, alone)


def test_progress_is_printed_for_all_members(capsys: pytest.CaptureFixture[str]) -> None:
    models = {name: compiled(net(), "sgd", "mse") for name in "ab"}
    joint = composer.compile("parallel(a, b)", models=models)
    joint.fit({"a": rows(8), "b": rows(3)}, epochs={"a": 2, "b": 1}, batch_size=4, verbose=2)
    first, second = [line for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert "a_loss" in first
    assert "b_loss" in first
    assert "2/2" in first
    assert "a_loss" in second
    assert "b_loss" not in second


# Faults ------------------------------------------------------------------------------------------------------------


def test_one_callback_for_two_members_is_refused() -> None:
    models = {name: compiled(net(), "sgd", "mse") for name in "ab"}
    joint = composer.compile("parallel(a, b)", models=models)
    shared = keras.callbacks.EarlyStopping(monitor="loss")
    with pytest.raises(composer.DataError, match="`a` and `b` were given one EarlyStopping object"):
        joint.fit({"a": rows(4), "b": rows(4)}, callbacks={"a": [shared], "b": [shared]}, verbose=0)


def test_callbacks_of_no_member_are_refused() -> None:
    joint = composer.compile("parallel(alpha, b)", alpha=compiled(net(), "sgd", "mse"), b=compiled(net(), "sgd", "mse"))
    with pytest.raises(composer.DataError, match=r"`callbacks` names `alpa`.*Did you mean `alpha`\?"):
        joint.fit({"alpha": rows(4), "b": rows(4)}, callbacks={"alpa": []}, verbose=0)
