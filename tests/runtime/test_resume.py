"""Exact resume: a `fit` that was cut off ends as one that was not, in weights, slots, histories and callbacks."""

from __future__ import annotations

import collections
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from composer.runtime.callback_state import callback_state, restore_callback
from tests.helpers import net, rows
from tests.runtime.alone import assert_equal_bits, compiled, state

EPOCHS = {"a": 5, "b": 3, "c": 4}


class Cut(keras.callbacks.Callback):
    """Stops everything at the end of an epoch, before anything is written, as a crash would."""

    def __init__(self, epoch: int = -1) -> None:
        super().__init__()
        self.places = {(epoch, -1)}  # a set is no state that is kept: the next training is not to be cut as well
        self.epoch = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch, -1) in self.places:
            raise KeyboardInterrupt


class CutInBatch(Cut):
    """Stops everything after a batch. It is told of each, so that they are taken one by one."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__()
        self.places = {(epoch, batch)}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) in self.places:
            raise KeyboardInterrupt


def drawing_net() -> keras.Model:
    return keras.Sequential(
        [layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.5, seed=3), layers.Dense(1)]
    )


def models() -> dict[str, keras.Model]:
    keras.utils.set_random_seed(1)
    return {"a": drawing_net(), "b": net(), "c": net()}


def optimizers() -> dict[str, Any]:
    return {
        "a": keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.05, 3, 0.9)),
        "b": keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True),
        "c": keras.optimizers.RMSprop(0.05),
    }


def data() -> dict[str, Any]:
    stream = tf.data.Dataset.from_tensor_slices(rows(7, seed=2)).shuffle(7, seed=5).batch(3)
    return {"a": rows(9), "b": rows(6, seed=1), "c": stream}


def callbacks(folder: Path, cut: Cut) -> dict[str, list[Any]]:
    stopping = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    return {
        "a": [keras.callbacks.CSVLogger(folder / "a.csv")],
        "b": [keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=0.5)],
        "c": [stopping],
        "*": [cut],
    }


def train(folder: Path, cut: Cut | None = None, every: int | None = None) -> tuple[dict[str, Any], Any]:
    """A training from the beginning or from where the folder left it, as a process of its own would do it."""
    members = models()
    joint = composer.compile("parallel(a, b, c)", models=members)
    joint.compile(optimizer=optimizers(), loss="mse", metrics=["mae"])
    given = callbacks(folder, cut or Cut())
    try:
        history = joint.fit(
            data(),
            epochs=EPOCHS,
            batch_size={"a": 2, "b": 4},
            validation_data={"c": rows(4, seed=9)},
            callbacks=given,
            backup_dir=folder / "backup",
            checkpoint_every=every,
            verbose=0,
        )
    except KeyboardInterrupt:
        given["a"][0].csv_file.close()  # as the end of a process does
        raise
    return members, history


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, Path]:
    folder = tmp_path_factory.mktemp("unbroken")
    return (*train(folder), folder)


def assert_ends_as(unbroken: tuple[dict[str, Any], Any, Path], got: tuple[dict[str, Any], Any], folder: Path) -> None:
    members, history, whole = unbroken
    for name, model in members.items():
        assert_equal_bits(state(got[0][name]), state(model))
        assert got[1].members[name].history == history.members[name].history
        assert got[1].members[name].epoch == history.members[name].epoch
    assert got[1].history == history.history
    assert (folder / "a.csv").read_text() == (whole / "a.csv").read_text()
    assert not (folder / "backup" / "backup.npz").exists()


@pytest.mark.parametrize(
    ("cut", "every", "epoch"),
    [
        (lambda: Cut(0), None, None),  # before there is a backup: from the beginning
        (lambda: Cut(1), None, 1),
        (lambda: Cut(2), 2, 2),
        (lambda: CutInBatch(3, 2), None, 3),
        (lambda: CutInBatch(2, 2), 2, 2),  # after two steps of an epoch, which have been written
        (lambda: CutInBatch(4, 4), 1, 4),
    ],
)
def test_a_training_that_was_cut_off_ends_as_if_it_had_not_been(
    unbroken: Any, cut: Any, every: int | None, epoch: int | None, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, cut(), every)
    kept = tmp_path / "backup" / "backup.npz"
    assert kept.exists() == (epoch is not None)
    assert_ends_as(unbroken, train(tmp_path, every=every), tmp_path)


def test_two_cuts_in_one_training(unbroken: Any, tmp_path: Path) -> None:
    for cut in (CutInBatch(1, 1), CutInBatch(1, 4)):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, cut, 3)
    assert_ends_as(unbroken, train(tmp_path, every=3), tmp_path)


def test_another_training_is_told_from_the_one_that_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, Cut(1))
    joint = composer.compile("parallel(a, b, c)", models=models())
    joint.compile(optimizer=optimizers(), loss="mse", metrics=["mae"])
    arguments = {"batch_size": {"a": 2, "b": 4}, "backup_dir": tmp_path / "backup", "verbose": 0}
    with pytest.raises(composer.ResumeError, match="is of another training: the `epochs` of `a`: 5 then, 7 now\n"):
        joint.fit(data(), epochs=7, **arguments)
    kept = tmp_path / "backup" / "backup.npz"
    for damaged in (kept.read_bytes()[:200], b"no file of ours"):
        kept.write_bytes(damaged)
        with pytest.raises(composer.ComposerError, match=r"cannot be read: .*Remove it to train from the beginning"):
            joint.fit(data(), epochs=EPOCHS, **arguments)
    with pytest.raises(composer.DataError, match="`checkpoint_every` is a number of steps, at least 1, beside"):
        joint.fit(data(), checkpoint_every=2)


def simple(folder: Path, cut: Cut, changed: dict[str, Any] | None = None) -> tuple[keras.Model, Any]:
    """A training of one member with rows in memory, some of it not as it was."""
    said = {"optimizer": keras.optimizers.Adam(0.05), "loss": "mse", "metrics": ["mae"], "model": net()}
    said |= {"rows": rows(9), "batch_size": 2, "callbacks": [keras.callbacks.EarlyStopping("loss", patience=3)]}
    said |= changed or {}
    model = said.pop("model")
    joint = composer.compile("parallel(a, b)", a=model, b=net())
    for name in ("a", "b"):
        settings = {key: said.get(key) for key in ("optimizer", "loss", "metrics", "loss_weights")}
        joint.members[name].model.compile(**(settings if name == "a" else {"optimizer": "sgd", "loss": "mse"}))
    for key in ("optimizer", "loss", "metrics", "loss_weights"):
        said.pop(key, None)
    own = {"a": said.pop("callbacks"), "*": [cut]}
    arguments = {key: {"a": value} for key, value in said.items() if key != "rows"}
    fitted = joint.fit(
        {"a": said["rows"], "b": rows(4)},
        epochs=4,
        callbacks=own,
        backup_dir=folder,
        verbose=0,
        **arguments,
    )
    return model, fitted


def other_rows(count: int, at: int, value: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = rows(count)
    x[at, 0] = value
    return x, y


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backup of `simple`, cut off in its third epoch; read it only."""
    folder = tmp_path_factory.mktemp("simple")
    with pytest.raises(KeyboardInterrupt):
        simple(folder, Cut(2))
    return folder


