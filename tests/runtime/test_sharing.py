"""Members that share weights: their gradients add, one optimizer takes the step, each has its own loss and history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import ROUNDING, assert_same_arrays, net, rows, twin
from tests.runtime.alone import compiled, state

Batches = list[tuple[Any, Any]]


def batches(data: tuple[Any, Any], size: int) -> Batches:
    x, y = data
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


def train_by_hand(
    models: dict[str, keras.Model], optimizer: Any, losses: dict[str, Any], data: dict[str, Batches], epochs: int
) -> dict[str, list[float]]:
    """What sharing means: in each step the gradients of all members with a batch, at the same weights, added, and
    applied once to the weights that they reach. Returns each member's mean loss over rows, by epoch."""
    weights = {id(w): w for model in models.values() for w in model.trainable_variables}
    optimizer.build(list(weights.values()))
    history: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(epochs):
        told: dict[str, list[tuple[float, int]]] = {name: [] for name in models}
        for step in range(max(map(len, data.values()))):
            sums: dict[int, Any] = {}
            for name, model in models.items():
                if step >= len(data[name]):
                    continue
                x, y = data[name][step]
                with tf.GradientTape() as tape:
                    loss = losses[name](y, model(x, training=True)) + sum(model.losses)
                told[name].append((float(loss), len(x)))
                gradients = tape.gradient(loss, model.trainable_variables)
                for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
                    sums[id(weight)] = sums.get(id(weight), 0.0) + gradient
            optimizer.apply(
                [sums[key] for key in weights if key in sums], [weights[key] for key in weights if key in sums]
            )
        for name, steps in told.items():
            history[name].append(sum(loss * count for loss, count in steps) / sum(count for _, count in steps))
    return history


def regularized() -> keras.Model:
    return keras.Sequential(
        [layers.Input((3,)), layers.Dense(4, activation="tanh", kernel_regularizer="l2"), layers.Dense(1)]
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_one_model_twice_trains_on_the_rows_of_both(replicas: int) -> None:
    """Unlike lengths and batch sizes: the shorter member's steps end, the longer goes on alone."""
    m = regularized()
    alone, optimizer = twin(m), keras.optimizers.Adam(0.05)
    joint = composer.compile(f"parallel(m as day, m x{replicas} as night) on gpus=2", m=m)
    joint.compile(optimizer=keras.optimizers.Adam(0.05), loss={"day": "mse", "night": "mae"})
    data = {"day": rows(9), "night": rows(5, seed=1)}
    with pytest.warns(composer.ComposerWarning, match=r"MG321.*`day` and `night` are one model"):
        history = joint.fit(data, epochs=3, batch_size={"day": 2, "night": 3}, shuffle=False, verbose=0)
    losses = {"day": keras.losses.MeanSquaredError(), "night": keras.losses.MeanAbsoluteError()}
    steps = {"day": batches(data["day"], 2), "night": batches(data["night"], 3)}
    expected = train_by_hand({"day": alone, "night": alone}, optimizer, losses, steps, 3)
    assert_same_arrays(m.get_weights(), alone.get_weights(), ROUNDING)
    assert int(m.optimizer.iterations) == int(optimizer.iterations) == 15
    assert_same_arrays(
        [np.array(v) for v in m.optimizer.variables], [np.array(v) for v in optimizer.variables], ROUNDING
    )
    for name, values in expected.items():
        np.testing.assert_allclose(history.members[name].history["loss"], values, rtol=1e-5)


def test_it_is_what_keras_does_with_a_model_called_twice() -> None:
    m = net()
    other = twin(m)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    together = keras.Model({"a": a, "b": b}, {"day": other(a), "night": other(b)})
    data = {"day": rows(8), "night": rows(8, seed=1)}
    joint = composer.compile("parallel(m as day, m as night)", m=compiled(m, keras.optimizers.SGD(0.1, 0.9), "mse"))
    with pytest.warns(composer.ComposerWarning, match="MG321"):
        joint.fit(data, epochs=2, batch_size=4, shuffle=False, verbose=0)
    together.compile(keras.optimizers.SGD(0.1, 0.9), {"day": "mse", "night": "mse"})
    x, y = {"a": data["day"][0], "b": data["night"][0]}, {name: part[1] for name, part in data.items()}
    together.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0)
    assert_same_arrays(m.get_weights(), other.get_weights(), ROUNDING)


