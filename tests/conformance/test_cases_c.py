"""Cases of users, groups C and D: names of outputs, losses and metrics; sizes and states fixed in a graph."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import assert_same_history, assert_same_weights, needs_newest_keras, twin
from tests.runtime.alone import Alone, Fleet, compiled, fit_alone


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def test_c29_targets_go_by_the_models_output_name_whatever_the_replicas() -> None:
    """One dict feeds the model alone, one replica and two."""
    x = keras.Input((4, 4))
    model = keras.Model(x, {"score": layers.Dense(1, name="score")(layers.Dense(10)(layers.Flatten()(x)))})
    models = {"one": model, "two": twin(model)}
    alone = twin(model)
    for each in (*models.values(), alone):
        compiled(each, "sgd", {"score": "mse"}, metrics={"score": ["mae"]})
    data = (numbers(10, 4, 4), {"score": numbers(10, 1)})
    joint = composer.compile("parallel(one, two x2) on gpus=2", models=models)
    history = joint.fit({"one": data, "two": data}, batch_size=4, shuffle=False, verbose=0)
    want = fit_alone(alone, data, batch_size=4).history
    for name, trained in models.items():
        assert_same_weights(trained, alone)
        assert_same_history(history.members[name].history, want)


def test_c30_an_inner_model_used_twice_and_its_values_passed_on() -> None:
    """Three outputs, ten rows over three replicas, weights counted once."""
    inner = keras.Sequential([layers.Input((3,)), layers.Dense(32), layers.Dense(1)], name="inner")
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    first, second = inner(left), inner(right)
    model = keras.Model([left, right], [layers.Add(name="sum")([first, second]), first, second])
    joint = composer.compile("parallel(m x3) on gpus=3", m=model)
    assert joint.count_params() == inner.count_params() == model.count_params()
    x = [numbers(10, 3), numbers(10, 3) + 1]
    got = joint.predict({"m": x}, verbose=0)["m"]
    assert [values.shape for values in got] == [(10, 1)] * 3
    for mine, theirs in zip(got, model.predict(x, verbose=0), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    np.testing.assert_allclose(got[0], got[1] + got[2], atol=1e-6)


def two_heads() -> keras.Model:
    x = keras.Input((3,))
    heads = [layers.Dense(1, name="number")(x), layers.Dense(1, activation="sigmoid", name="label")(x)]
    return keras.Model(x, {"number": heads[0], "label": heads[1]})


@pytest.fixture(scope="module")
def headed() -> Fleet:
    """Eight rows, two outputs with a loss and metrics each, named alike in `loss` and `metrics`."""
    keras.utils.set_random_seed(2)

    def settings() -> dict[str, Any]:
        return {
            "optimizer": "sgd",
            "loss": {"number": "mse", "label": "binary_crossentropy"},
            "metrics": {"number": ["mse"], "label": ["mse", "accuracy"]},
        }

    targets = {"number": numbers(8, 1), "label": (numbers(8, 1) > 0).astype("float32")}
    return Fleet({"m": Alone(two_heads(), lambda: (numbers(8, 3), targets), settings, {"epochs": 2})})


def test_c32_every_outputs_loss_and_metrics_are_in_the_history(headed: Fleet) -> None:
    history = headed.history.members["m"].history
    assert set(history) == {"loss", "number_loss", "label_loss", "number_mse", "label_mse", "label_accuracy"}
    headed.assert_same("m")
    assert {f"m_{key}" for key in history} == set(headed.history.history)


def test_c34_losses_and_metrics_take_the_same_keys(headed: Fleet) -> None:
    model = headed.models["m"]
    assert set(model.loss) == {"number", "label"}
    evaluated = headed.joint.evaluate({"m": headed.members["m"].rows()}, verbose=0)["m"]
    assert evaluated["number_loss"] == pytest.approx(evaluated["number_mse"], rel=1e-6)


# D: sizes and states fixed in a graph --------------------------------------------------------------------------------


def stateful() -> keras.Model:
    return keras.Sequential(
        [layers.Input((5, 3), batch_size=4), layers.LSTM(2, stateful=True, name="memory"), layers.Dense(1)]
    )


def test_c37_a_stateful_model_is_not_cut() -> None:
    with pytest.raises(composer.SpecError, match=r"`m` cannot take `x2`.*`memory`"):
        composer.compile("parallel(m x2) on gpus=2", m=stateful())


@needs_newest_keras
def test_c37_a_stateful_model_trains_in_company_as_alone() -> None:
    """Uncut it carries its state from batch to batch, and from epoch to epoch."""
    fleet = Fleet(
        {
            name: Alone(
                stateful(),
                lambda n=n: (numbers(n, 5, 3), numbers(n, 1)),
                lambda: {"optimizer": "sgd", "loss": "mse"},
                fit,
            )
            for name, n, fit in (("a", 12, {"epochs": 2, "batch_size": 4}), ("b", 8, {"epochs": 3, "batch_size": 4}))
        }
    )
    for name in ("a", "b"):
        fleet.assert_same(name)
    assert np.abs(np.array(fleet.models["a"].layers[0].states[0])).max() > 0


def test_c40_a_batch_size_in_an_inner_reshape_is_found_before_training() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(1)(keras.ops.reshape(layers.Dense(4)(x), (6, 4))))
    with pytest.raises(composer.GraphError, match=r"`m` cannot be cut into slices"):
        composer.compile("parallel(m x2) on gpus=2", m=model)


def test_c42_an_input_that_has_no_rows_is_refused_not_cut() -> None:
    """20 rows beside a matrix of 50: neither is cut to the other."""
    data, memory = keras.Input((8,), name="data"), keras.Input((3,), name="memory")
    model = keras.Model([data, memory], layers.Concatenate()([layers.Dense(2)(data), layers.Dense(2)(memory)]))
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    with pytest.raises(composer.DataError, match=r"arrays of `m` differ in their number of rows.*20 and 50"):
        joint.predict({"m": [numbers(20, 8), numbers(50, 3)]}, verbose=0)
