"""`per=column`: each key's model trains, predicts and is saved as its model alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from composer.runtime.keyed import _natural
from tests.helpers import assert_same_history, net, rows
from tests.runtime.alone import assert_equal_bits, assert_same_state
from tests.runtime.test_resume import Cut

FUSED = 1e-5
LENGTHS = {"north": 21, "7": 9, "12": 16, "alone": 1, "east": 9, "west": 9, "south": 9, "mid": 9}
STORES = np.repeat(list(LENGTHS), list(LENGTHS.values()))[np.random.default_rng(0).permutation(sum(LENGTHS.values()))]
X, Y = rows(len(STORES), 3, 2)
EVEN = np.isin(STORES, ["7", "east"])
"""Rows of keys with equally many, for which there is less to trace."""


def template(seed: int = 1) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            layers.Input((3,), name="x"),
            layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dropout(0.3, seed=2),
            layers.Dense(2),
        ]
    )


def settings() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.Adam(0.01, clipnorm=1.0), "loss": "mse", "metrics": ["mae"]}


def keyed(model: keras.Model | None = None, **given: Any) -> composer.ComposedModel:
    joint = composer.compile("parallel(f per=store) on cpus=1 jit=off", f=model or template())
    joint.compile(**{**settings(), **given})
    return joint


def data(which: Any = slice(None)) -> dict[str, Any]:
    return {"f": ({"store": STORES[which], "x": X[which]}, Y[which])}


def fit(joint: composer.ComposedModel, which: Any = slice(None), **given: Any) -> Any:
    return joint.fit(data(which), **{"batch_size": 8, "shuffle": False, "verbose": 0, **given})


def model_of(joint: composer.ComposedModel, key: str) -> keras.Model:
    model = joint.members["f"].model.model_of(key)
    assert isinstance(model, keras.Model)
    return model


def assert_same_weights(got: keras.Model, want: keras.Model) -> None:
    for model in (got, want):
        model.compile("sgd", "mse")
    assert_same_state(got, want, FUSED)


@pytest.fixture(scope="module")
def trained() -> tuple[composer.ComposedModel, Any]:
    joint = keyed()
    return joint, fit(joint, epochs=3, validation_split=0.3)


@pytest.mark.parametrize("key", ["north", "7", "12", "alone", "mid"])
def test_a_key_trains_as_its_model_alone(trained: tuple[composer.ComposedModel, Any], key: str) -> None:
    joint, history = trained
    own, model = key == STORES, template()
    model.compile(**settings())
    validated = LENGTHS[key] > 1  # of one row Keras refuses to cut any off
    expected = model.fit(
        X[own], Y[own], batch_size=8, shuffle=False, verbose=0, epochs=3, validation_split=0.3 if validated else 0.0
    )
    place = joint.members["f"].model.keys.index(key)
    logged = {metric: values[:, place].tolist() for metric, values in history.by_key["f"].items()}
    assert_same_history({metric: logged[metric] for metric in expected.history}, expected.history)
    np.testing.assert_allclose(
        joint.predict({"f": data(own)["f"][0]}, verbose=0)["f"], model.predict(X[own]), atol=1e-5
    )
    assert_same_weights(model_of(joint, key), model)


def test_the_member_logs_the_mean_over_its_keys(trained: tuple[composer.ComposedModel, Any]) -> None:
    joint, history = trained
    assert joint.members["f"].model.keys == ("7", "12", "alone", "east", "mid", "north", "south", "west")
    assert joint.plan.notes[-1] == "`f` is 8 models, one for each `store`: one batched program"
    by_key = history.by_key["f"]
    assert by_key["loss"].shape == by_key["val_mae"].shape == (3, 8)
    np.testing.assert_allclose(history.history["f_loss"], by_key["loss"].mean(axis=1), rtol=1e-6)
    assert np.isnan(by_key["val_loss"][:, 2]).all()  # one row: none to validate on
    np.testing.assert_allclose(history.history["val_f_loss"], np.nanmean(by_key["val_loss"], axis=1), rtol=1e-6)


def test_predictions_come_in_the_order_of_the_rows(trained: tuple[composer.ComposedModel, Any]) -> None:
    joint, _ = trained
    inputs, _ = data()["f"]
    whole = joint.predict({"f": inputs}, verbose=0)["f"]
    for key in ("north", "12"):
        np.testing.assert_allclose(whole[key == STORES], model_of(joint, key).predict(X[key == STORES]), atol=1e-6)
    some = joint.predict({"f": {"store": STORES[5:8], "x": X[5:8]}}, verbose=0)["f"]
    np.testing.assert_allclose(some, whole[5:8], atol=1e-6)
    result = joint.evaluate(data(np.isin(STORES, ["7", "12"])), verbose=0)["f"]
    losses = []
    for key in ("7", "12"):
        model = model_of(joint, key)
        model.compile(**settings())
        losses.append(model.evaluate(X[key == STORES], Y[key == STORES], verbose=0)[0])
    assert result["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_no_key_reaches_another_and_the_order_of_rows_is_its_own() -> None:
    whole, some = keyed(net(outputs=2)), keyed(net(outputs=2))
    some.members["f"].model.layer.template.set_weights(whole.members["f"].model.layer.template.get_weights())
    fit(whole, epochs=2, shuffle=True)
    fit(some, EVEN, epochs=2, shuffle=True)
    for key in ("7", "east"):
        assert_same_weights(model_of(whole, key), model_of(some, key))


def test_optimizers_go_on_in_a_second_fit_and_from_a_file(tmp_path: Path) -> None:
    at_once, twice = keyed(), keyed()
    fit(at_once, EVEN, epochs=3)
    fit(twice, EVEN, epochs=1)
    twice.save(tmp_path / "f.keras")
    loaded = composer.load(tmp_path / "f.keras")
    for joint in (twice, loaded):
        fit(joint, EVEN, epochs=3, initial_epoch=1)
        for key in ("7", "east"):
            assert_same_weights(model_of(joint, key), model_of(at_once, key))


def test_a_cut_off_fit_goes_on_to_the_same_end(tmp_path: Path) -> None:
    unbroken, broken, resumed = keyed(), keyed(), keyed()
    fit(unbroken, EVEN, epochs=3, shuffle=True)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(data(EVEN), batch_size=8, verbose=0, epochs=3, backup_dir=tmp_path, callbacks=[Cut(1)])
    resumed.fit(data(EVEN), batch_size=8, verbose=0, epochs=3, backup_dir=tmp_path, callbacks=[Cut()])
    assert_equal_bits(
        [np.array(each) for each in resumed.members["f"].model.weights],
        [np.array(each) for each in unbroken.members["f"].model.weights],
    )


def test_callbacks_see_and_change_the_member() -> None:
    def halved(epoch: int, rate: float) -> float:
        return rate / 2

    scheduled = keyed(net(outputs=2))
    scheduler = keras.callbacks.LearningRateScheduler(halved)
    fit(scheduled, EVEN, epochs=3, callbacks={"f": [scheduler]})
    model = keras.models.clone_model(scheduled.members["f"].model.layer.template)
    model.set_weights(scheduled.members["f"].model.layer.template.get_weights())
    model.compile(**settings())
    own = STORES == "7"
    model.fit(X[own], Y[own], batch_size=8, shuffle=False, verbose=0, epochs=3, callbacks=[scheduler])
    assert_same_weights(model_of(scheduled, "7"), model)
    stopped = keyed(net(outputs=2))
    stop = keras.callbacks.EarlyStopping("loss", patience=0, min_delta=10, restore_best_weights=True)
    history = fit(stopped, EVEN, epochs=9, callbacks={"f": [stop]})
    assert len(history.members["f"].history["loss"]) == 2


def test_beside_other_members_and_with_several_inputs() -> None:
    a, b = layers.Input((3,), name="a"), layers.Input((2,), name="b")
    joined = layers.Concatenate()([layers.Dense(4)(a), b])
    wide = keras.Model({"a": a, "b": b}, layers.Dense(2)(joined))
    other = net(outputs=2)
    joint = composer.compile("parallel(f per=store, g) on cpus=1", f=wide, g=other)
    joint.compile(optimizer="sgd", loss="mse")
    given = {"a": X, "b": Y, "store": STORES}
    joint.fit({"f": (given, Y), "g": (X, Y)}, epochs=2, batch_size=8, shuffle=False, verbose=0)
    alone = keras.models.clone_model(wide)
    alone.set_weights(wide.get_weights())  # composing left it as it was
    alone.compile("sgd", "mse")
    own = STORES == "north"
    alone.fit({"a": X[own], "b": Y[own]}, Y[own], epochs=2, batch_size=8, shuffle=False, verbose=0)
    assert_same_weights(model_of(joint, "north"), alone)


def test_data_frames_have_the_column_among_the_others() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["p", "q", "r"]).assign(store=STORES)
    joint = keyed(net(outputs=2))
    joint.fit({"f": (frame, Y)}, batch_size=8, verbose=0)
    np.testing.assert_allclose(
        joint.predict({"f": frame}, verbose=0)["f"],
        joint.predict({"f": data()["f"][0]}, verbose=0)["f"],
        atol=1e-6,
    )


def test_one_signature_serves_all_keys(trained: tuple[composer.ComposedModel, Any], tmp_path: Path) -> None:
    joint, _ = trained
    version = joint.export(tmp_path / "served")
    signature = tf.saved_model.load(str(version)).signatures["f"]
    served = signature(store=tf.constant(STORES[:5]), x=tf.constant(X[:5]))
    expected = joint.predict({"f": {"store": STORES[:5], "x": X[:5]}}, verbose=0)["f"]
    np.testing.assert_allclose(next(iter(served.values())), expected, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a key of `store` is not known"):
        signature(store=tf.constant(["nowhere"]), x=tf.constant(X[:1]))


def test_keys_that_are_whole_numbers_come_in_their_order() -> None:
    assert sorted(["b", "10", "--5", "9", "-1", "-"], key=_natural) == ["-1", "9", "10", "-", "--5", "b"]


def test_what_is_refused(trained: tuple[composer.ComposedModel, Any]) -> None:
    joint, _ = trained
    with pytest.raises(composer.DataError, match=r"no model for `9`, `nowhere` of `store`"):
        joint.predict({"f": {"store": np.array(["nowhere", "9"]), "x": X[:2]}}, verbose=0)
    with pytest.raises(composer.DataError, match=r"its inputs are a dict or a data frame with `store` beside them"):
        joint.predict({"f": X}, verbose=0)
    with pytest.raises(composer.DataError, match=r"strings or whole numbers, one a row. Received: an array of float64"):
        joint.predict({"f": {"store": np.array([0.5, 1.5]), "x": X[:2]}}, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices(data()["f"]).batch(4)
    with pytest.raises(composer.DataError, match="which takes arrays: they are sorted by key"):
        joint.fit({"f": dataset}, verbose=0)
    fresh = keyed(net(outputs=2))
    with pytest.raises(composer.GraphError, match="knows no key of `store` yet"):
        fresh.predict({"f": {"store": STORES[:2], "x": X[:2]}}, verbose=0)

    class Own(layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    own = keyed(keras.Sequential([layers.Input((3,)), Own(name="twice"), layers.Dense(2)]))
    with pytest.raises(composer.GraphError, match=r"only Keras' own layers are batched, and `twice` is a Own"):
        fit(own)


def test_composing_leaves_the_model_as_it_is() -> None:
    model = template()
    before = [np.array(each) for each in model.variables]
    joint = composer.compile("parallel(f per=store)", f=model)
    joint.members["f"].model.layer.learn(["a", "b"])
    assert_equal_bits([np.array(each) for each in model.variables], before)
    assert not model.compiled