def heads(*units: int) -> list[keras.Model]:
    """Models on one trainable backbone."""
    backbone = keras.Sequential([layers.Input((3,)), layers.Dense(4, activation="tanh")], name="backbone")
    models = []
    for count in units:
        x = keras.Input((3,))
        models.append(keras.Model(x, layers.Dense(count)(backbone(x))))
    return models


def twins_of(a: keras.Model, b: keras.Model) -> list[keras.Model]:
    models = heads(a.output_shape[1], b.output_shape[1])
    for model, of in zip(models, (a, b), strict=True):
        model.set_weights(of.get_weights())
    return models


def test_a_trainable_backbone_moves_with_both_and_a_head_with_its_own_rows() -> None:
    a, b = heads(1, 1)
    alone = dict(zip("ab", twins_of(a, b), strict=True))
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    joint.compile(optimizer="adam", loss="mse")
    assert a.optimizer is b.optimizer
    data = {"a": rows(8), "b": rows(3, seed=1)}
    with pytest.warns(composer.ComposerWarning, match=r"MG321.*`a` and `b` share the weight"):
        joint.fit(data, epochs=2, batch_size=2, shuffle=False, verbose=0)
    mse, optimizer = keras.losses.MeanSquaredError(), keras.optimizers.Adam()
    train_by_hand(alone, optimizer, {"a": mse, "b": mse}, {name: batches(part, 2) for name, part in data.items()}, 2)
    for name, model in (("a", a), ("b", b)):
        assert_same_arrays(model.get_weights(), alone[name].get_weights(), ROUNDING)
    assert_same_arrays(
        [np.array(v) for v in a.optimizer.variables], [np.array(v) for v in optimizer.variables], ROUNDING
    )


@pytest.mark.filterwarnings("ignore:warning.MG321")
def test_a_head_whose_member_has_stopped_stays_as_it_was() -> None:
    a, b = heads(1, 1)
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    joint.compile(optimizer=keras.optimizers.Adam(0.1), loss="mse")
    joint.fit({"a": rows(4), "b": rows(4)}, epochs=1, verbose=0)
    before = [np.array(v) for v in b.layers[-1].variables]
    joint.fit({"a": rows(4), "b": rows(4)}, epochs={"a": 3, "b": 0}, verbose=0)
    for mine, was in zip(b.layers[-1].variables, before, strict=True):
        np.testing.assert_array_equal(mine, was)
    assert int(a.optimizer.iterations) == 4


def test_each_has_its_own_metrics_evaluation_and_stop() -> None:
    m = compiled(net(), "sgd", "mse", metrics=[keras.metrics.MeanAbsoluteError(name="mae")])
    joint = composer.compile("parallel(m as day, m as night)", m=m)

    class StopsAt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            assert self.model is m
            self.model.stop_training = epoch == 1

    data = {"day": rows(8), "night": rows(5, seed=1)}
    with pytest.warns(composer.ComposerWarning, match="MG321"):
        history = joint.fit(data, epochs=4, callbacks={"day": [StopsAt()]}, verbose=0)
    assert {name: len(one.history["mae"]) for name, one in history.members.items()} == {"day": 2, "night": 4}
    results = joint.evaluate(data, verbose=0)
    for name, part in data.items():
        assert results[name] == pytest.approx(m.evaluate(*part, return_dict=True, verbose=0), rel=1e-5)


def test_settings_by_member_leave_the_model_compiled_as_the_first() -> None:
    m = net()
    with pytest.warns(composer.ComposerWarning, match="MG321"):
        joint = composer.compile(
            "train day optimizer=adam(learning_rate=0.5) loss=mse metrics=[mae]\ntrain night loss=mae\n"
            "parallel(m as day, m as night)",
            m=m,
        )
    assert (m.loss, float(m.optimizer.learning_rate)) == ("mse", 0.5)
    day, night = rows(4), rows(6, seed=1)
    got = joint.evaluate({"day": day, "night": night}, verbose=0)
    assert set(got["day"]) == {"loss", "mae"}
    assert got["night"]["loss"] == pytest.approx(np.mean(np.abs(night[1] - m.predict(night[0], verbose=0))), rel=1e-5)
    m.compile("sgd", "mse", metrics=["mae"])  # by hand: both follow
    got = joint.evaluate({"night": night}, verbose=0)
    assert got["night"] == pytest.approx(m.evaluate(*night, return_dict=True, verbose=0), rel=1e-5)


