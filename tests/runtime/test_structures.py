"""Models of every structure: several inputs and outputs, dicts, lists, nests, strings, equal names, own classes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, assert_equal_bits, compiled


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def two_inputs() -> tuple[Any, Any, Any]:
    left, right = keras.Input((3,), name="left"), keras.Input((4,), name="right")
    return left, right, layers.Concatenate()([layers.Dense(4)(left), layers.Dense(4)(right)])


def list_model() -> keras.Model:
    left, right, h = two_inputs()
    return keras.Model([left, right], [layers.Dense(1, name="p")(h), layers.Dense(2, name="q")(h)])


def dict_model() -> keras.Model:
    left, right, h = two_inputs()
    outputs = {"price": layers.Dense(1, name="first")(h), "kind": layers.Dense(2, name="second")(h)}
    return keras.Model({"left": left, "right": right}, outputs)


def nested_model() -> keras.Model:
    left, right, h = two_inputs()
    third = keras.Input((2,), name="third")
    outputs = {"pair": [layers.Dense(1)(h), layers.Dense(2)(h)], "alone": layers.Dense(1)(third)}
    return keras.Model({"both": [left, right], "third": third}, outputs)


def string_model() -> keras.Model:
    x = keras.Input((1,), dtype="string")
    ids = layers.StringLookup(vocabulary=["red", "green"])(x)
    return keras.Model(x, layers.Dense(1)(layers.Flatten()(layers.Embedding(4, 3)(ids))))


def siamese() -> keras.Model:
    """C30: one inner model for two inputs, its values passed on as outputs."""
    inner = keras.Sequential([layers.Input((3,)), layers.Dense(8), layers.Dense(1)], name="inner")
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    first, second = inner(left), inner(right)
    return keras.Model([left, right], [layers.Add(name="sum")([first, second]), first, second])


@keras.saving.register_keras_serializable(package="tests")
class OwnClass(keras.Model):
    """A subclassed model, built by its first call."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden, self.head = layers.Dense(4, activation="tanh"), layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.head(self.hidden(inputs))


class OwnStep(keras.Model):
    """A model with a step of its own: its loss counts twice, and it logs a number of its own."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = 2.0 * self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "own": tf.constant(7.0)}


def own_class() -> keras.Model:
    model = OwnClass()
    model(numbers(2, 3))
    return model


def own_step() -> keras.Model:
    x = keras.Input((3,))
    return OwnStep(x, layers.Dense(1)(x))


def with_weights(model: keras.Model, other: keras.Model) -> keras.Model:
    model.set_weights(other.get_weights())
    return model


N = 9


def structured() -> dict[str, Alone]:
    def settings(loss: Any, **more: Any) -> Any:
        return lambda: {"optimizer": keras.optimizers.SGD(0.05), "loss": loss, **more}

    fit = {"epochs": 2, "batch_size": 4}
    own, stepped = own_class(), own_step()
    two = [numbers(N, 3), numbers(N, 4)]
    return {
        "lists": Alone(
            list_model(),
            lambda: (two, [numbers(N, 1), numbers(N, 2)]),
            settings(["mse", "mae"], metrics=[["mae"], ["mse", "mae"]], loss_weights=[0.3, 2.0]),
            fit,
            traced=True,
        ),
        "dicts": Alone(
            dict_model(),
            lambda: (
                {"left": two[0], "right": two[1]},
                {"price": numbers(N, 1), "kind": numbers(N, 2)},
                {"price": np.arange(9.0) / 9, "kind": np.ones(9)},
            ),
            settings({"price": "mse", "kind": "mae"}, metrics={"price": ["mae"], "kind": ["mse"]}),
            fit,
            traced=True,
        ),
        "strings": Alone(
            string_model(),
            lambda: (tf.constant([["red"], ["green"], ["blue"]] * 3), numbers(N, 1)),
            settings("mse"),
            fit,
        ),
        "siamese": Alone(
            siamese(),
            lambda: ([numbers(10, 3), numbers(10, 3) + 1], [numbers(10, 1)] * 3),
            settings(["mse", "mse", "mae"]),
            fit,
            traced=True,
        ),
        "own": Alone(own, lambda: rows(N), settings("mse"), fit, other=with_weights(own_class(), own)),
        "stepped": Alone(stepped, lambda: rows(N), settings("mse"), fit, other=with_weights(own_step(), stepped)),
    }


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    spec = "parallel(lists x2, dicts x2, strings x2, siamese x3, own x2, stepped) on gpus=4"
    return Fleet(structured(), spec)


@pytest.mark.parametrize("name", ["lists", "dicts", "strings", "siamese", "own", "stepped"])
def test_structured_members_train_as_alone(fleet: Fleet, name: str) -> None:
    """C29, C34: targets, losses and metrics go by the model's own output names, whatever the replicas."""
    fleet.assert_same(name)


