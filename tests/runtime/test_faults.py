"""A member whose rows or callbacks raise an exception is stopped and named; the others train as alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import composer
from composer.runtime.composed_model import ComposedModel
from tests.helpers import net, rows
from tests.runtime.alone import assert_equal_bits, compiled, fit_alone, set_state, state
from tests.runtime.test_datasets import batches

pytestmark = pytest.mark.filterwarnings("ignore:the rows of `bad` are a generator")

STOPPED = "it is stopped, the other members go on"


def failing(good: int) -> Iterator[Any]:
    """Batches, then an exception."""
    for seed in range(good):
        yield rows(4, seed=seed)
    raise OSError("the disk is gone")


def generator() -> Any:
    return failing(3)


def dataset() -> tf.data.Dataset:
    return batches(12, 4).concatenate(batches(4, 4).map(lambda x, y: (tf.debugging.check_numerics(x / 0.0, "bad"), y)))


class Broken(keras.utils.PyDataset):
    """Four batches, of which the last cannot be had."""

    num_batches = 4

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise KeyError("row 12")
        return rows(4, seed=index)


class At(keras.callbacks.Callback):
    """Raises in one of its hooks, in one epoch."""

    def __init__(self, hook: str, epoch: int) -> None:
        super().__init__()
        self.at, self.epoch = epoch, 0
        setattr(self, hook, self.fail)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def fail(self, *arguments: Any, logs: Any = None) -> None:
        if self.epoch == self.at:
            raise RuntimeError("of the user's own")


@dataclass(frozen=True)
class Pair:
    """A member that is to fail and one that trains 3 epochs on batches beside it, and that one alone."""

    joint: ComposedModel
    models: dict[str, keras.Model]
    start: dict[str, list[np.ndarray]]
    alone: list[np.ndarray]
    history: dict[str, list[float]]

    def assert_good_as_alone(self, history: Any) -> None:
        assert_equal_bits(state(self.models["good"]), self.alone)
        assert history.members["good"].history == self.history


@pytest.fixture(scope="module")
def trained() -> Pair:
    models = {name: compiled(net(), keras.optimizers.SGD(0.05, momentum=0.9), "mse") for name in ("bad", "good")}
    start = {name: state(model) for name, model in models.items()}
    history = fit_alone(models["good"], batches(30, 4), epochs=3, validation_data=rows(5)).history
    joint = composer.compile("parallel(bad, good)", models=models)
    return Pair(joint, models, start, state(models["good"]), history)


@pytest.fixture
def pair(trained: Pair) -> Pair:
    for name, values in trained.start.items():
        set_state(trained.models[name], values)
    return trained


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (generator, r"the rows of `bad` could not be read in epoch 1: OSError: the disk is gone; "),
        (dataset, r"the rows of `bad` could not be read in epoch 1: bad : Tensor had [A-Za-z ]* values; "),
        (Broken, r"the rows of `bad` could not be read in epoch 1: KeyError: '?row 12'?; "),
    ],
)
def test_rows_that_fail_stop_their_member_alone(pair: Pair, bad: Any, message: str) -> None:
    """It keeps the steps it took; the other's weights, slots and history are those of its own fit, to the bit."""
    with pytest.warns(composer.ComposerWarning, match=message + STOPPED):
        history = pair.joint.fit(
            {"bad": bad(), "good": batches(30, 4)},
            validation_data={"good": rows(5)},
            epochs=3,
            shuffle=False,
            verbose=0,
        )
    assert int(pair.models["bad"].optimizer.iterations) == 3
    assert history.members["bad"].history == {}
    assert set(history.history) == {"good_loss", "val_good_loss"}
    assert set(history.faults) == {"bad"}
    assert history.faults["bad"].epoch == 0
    pair.assert_good_as_alone(history)