def test_what_the_plan_has_warned_of_is_not_warned_of_again(recwarn: pytest.WarningsRecorder) -> None:
    joint = composer.compile("train * optimizer=sgd loss=mse\nparallel(m as day, m as night)", m=net())
    joint.fit({"day": rows(4), "night": rows(4)}, verbose=0)
    told = [each.message for each in recwarn if isinstance(each.message, composer.ComposerWarning)]
    assert [[each.code for each in message.diagnostics] for message in told] == [["MG321"]]


def test_one_optimizer_is_asked_for() -> None:
    a, b = heads(1, 1)
    compiled(a, "sgd", "mse"), compiled(b, "sgd", "mse")
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    with pytest.raises(composer.GraphError, match="`a` and `b` share weights, but not an optimizer"):
        joint.fit({"a": rows(4), "b": rows(4)}, verbose=0)
    with pytest.raises(composer.GraphError, match="`a` and `b` share weights and must agree on the optimizer"):
        joint.compile(optimizer={"a": "adam", "b": "sgd"}, loss="mse")
    assert int(a.optimizer.iterations) == int(b.optimizer.iterations) == 0


def test_a_step_of_its_own_is_refused() -> None:
    class Own(keras.Model):
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            return super().compute_loss(*args, **kwargs)

    x = keras.Input((3,))
    m = compiled(Own(x, layers.Dense(1)(x)), "sgd", "mse")
    joint = composer.compile("parallel(m as day, m as night)", m=m)
    with pytest.raises(composer.GraphError, match="`day` shares weights with `night`, but Own has a `compute_loss`"):
        joint.fit({"day": rows(4), "night": rows(4)}, verbose=0)
    assert joint.evaluate({"day": rows(4), "night": rows(4)}, verbose=0)["day"]["loss"] == pytest.approx(
        m.evaluate(*rows(4), verbose=0), rel=1e-5
    )


@pytest.mark.parametrize(
    "layer", [lambda: layers.Dropout(0.5), lambda: layers.BatchNormalization(center=False, scale=False)]
)
def test_shared_draws_and_statistics_are_said(layer: Any) -> None:
    shared = layer()

    def head() -> keras.Model:
        x = keras.Input((3,))
        return compiled(keras.Model(x, layers.Dense(1)(shared(x))), "sgd", "mse")

    joint = composer.compile("parallel(a, b)", a=head(), b=head())
    with pytest.warns(composer.ComposerWarning, match=r"MG321.*`a` and `b` share the (random state|statistic)"):
        joint.fit({"a": rows(4), "b": rows(4)}, verbose=0)
    assert int(joint.members["b"].model.optimizer.iterations) == 1


@pytest.mark.filterwarnings("ignore:warning.MG321")
@pytest.mark.parametrize("kind", ["one model", "backbone"])
def test_saved_halfway_it_goes_on_as_if_it_had_not_stopped(kind: str, tmp_path: Path) -> None:
    a, b = heads(1, 2)
    spec, models = ("parallel(a, b)", {"a": a, "b": b}) if kind == "backbone" else ("parallel(a, a as b)", {"a": a})
    joint = composer.compile(spec, models=models)
    joint.compile(optimizer="adam", loss={"a": "mse", "b": "mae"})
    outputs = joint.members["b"].model.output_shape[1]
    data = {"a": rows(5), "b": (rows(7)[0], np.ones((7, outputs), "float32"))}
    joint.fit(data, epochs=2, shuffle=False, verbose=0)
    joint.save(tmp_path / "half.keras")
    again = composer.load(tmp_path / "half.keras")
    assert again.members["a"].model.get_layer("backbone") is again.members["b"].model.get_layer("backbone")
    for one in (joint, again):
        one.fit(data, epochs=2, shuffle=False, verbose=0)
    for name, member in again.members.items():
        got, want = state(member.model), state(joint.members[name].model)
        assert_same_arrays(got, want, ROUNDING)
        assert again.evaluate({name: data[name]}, verbose=0)[name]["loss"] == pytest.approx(
            joint.evaluate({name: data[name]}, verbose=0)[name]["loss"], rel=1e-5
        )


def test_models_that_make_their_own_layers_when_loaded_are_not_saved_together(tmp_path: Path) -> None:
    class Holder(keras.Model):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def call(self, inputs: Any) -> Any:
            return self.layer(inputs)

    dense = layers.Dense(1)
    a, b = Holder(dense), Holder(dense)
    a(np.zeros((1, 3))), b(np.zeros((1, 3)))
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    with pytest.raises(composer.ComposerError, match=r"the layer `dense.*` belongs to several members, and Holder"):
        joint.save(tmp_path / "no.keras")
