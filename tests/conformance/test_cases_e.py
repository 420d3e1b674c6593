"""Cases of users, group E: batch statistics and loss arithmetic over replicas and branches."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import assert_same_history, net, rows, twin
from tests.runtime.alone import assert_equal_bits, assert_same_state, compiled, fit_alone, state


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def normalized_three_times() -> keras.Model:
    """One layer, called on batches whose means are 2, 4 and 8."""
    inputs = [keras.Input((1,)) for _ in range(3)]
    norm = layers.BatchNormalization(momentum=0.5, name="norm")
    return keras.Model(inputs, layers.Concatenate()([norm(x) for x in inputs]))


def test_c45_a_normalization_used_several_times_updates_as_alone() -> None:
    """Keras 3.15 applies the updates in one order: company does not change it (3.0; in order it would be 5.25)."""
    x = [np.full((4, 1), mean, "float32") for mean in (2.0, 4.0, 8.0)]
    y = np.zeros((4, 3), "float32")
    model, alone = normalized_three_times(), normalized_three_times()
    for each in (model, alone):
        compiled(each, "sgd", "mse")
    joint = composer.compile("parallel(other, m)", m=model, other=compiled(net(), "sgd", "mse"))
    joint.fit({"m": (x, y), "other": rows(9)}, batch_size=4, shuffle=False, verbose=0)
    alone.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    assert_equal_bits(state(model), state(alone))
    assert float(np.array(model.get_layer("norm").moving_mean)[0]) in (3.0, 5.25)


def test_c46_statistics_of_replicas_are_those_of_their_slices_and_it_is_said_before() -> None:
    """Both slices count in the moving average, neither is lost; predictions are those of the model alone."""
    model = keras.Sequential([layers.Input((1,)), layers.BatchNormalization(momentum=0.5), layers.Dense(1)])
    compiled(model, keras.optimizers.SGD(0.0), "mse")
    with pytest.warns(composer.ComposerWarning, match=r"MG320.*`m` do not train exactly like the model alone"):
        joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    x = np.concatenate([np.full((4, 1), 2.0), np.full((4, 1), 8.0)]).astype("float32")  # means 2 and 8
    joint.fit({"m": (x, np.zeros((8, 1)))}, batch_size=8, shuffle=False, verbose=0)
    mean = float(np.array(model.layers[0].moving_mean)[0])
    assert mean in (4.5, 3.0, 2.5)  # the slices one after another, in either order, or the whole batch at once
    np.testing.assert_allclose(joint.predict({"m": x}, verbose=0)["m"], model.predict(x, verbose=0), atol=1e-6)


@pytest.mark.parametrize("merge", ["cpu", "gpu"])
def test_c47_one_row_a_replica_trains_as_alone(merge: str) -> None:
    """Without batch statistics two replicas of a row each are one of two rows, wherever they are merged."""
    model = keras.Sequential([layers.Input((3,)), layers.Dense(6, activation="relu"), layers.Dense(2, "softmax")])
    alone = twin(model)
    for each in (model, alone):
        compiled(each, keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
    data = (numbers(10, 3), np.arange(10) % 2)
    joint = composer.compile(f"parallel(m x2) on gpus=2 merge={merge}", m=model)
    history = joint.fit({"m": data}, batch_size=2, epochs=2, shuffle=False, verbose=0)
    want = fit_alone(alone, data, batch_size=2, epochs=2).history
    assert_same_state(model, alone, 1e-6)
    assert_same_history(history.members["m"].history, want)


def penalized(weight: float) -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(
        x, layers.Dense(1, kernel_initializer="ones", kernel_regularizer=keras.regularizers.L2(weight))(x)
    )


def test_c49_a_members_loss_is_its_own_part_and_its_own_penalties() -> None:
    """Penalties of one member are in no other's loss, and each is counted once."""
    models = {"light": penalized(0.1), "heavy": penalized(2.0)}
    for model in models.values():
        compiled(model, keras.optimizers.SGD(0.0), "mse", metrics=["mse"])
    joint = composer.compile("parallel(light, heavy)", models=models)
    data = {"light": rows(8), "heavy": rows(6)}
    history = joint.fit(data, batch_size=8, verbose=0).history
    evaluated = joint.evaluate(data, verbose=0)
    for name, penalty in (("light", 0.3), ("heavy", 6.0)):  # three ones
        assert history[f"{name}_loss"][0] == pytest.approx(history[f"{name}_mse"][0] + penalty, rel=1e-6)
        assert evaluated[name]["loss"] == pytest.approx(evaluated[name]["mse"] + penalty, rel=1e-6)
    assert "loss" not in history  # no total in which the penalties of all could hide