@pytest.mark.parametrize(
    ("hook", "epochs"),
    [
        ("on_train_begin", 0),
        ("on_train_batch_begin", 1),
        ("on_train_batch_end", 1),
        ("on_test_begin", 1),
        ("on_test_batch_end", 1),
        ("on_test_end", 1),
        ("on_epoch_end", 1),
    ],
)
def test_callbacks_that_fail_stop_their_member_alone(pair: Pair, hook: str, epochs: int) -> None:
    with pytest.warns(composer.ComposerWarning, match=f"the callback `at` of `bad` failed.*user's own; {STOPPED}"):
        history = pair.joint.fit(
            {"bad": rows(8), "good": batches(30, 4)},
            validation_data={"bad": rows(3), "good": rows(5)},
            epochs=3,
            shuffle=False,
            callbacks={"bad": [At(hook, epochs)]},
            verbose=0,
        )
    assert len(history.members["bad"].history.get("loss", [])) == epochs
    assert str(history.faults["bad"]).startswith("the callback `at` of `bad` failed")
    assert isinstance(history.faults["bad"].error, RuntimeError)
    pair.assert_good_as_alone(history)


def test_a_member_that_fails_ends_as_any_other(pair: Pair) -> None:
    """Its callbacks hear of the end: the best weights are restored, files closed."""
    stopping = keras.callbacks.EarlyStopping(monitor="loss", mode="min", patience=9, restore_best_weights=True)
    kept: list[Any] = []
    bad = pair.models["bad"]
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: kept.append(bad.get_weights()))
    with pytest.warns(composer.ComposerWarning, match="in epoch 3: OSError"):
        history = pair.joint.fit(
            {"bad": failing(5), "good": rows(8)},
            steps_per_epoch={"bad": 2},
            epochs=4,
            callbacks={"bad": [keep, stopping]},
            verbose=0,
        )
    assert int(bad.optimizer.iterations) == 5
    assert_equal_bits(bad.get_weights(), kept[int(np.argmin(history.members["bad"].history["loss"]))])


def test_all_stop_where_that_is_asked_for(pair: Pair) -> None:
    with pytest.raises(composer.DataError, match=r"the rows of `bad` could not be read in epoch 1: OSError"):
        pair.joint.fit({"bad": generator(), "good": batches(30, 4)}, epochs=3, on_error="raise", verbose=0)
    assert int(pair.models["good"].optimizer.iterations) == 3


def test_where_all_fail_there_is_nothing_to_go_on_for(pair: Pair) -> None:
    with (
        pytest.warns(composer.ComposerWarning, match=f"`good` could not be read.*{STOPPED}"),
        pytest.raises(composer.DataError, match=r"the rows of `bad` could not be read in epoch 2: OSError"),
    ):
        pair.joint.fit({"bad": failing(4), "good": generator()}, steps_per_epoch=3, epochs=3, verbose=0)


def test_validation_rows_that_fail_stop_their_member(pair: Pair) -> None:
    with pytest.warns(composer.ComposerWarning, match=r"`bad` could not be read in epoch 1: KeyError"):
        history = pair.joint.fit(
            {"bad": rows(8), "good": batches(30, 4)},
            validation_data={"bad": Broken(), "good": rows(5)},
            epochs=3,
            shuffle=False,
            verbose=0,
        )
    assert history.members["bad"].history == {}
    pair.assert_good_as_alone(history)


def test_rows_that_fail_at_once_are_told_before_anything_runs(pair: Pair) -> None:
    with pytest.raises(composer.DataError, match=r"the rows of `bad` could not be read: OSError: the disk is gone"):
        pair.joint.fit({"bad": failing(0), "good": rows(4)}, verbose=0)
    assert int(pair.models["good"].optimizer.iterations) == 0


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_evaluate_and_predict_name_the_member_that_fails(pair: Pair, call: str) -> None:
    with pytest.raises(composer.DataError, match=r"the rows of `bad` could not be read: OSError: the disk is gone"):
        getattr(pair.joint, call)({"bad": generator(), "good": batches(9, 4)}, verbose=0)