def frozen() -> keras.Model:
    model = net()
    model.layers[0].trainable = False
    return model


def dropping(rate: float) -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dropout(rate), layers.Dense(1)])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda: {"optimizer": keras.optimizers.Adam(0.1)}, r"learning rate of `a`: 0\.05\d* then, 0\.1\d* now"),
        (
            lambda: {"optimizer": keras.optimizers.Adam(0.05, beta_1=0.8)},
            r"optimizer of `a` \(`beta_1`\): 0\.9 then, 0\.8 now",
        ),
        (
            lambda: {"optimizer": keras.optimizers.Adamax(0.05)},
            r'optimizer of `a` \(`class`\): "Adam" then, "Adamax" now',
        ),
        (lambda: {"loss": "mae"}, r'`loss` of `a`: "mse" then, "mae" now'),
        (lambda: {"loss": keras.losses.Huber(0.5)}, r'`loss` of `a`: "mse" then, \{"class": "Huber".* now'),
        (lambda: {"loss_weights": [0.5]}, r"`loss_weights` of `a`: none then, \[0\.5\] now"),
        (lambda: {"metrics": ["mse"]}, r'`metrics` of `a` \(`\[0\]`\): "mae" then, "mse" now'),
        (lambda: {"batch_size": 3}, r"`batch_size` of `a`: 2 then, 3 now"),
        (lambda: {"shuffle": False}, r"`shuffle` of `a`: true then, false now"),
        (lambda: {"rows": rows(9, seed=4)}, r'rows of `a` \(`SHA-256`\): "\w+\.\.\. then, "\w+\.\.\. now'),
        (lambda: {"rows": other_rows(9, 8, 0.25)}, r'rows of `a` \(`SHA-256`\): "\w+\.\.\. then, "\w+\.\.\. now'),
        (lambda: {"rows": rows(10)}, r"rows of `a` \(`rows`\): 9 then, 10 now"),
        (lambda: {"validation_data": rows(3)}, r"`validation_freq` of `a`: none then, 1 now"),
        (lambda: {"validation_split": 0.2}, r"`validation_split` of `a`: 0\.0 then, 0\.2 now"),
        (lambda: {"rows": (*rows(9), np.ones(9))}, r'rows of `a` \(`SHA-256`\): "\w+\.\.\. then, "\w+\.\.\. now'),
        (
            lambda: {"callbacks": [keras.callbacks.EarlyStopping("loss", patience=1)]},
            r"\(`\[0\].patience`\): 3 then, 1 now",
        ),
        (lambda: {"callbacks": []}, r"callbacks of `a`: .*EarlyStopping.* then, \[\] now"),
        (lambda: {"model": frozen()}, r"layers of `a` \(`\[1\].trainable`\): true then, false now"),
        (lambda: {"model": dropping(0.5)}, r"layers of `a`"),
    ],
)
def test_whatever_decides_the_numbers_must_be_as_it_was(
    cut_off: Path, changed: Callable[[], dict[str, Any]], told: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(cut_off, tmp_path / "backup"))
    before = (folder / "backup.npz").read_bytes()
    with pytest.raises(composer.ResumeError, match=rf"(?s)^error\[MG515\]: the backup in .* is of .*{told}") as raised:
        simple(folder, Cut(), changed())
    assert "= help: call `fit` as it was called then, choose another `backup_dir`, or" in str(raised.value)
    assert (folder / "backup.npz").read_bytes() == before