def test_structured_members_evaluate_and_predict_in_their_own_structure(fleet: Fleet) -> None:
    names = ("lists", "dicts", "siamese")
    data = {name: fleet.members[name].rows() for name in names}
    predicted = fleet.joint.predict({name: rows[0] for name, rows in data.items()}, batch_size=4, verbose=0)
    evaluated = fleet.joint.evaluate(data, batch_size=4, verbose=0)
    for name, (x, y, *weights) in data.items():
        want = fleet.models[name](x)
        keras.tree.assert_same_structure(predicted[name], want)
        for mine, theirs in zip(keras.tree.flatten(predicted[name]), keras.tree.flatten(want), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        alone, _ = fleet.alone(name)
        again = alone.evaluate(x, y, 4, sample_weight=weights[0] if weights else None, verbose=0, return_dict=True)
        assert evaluated[name] == pytest.approx(again, rel=1e-4)


def test_metric_names_are_those_of_the_models_outputs(fleet: Fleet) -> None:
    assert set(fleet.history.members["dicts"].history) == {
        "loss",
        "price_loss",
        "kind_loss",
        "price_mae",
        "kind_mse",
    }
    assert fleet.history.members["stepped"].history["own"] == [7.0, 7.0]


def test_no_rows_have_the_structure_and_kinds_of_outputs(fleet: Fleet) -> None:
    empty = fleet.joint.predict({"dicts": {"left": numbers(0, 3), "right": numbers(0, 4)}}, verbose=0)["dicts"]
    assert {name: (value.shape, value.dtype) for name, value in empty.items()} == {
        "price": ((0, 1), np.float32),
        "kind": ((0, 2), np.float32),
    }


@pytest.mark.parametrize("replicas", [1, 3])
def test_nested_structures_go_in_and_come_out_as_they_are(replicas: int) -> None:
    model = nested_model()
    joint = composer.compile(f"parallel(m x{replicas}) on gpus=4", m=model)
    x = {"both": [numbers(7, 3), numbers(7, 4)], "third": numbers(7, 2)}
    got, want = joint.predict({"m": x}, batch_size=5, verbose=0)["m"], model.predict(x, verbose=0)
    keras.tree.assert_same_structure(got, want)
    for mine, theirs in zip(keras.tree.flatten(got), keras.tree.flatten(want), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    called = joint({"m": x})["m"]
    np.testing.assert_allclose(called["pair"][1], want["pair"][1], atol=1e-6)


# Names and shared models -------------------------------------------------------------------------------------------


def named_net() -> keras.Model:
    """C35: a model whose container, input and layers have the names of its twin's."""
    x = keras.Input((3,), name="x")
    return keras.Model(x, layers.Dense(1, name="head")(layers.Dense(2, name="hidden")(x)), name="net")


def test_c35_models_with_equal_names_are_composed_and_keep_them() -> None:
    a, b = compiled(named_net(), "sgd", "mse"), compiled(named_net(), "sgd", "mse")
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    history = joint.fit({"a": rows(8), "b": rows(8)}, verbose=0)
    assert set(history.history) == {"a_loss", "b_loss"}
    assert [model.name for model in (a, b)] == ["net", "net"]
    assert [layer.name for layer in a.layers] == ["x", "hidden", "head"]
    x = rows(5)[0]
    got = joint.predict({"a": x, "b": x}, verbose=0)
    assert not np.allclose(got["a"], got["b"])
    np.testing.assert_array_equal(got["b"], b.predict(x, verbose=0))


def test_c33_names_are_those_of_the_spec_whatever_else_is_in_it() -> None:
    """Keys stay the same when members are added or when models are made anew."""
    for others in ({}, {"c": net(5)}):
        models = {"b": net(), "a": net(5), **others}
        joint = composer.compile(f"parallel({', '.join(models)})", models=models)
        assert list(joint.members) == list(models)
        x = {"a": numbers(2, 5), "b": numbers(2, 3), **{name: numbers(2, 5) for name in others}}
        assert list(joint.predict(x, verbose=0)) == list(models)
        assert set(joint(x)) == set(models)


def test_the_same_model_twice_shares_its_weights() -> None:
    """`m as day, m as night`: two members, one set of weights, predicted and evaluated each on its own rows."""
    m = compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(m as day, m x2 as night) on gpus=2", m=m)
    assert joint.members["day"].model is joint.members["night"].model is m
    assert joint.count_params() == m.count_params()
    x, y = rows(7)
    got = joint.predict({"day": x, "night": x[:3]}, verbose=0)
    np.testing.assert_allclose(got["day"], m.predict(x, verbose=0), atol=1e-6)
    np.testing.assert_allclose(got["night"], got["day"][:3], atol=1e-6)
    for name, size in (("day", 7), ("night", 3)):
        evaluated = joint.evaluate({name: (x[:size], y[:size])}, verbose=0)[name]["loss"]
        assert evaluated == pytest.approx(m.evaluate(x[:size], y[:size], verbose=0), rel=1e-5)


def test_composing_changes_nothing_of_the_models() -> None:
    model = compiled(two_named_outputs(), "adam", {"p": "mse", "q": "mae"}, metrics={"p": ["mae"]})
    before = (model.get_config(), model.get_compile_config(), model.get_weights())
    optimizer, layer_names = model.optimizer, [layer.name for layer in model.layers]
    joint = composer.compile("parallel(m x2, n) on gpus=2", m=model, n=net())
    joint({"m": numbers(3, 3), "n": numbers(3, 3)})
    joint.predict({"m": numbers(3, 3)}, verbose=0)
    assert (model.get_config(), model.get_compile_config()) == before[:2]
    assert_equal_bits(model.get_weights(), before[2])
    assert model.optimizer is optimizer
    assert [layer.name for layer in model.layers] == layer_names


def two_named_outputs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, {"p": layers.Dense(1, name="p")(x), "q": layers.Dense(2, name="q")(x)})


# Targets that are None ---------------------------------------------------------------------------------------------


def listed_outputs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, [layers.Dense(1, name="p")(x), layers.Dense(2, name="q")(x)])


