"""Cases of users, group I: numbers that must not depend on the replicas, loaded models, models with two optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import assert_same_history, rows
from tests.runtime.alone import Alone, Fleet, assert_same_state, compiled, fit_alone, set_state, state

REPLICAS = (1, 2, 4)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def mean_error(y_true: Any, y_pred: Any) -> Any:
    """A loss of the user's own, a number a row."""
    return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)


def replicated(make: Any, *settings: Any, **more: Any) -> tuple[composer.ComposedModel, keras.Model]:
    """Members of one, two and four replicas that start from one state, and the model alone."""
    models = {f"r{count}": compiled(make(), *settings, **more) for count in REPLICAS}
    alone = compiled(make(), *settings, **more)
    for model in models.values():
        set_state(model, state(alone))
    spec = ", ".join(f"{name} x{count}" for name, count in zip(models, REPLICAS, strict=True))
    return composer.compile(f"parallel({spec}) on gpus=4", models=models), alone


@pytest.mark.parametrize("loss", ["mae", mean_error])
def test_c90_the_loss_that_is_shown_does_not_depend_on_the_replicas(loss: Any) -> None:
    """Neither a part of it, nor one replica's: the mean over the rows."""
    joint, alone = replicated(lambda: keras.Sequential([layers.Input((3,)), layers.Dense(5)]), "sgd", loss)
    data = (numbers(10, 3), numbers(10, 5))
    history = joint.fit(dict.fromkeys(joint.members, data), batch_size=4, epochs=2, shuffle=False, verbose=0)
    want = fit_alone(alone, data, batch_size=4, epochs=2).history
    for name in joint.members:
        np.testing.assert_allclose(history.members[name].history["loss"], want["loss"], rtol=1e-6)


@pytest.mark.parametrize("num_rows", [12, 13])
def test_c91_what_is_evaluated_after_training_does_not_depend_on_the_replicas(num_rows: int) -> None:
    joint, alone = replicated(lambda: keras.Sequential([layers.Input((1,)), layers.Dense(10)]), "sgd", "mse")
    data = dict.fromkeys(joint.members, rows(num_rows, 1, 10))
    before = joint.evaluate(data, verbose=0)
    joint.fit(data, shuffle=False, verbose=0)
    fit_alone(alone, rows(num_rows, 1, 10))
    want = alone.evaluate(*rows(num_rows, 1, 10), verbose=0)
    for name, evaluated in joint.evaluate(data, verbose=0).items():
        assert evaluated["loss"] == pytest.approx(want, rel=1e-6)
        assert evaluated["loss"] < before[name]["loss"]
        assert_same_state(joint.members[name].model, alone, 1e-6)


def test_c92_training_metrics_of_replicas_are_finite_and_those_of_the_rows() -> None:
    """At a rate of 0 the accuracy of an epoch is that of the predictions."""
    model = keras.Sequential(
        [layers.Input((6, 6, 1)), layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(3, activation="softmax")]
    )
    compiled(model, keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", metrics=["accuracy"])
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    x, y = numbers(21, 6, 6, 1), np.arange(21) % 3
    history = joint.fit({"m": (x, y)}, batch_size=8, validation_data={"m": (x, y)}, verbose=0).history
    right = np.mean(model.predict(x, verbose=0).argmax(-1) == y)
    assert np.isfinite(history["m_loss"]).all()
    assert history["m_accuracy"] == history["val_m_accuracy"] == [pytest.approx(right)]
    assert history["m_loss"][0] == pytest.approx(history["val_m_loss"][0], rel=1e-6)


def test_c94_a_loaded_model_runs_on_all_its_replicas(tmp_path: Path) -> None:
    """Whether it was loaded plainly or within a scope of a strategy; and what they trained is saved as plainly."""
    model = compiled(keras.Sequential([layers.Input((3,)), layers.Dense(1)]), "sgd", "mse")
    model.save(tmp_path / "m.keras")
    x, y = rows(10)
    want = model.predict(x, verbose=0)
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    with tf.distribute.get_strategy().scope():
        scoped = keras.saving.load_model(tmp_path / "m.keras")
    for again in (loaded, scoped):
        joint = composer.compile("parallel(m x4) on gpus=4", m=again)
        assert len(set(joint.members["m"].layer.devices)) == 4
        np.testing.assert_allclose(joint.predict({"m": x}, verbose=0)["m"], want, atol=1e-6)
        joint.fit({"m": (x, y)}, batch_size=4, shuffle=False, verbose=0)
        again.save(tmp_path / "trained.keras")
        trained = keras.saving.load_model(tmp_path / "trained.keras")
        np.testing.assert_array_equal(trained.get_weights()[0], again.get_weights()[0])


class Gan(keras.Model):
    """A generator and a discriminator with an optimizer each, which are first used in its own step."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential([layers.Input((2,)), layers.Dense(3)])
        self.discriminator = keras.Sequential([layers.Input((3,)), layers.Dense(1)])

    def call(self, inputs: Any) -> Any:
        return self.discriminator(self.generator(inputs))

    def compile(self, **settings: Any) -> None:
        super().compile(**settings)
        self.optimizers = [keras.optimizers.RMSprop(1e-2), keras.optimizers.RMSprop(3e-2)]

    def train_step(self, data: Any) -> dict[str, Any]:
        noise, real = data
        with tf.GradientTape(persistent=True) as tape:
            fake = self.discriminator(self.generator(noise))
            losses = [
                tf.reduce_mean(fake**2),
                tf.reduce_mean((self.discriminator(real) - 1.0) ** 2 + (fake + 1.0) ** 2),
            ]
        for part, loss, optimizer in zip((self.generator, self.discriminator), losses, self.optimizers, strict=True):
            optimizer.apply(tape.gradient(loss, part.trainable_variables), part.trainable_variables)
        return {"generator": losses[0], "discriminator": losses[1]}


def gan() -> keras.Model:
    model = Gan()
    model(numbers(1, 2))
    return model


def test_c96_a_model_with_two_optimizers_trains_as_alone_and_is_not_cut() -> None:
    model, other = gan(), gan()
    other.set_weights(model.get_weights())
    fleet = Fleet(
        {
            "gan": Alone(
                model, lambda: (numbers(10, 2), numbers(10, 3)), dict, {"epochs": 2, "batch_size": 4}, other=other
            ),
            "plain": Alone(
                keras.Sequential([layers.Input((3,)), layers.Dense(1)]),
                lambda: rows(7),
                lambda: {"optimizer": "sgd", "loss": "mse"},
                {"epochs": 3, "batch_size": 4},
            ),
        }
    )
    fleet.assert_same("plain")
    alone, history = fleet.alone("gan")
    assert_same_history(fleet.history.members["gan"].history, history)
    for mine, theirs in zip(model.optimizers, alone.optimizers, strict=True):
        assert int(mine.iterations) == int(theirs.iterations) == 6
        for a, b in zip(mine.variables, theirs.variables, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), atol=1e-6)
    joint = composer.compile("parallel(gan x2) on gpus=2", gan=model)
    with pytest.raises(composer.GraphError, match="`gan` has replicas, but Gan has a `train_step` of its own"):
        joint.fit({"gan": (numbers(4, 2), numbers(4, 3))}, verbose=0)