def test_class_weights_must_be_as_they_were(tmp_path: Path) -> None:
    x, _ = rows(8)
    data = {"a": (x, np.array([0, 1] * 4))}

    def fit(weights: dict[int, float], cut: Cut) -> None:
        model = net(3, 2)
        model.compile("sgd", "sparse_categorical_crossentropy")
        joint = composer.compile("parallel(a)", a=model)
        joint.fit(data, epochs=3, class_weight={"a": weights}, backup_dir=tmp_path, callbacks=[cut], verbose=0)

    with pytest.raises(KeyboardInterrupt):
        fit({0: 1.0, 1: 2.0}, Cut(1))
    with pytest.raises(composer.ResumeError, match=r"`class_weight` of `a` \(`1`\): 2\.0 then, 3\.0 now"):
        fit({0: 1.0, 1: 3.0}, Cut())
    fit({0: 1.0, 1: 2.0}, Cut())


def test_the_same_call_in_the_process_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    """Training has changed the rate meanwhile; the backup brings back what it was."""

    def parts() -> tuple[keras.Model, Any]:
        keras.utils.set_random_seed(1)
        model = net()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        return model, composer.compile("parallel(a)", a=model)

    def fit(joint: Any, folder: Path, cut: Cut) -> Any:
        falling = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        arguments = {"callbacks": {"a": [falling], "*": [cut]}, "backup_dir": folder, "verbose": 0}
        return joint.fit({"a": rows(6)}, epochs=5, **arguments)

    whole, joint = parts()
    want = fit(joint, tmp_path / "whole", Cut())
    model, joint = parts()
    with pytest.raises(KeyboardInterrupt):
        fit(joint, tmp_path / "cut", Cut(3))
    got = fit(joint, tmp_path / "cut", Cut())
    assert_equal_bits(state(model), state(whole))
    assert got.members["a"].history == want.members["a"].history