P, Q, W = numbers(N, 1), numbers(N, 2), np.arange(9.0) / 9


def gappy() -> dict[str, Alone]:
    """Outputs without a loss: Keras takes None for their targets, in every kind of structure."""
    x = numbers(N, 3)

    def alone(model: keras.Model, y: Any, loss: Any, metrics: Any = None, weight: Any = None) -> Alone:
        def made() -> Any:
            return (x, y) if weight is None else (x, y, weight)

        settings = {"optimizer": "sgd", "loss": loss, "metrics": metrics}
        return Alone(model, made, lambda: settings, {"batch_size": 4, "epochs": 2}, made, traced=True)

    return {
        "last": alone(listed_outputs(), [P, None], ["mse", None], [["mae"], None]),
        "first": alone(listed_outputs(), (None, Q), [None, "mae"]),
        "named": alone(two_named_outputs(), {"p": P, "q": None}, {"p": "mse", "q": None}),
        "weighted": alone(listed_outputs(), [P, None], ["mse", None], weight=[W, None]),
    }


@pytest.fixture(scope="module")
def gappy_fleet() -> Fleet:
    with pytest.warns(UserWarning, match="Gradients do not exist for variables"):  # as Keras warns alone
        return Fleet(gappy())


@pytest.mark.parametrize("name", ["last", "first", "named", "weighted"])
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_none_for_an_output_without_a_loss_trains_as_alone(gappy_fleet: Fleet, name: str) -> None:
    gappy_fleet.assert_same(name)
    x, y, *weight = gappy_fleet.members[name].rows()
    told = {"sample_weight": weight[0]} if weight else {}
    alone = gappy_fleet.alone(name)[0].evaluate(x, y, verbose=0, return_dict=True, **told)
    joint = gappy_fleet.joint.evaluate({name: (x, y, *weight)}, verbose=0)[name]
    assert joint == pytest.approx(alone, rel=2e-6)