class Bad(keras.callbacks.Callback):
    """Fails at the end of an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epochs = {epoch}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch in self.epochs:
            raise RuntimeError("boom")


@pytest.mark.filterwarnings("ignore:.*boom")
@pytest.mark.parametrize("failing", [0, 2])
def test_members_that_failed_before_and_after_the_cut_are_told(failing: int, tmp_path: Path) -> None:
    for cut in (Cut(1), Cut()):
        joint = composer.compile("parallel(a, b)", a=net(), b=net())
        joint.compile(optimizer="sgd", loss="mse")
        told = {"a": [Bad(failing)], "*": [cut]}
        arguments = {"epochs": 4, "callbacks": told, "backup_dir": tmp_path / "backup", "verbose": 0}
        if cut.places == {(1, -1)}:
            with pytest.raises(KeyboardInterrupt):
                joint.fit({"a": rows(4), "b": rows(4)}, **arguments)
    history = joint.fit({"a": rows(4), "b": rows(4)}, **arguments)
    assert list(history.faults) == ["a"]
    assert history.faults["a"].epoch == failing
    assert "boom" in str(history.faults["a"])
    assert len(history.members["b"].history["loss"]) == 4


def test_what_a_callback_remembers_keeps_its_kind() -> None:
    callback = keras.callbacks.Callback()
    callback.best = [np.array(tf.constant([1.5], tf.bfloat16))]
    callback.counts = collections.defaultdict(list, {"a": [1]})
    callback.kind = keras.ops.less
    arrays: dict[str, Any] = {}
    state_of = callback_state(callback, arrays, "p/")
    arrays = {name: value.view("V2") for name, value in arrays.items()}  # as a file of NumPy's gives them
    callback.best, callback.kind = None, None
    callback.counts.clear()
    restore_callback(callback, state_of, arrays)
    assert callback.best[0].dtype.name == "bfloat16"
    assert float(callback.best[0][0]) == 1.5
    assert callback.counts["a"] + callback.counts["b"] == [1]
    assert callback.kind is keras.ops.less


SCRIPT = """
import sys
from pathlib import Path
from tests.runtime import test_resume as here
import composer, numpy as np
folder = Path(sys.argv[1])
members, history = here.train(folder, every=1)
np.savez(folder / "end.npz", *[value for model in members.values() for value in here.state(model)])
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(unbroken: Any, tmp_path: Path) -> None:
    """`kill -9` after so many times that the backup was written, whatever the process is doing then."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    kept = tmp_path / "backup" / "backup.npz"
    for times in (1, 3, 2, 5, 4):
        process = subprocess.Popen([sys.executable, script, tmp_path], env=environment)
        seen: set[int] = set()
        while len(seen) < times and process.poll() is None:
            if kept.exists():
                seen.add(kept.stat().st_ino)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "end.npz").exists()
    subprocess.run([sys.executable, script, tmp_path], env=environment, check=True)
    with np.load(tmp_path / "end.npz") as end:
        got = [end[name] for name in end.files]
    assert_equal_bits(got, [value for model in unbroken[0].values() for value in state(model)])
    assert not (tmp_path / "backup").exists()


def test_what_stateful_layers_carry_is_kept(tmp_path: Path) -> None:
    def carried(cut: Cut, folder: Path | None) -> list[np.ndarray]:
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [layers.Input(batch_shape=(2, 3, 1)), layers.SimpleRNN(2, stateful=True), layers.Dense(1)]
        )
        model.compile("sgd", "mse")
        joint = composer.compile("parallel(a, b) fuse=on", a=model, b=compiled(net(), "sgd", "mse"))
        x, y = rows(6)
        kept = {} if folder is None else {"backup_dir": folder}
        joint.fit({"a": (x[:, :, None], y), "b": (x, y)}, batch_size=2, epochs=3, verbose=0, callbacks=[cut], **kept)
        return [*state(model), np.array(model.layers[0].states[0])]

    with pytest.raises(KeyboardInterrupt):
        carried(Cut(1), tmp_path)
    assert_equal_bits(carried(Cut(), tmp_path), carried(Cut(), None))