@pytest.mark.parametrize(
    ("settings", "looking"),
    [({"loss": "mse"}, "loss"), ({"loss": ["mse", None], "metrics": [["mae"], ["mae"]]}, "metric")],
    ids=["loss", "metric"],
)
def test_none_where_something_needs_targets_is_refused(settings: dict[str, Any], looking: str) -> None:
    model = listed_outputs()
    model.compile("sgd", **settings)
    joint = composer.compile("parallel(m)", m=model)
    with pytest.raises(composer.DataError, match=f"`m` are None for the output `q`, and its {looking} needs them") as e:
        joint.fit({"m": (numbers(N, 3), [P, None])}, verbose=0)
    assert e.value.code == "MG507"


# Logs of a step of the user's own ----------------------------------------------------------------------------------


class RawStep(OwnStep):
    """Its steps return the loss of a batch under the name of a metric, whose result Keras' `fit` logs in its place."""

    counts = True

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        if self.counts:
            self.metrics[0].update_state(logs["loss"])
        return {"loss": logs["loss"]}

    def test_step(self, data: Any) -> Any:
        x, y = data
        return {"loss": self.compute_loss(y=y, y_pred=self(x))}


class SilentStep(RawStep):
    counts = False


def test_raw_logs_of_a_step_are_those_of_the_model_alone() -> None:
    def made(kind: type[RawStep]) -> keras.Model:
        x = keras.Input((3,))
        return kind(x, layers.Dense(1, kernel_initializer="ones")(x))

    settings = {"optimizer": "sgd", "loss": "mse"}
    fit = {"batch_size": 4, "epochs": 2}
    fleet = Fleet(
        {
            kind.__name__: Alone(made(kind), lambda: rows(N), lambda: settings, fit, lambda: rows(5), other=made(kind))
            for kind in (RawStep, SilentStep)
        }
    )
    for name in fleet.members:
        fleet.assert_same(name)
        alone, history = fleet.alone(name)
        for key in ("", "val_"):
            joint = fleet.history.history[f"{key}{name}_loss"]
            assert joint == pytest.approx(history[f"{key}loss"], rel=2e-6)
        evaluated = fleet.joint.evaluate({name: rows(5)}, verbose=0)[name]
        assert evaluated == pytest.approx(alone.evaluate(*rows(5), verbose=0, return_dict=True), rel=2e-6)
    assert fleet.history.members["SilentStep"].history["loss"] == [0.0, 0.0]  # what Keras makes of it


# Faults ------------------------------------------------------------------------------------------------------------


def test_a_model_that_was_never_built_is_refused() -> None:
    with pytest.raises(composer.ComposerError, match=r"`m`.*has never been built"):
        composer.compile("parallel(m)", m=OwnClass())


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(composer.GraphError, match=r"`m` must be a keras.Model. Received: Dense"):
        composer.compile("parallel(m)", m=layers.Dense(1))


def test_a_model_the_spec_does_not_declare_has_to_be_passed() -> None:
    with pytest.raises(composer.ComposerError, match=r"MG203.*unknown model `b`"):
        composer.compile("parallel(a, b)", a=net())
