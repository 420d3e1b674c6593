"""Members that differ in everything, trained side by side: each ends as its model alone does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from composer.engine.feed import epoch_order
from tests.helpers import assert_same_history, net, rows, twin
from tests.runtime.alone import (
    Alone,
    Fleet,
    assert_equal_bits,
    assert_same_state,
    compiled,
    fit_alone,
    set_state,
    state,
)


def conv_net() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3, kernel_regularizer="l2"),
        ]
    )


def series_net() -> keras.Model:
    return keras.Sequential(
        [layers.Input((5, 3)), layers.Conv1D(4, 2), layers.GlobalAveragePooling1D(), layers.Dense(2)]
    )


def dropout_net() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((4,)),
            layers.Dense(12, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3, activation="softmax"),
        ]
    )


def text_net() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((6,), dtype="int32"),
            layers.Embedding(10, 4, mask_zero=True),
            layers.LSTM(4, return_sequences=True),
            layers.Dense(1),
        ]
    )


def two_headed() -> keras.Model:
    x = keras.Input((3,))
    h = layers.Dense(6, activation="relu", activity_regularizer="l2")(x)
    return keras.Model(x, {"price": layers.Dense(1, name="price")(h), "kind": layers.Dense(2, name="kind_head")(h)})


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32")


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([high, *shape]).integers(0, high, size=shape)


def unlike_members() -> dict[str, Alone]:
    """Members with unlike models, rows, lengths, batch sizes, epochs, optimizers, losses, metrics and validation."""
    return {
        "dense": Alone(
            net(),
            lambda: rows(50),
            lambda: {
                "optimizer": keras.optimizers.Adam(1e-2, global_clipnorm=0.1, use_ema=True),
                "loss": "mse",
                "metrics": ["mae"],
            },
            {"epochs": 3, "batch_size": 16, "validation_split": 0.2},
        ),
        "image": Alone(
            conv_net(),
            lambda: (numbers(23, 6, 6, 1), numbers(23, 3)),
            lambda: {"optimizer": keras.optimizers.SGD(1e-2, momentum=0.9, nesterov=True), "loss": "mae"},
            {"epochs": 5, "batch_size": 4},
        ),
        "series": Alone(
            series_net(),
            lambda: (numbers(31, 5, 3), numbers(31, 2), np.abs(numbers(31))),
            lambda: {"optimizer": "rmsprop", "loss": "huber", "weighted_metrics": ["mae"]},
            {"epochs": 2, "batch_size": 8},
        ),
        "classes": Alone(
            dropout_net(),
            lambda: (numbers(40, 4), integers(3, 40)),
            lambda: {
                "optimizer": keras.optimizers.AdamW(1e-2, weight_decay=0.1),
                "loss": "sparse_categorical_crossentropy",
                "metrics": ["accuracy"],
            },
            {
                "epochs": 4,
                "batch_size": 7,
                "class_weight": {0: 1.0, 1: 3.0, 2: 0.5},
                "validation_freq": 2,
                "validation_batch_size": 5,
            },
            validation=lambda: (numbers(9, 4, seed=1), integers(3, 9)),
        ),
        "text": Alone(
            text_net(),
            lambda: (integers(10, 20, 6), numbers(20, 6, 1)),
            lambda: {"optimizer": keras.optimizers.Adagrad(0.1, clipvalue=0.05), "loss": "mse", "metrics": ["mae"]},
            {"epochs": 4, "batch_size": 20, "initial_epoch": 1},
        ),
        "heads": Alone(
            two_headed(),
            lambda: (numbers(26, 3), {"price": numbers(26, 1), "kind": numbers(26, 2)}),
            lambda: {
                "optimizer": keras.optimizers.SGD(
                    keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5), gradient_accumulation_steps=2
                ),
                "loss": {"price": "mse", "kind": "mae"},
                "loss_weights": {"price": 0.5, "kind": 2.0},
                "metrics": {"kind": ["mse"]},
            },
            {"epochs": 2, "batch_size": 6, "validation_freq": [2]},
            validation=lambda: (numbers(4, 3, seed=2), {"price": numbers(4, 1), "kind": numbers(4, 2)}),
            traced=True,
        ),
    }


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    keras.utils.set_random_seed(3)
    return Fleet(unlike_members())


@pytest.mark.parametrize("name", ["dense", "image", "series", "classes", "text", "heads"])
def test_unlike_members_train_as_alone(fleet: Fleet, name: str) -> None:
    fleet.assert_same(name)


def test_each_member_ends_with_its_own_epochs(fleet: Fleet) -> None:
    assert {name: run.epoch for name, run in fleet.history.members.items()} == {
        "dense": [0, 1, 2],
        "image": [0, 1, 2, 3, 4],
        "series": [0, 1],
        "classes": [0, 1, 2, 3],
        "text": [1, 2, 3],
        "heads": [0, 1],
    }
    assert len(fleet.history.members["classes"].history["val_loss"]) == 2
    assert len(fleet.history.members["heads"].history["val_loss"]) == 1


def test_joint_history_holds_every_members_history_under_its_name(fleet: Fleet) -> None:
    want = {}
    for name, run in fleet.history.members.items():
        for key, values in run.history.items():
            prefix, metric = ("val_", key[4:]) if key.startswith("val_") else ("", key)
            want[f"{prefix}{name}_{metric}"] = values
    assert_same_history(fleet.history.history, want, tolerance=0)


def test_a_models_own_history_is_set_as_after_its_own_fit(fleet: Fleet) -> None:
    assert fleet.models["dense"].history is fleet.history.members["dense"]


class Counted:
    """A function that counts how often it is called: of a traced step, how often it is traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def test_c76_c22_a_second_fit_goes_on_and_adds_no_trace() -> None:
    """The user's own models hold what was trained, in the same variables."""
    a, b = net(), net(5, 2)
    alone = twin(a)
    for model in (a, alone, b):
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    steps = [Counted(a.train_step), Counted(b.train_step)]
    a.train_step, b.train_step = steps
    variables, weights = [id(variable) for variable in a.variables], a.get_weights()
    joint.fit({"a": rows(20), "b": rows(9, 5, 2)}, batch_size=8, shuffle=False, verbose=0)
    joint.fit({"a": rows(13), "b": rows(30, 5, 2)}, batch_size={"a": 4}, epochs=2, shuffle=False, verbose=0)
    assert [step.calls for step in steps] == [1, 1]
    fit_alone(alone, rows(20), batch_size=8)
    fit_alone(alone, rows(13), batch_size=4, epochs=2)
    assert_same_state(a, alone)
    assert joint.members["a"].model is a
    assert [id(variable) for variable in a.variables] == variables
    assert not np.allclose(a.get_weights()[0], weights[0])
    x = rows(7)[0]
    np.testing.assert_array_equal(joint({"a": x, "b": rows(2, 5)[0]})["a"], a(x))


# The order of rows -------------------------------------------------------------------------------------------------


def named_net(name: str) -> keras.Model:
    """A net whose weights follow from a member's name."""
    keras.utils.set_random_seed(len(name))
    return compiled(net(), keras.optimizers.SGD(0.1, momentum=0.9), "mse")


def test_shuffling_depends_on_the_member_alone() -> None:
    models = {name: named_net(name) for name in ("a", "bb")}
    start = {name: state(model) for name, model in models.items()}
    joint = composer.compile("parallel(a, bb)", models=models)
    ends = []
    for _ in range(2):
        for name, model in models.items():
            set_state(model, start[name])
        joint.fit({"a": rows(13), "bb": rows(6)}, batch_size=4, epochs=2, shuffle=True, verbose=0)
        ends.append([*state(models["a"]), *state(models["bb"])])
    assert_equal_bits(ends[0], ends[1])  # the same run twice
    others = {name: named_net(name) for name in ("ccc", "a")}
    joint = composer.compile("parallel(ccc, a)", models=others)  # other members, in another order
    joint.fit({"a": rows(13), "ccc": rows(30)}, batch_size={"a": 4}, epochs={"a": 2, "ccc": 3}, shuffle=True, verbose=0)
    assert_equal_bits(state(others["a"]), state(models["a"]))


def test_shuffled_fit_is_the_fit_alone_on_the_orders_it_draws() -> None:
    x, y = rows(13)
    model, alone = named_net("a"), named_net("a")
    joint = composer.compile("parallel(a)", a=model)
    history = joint.fit({"a": (x, y)}, batch_size=5, epochs=3, shuffle=True, verbose=0)
    losses = []
    for epoch in range(3):
        order = epoch_order(13, joint.members["a"].plan.member.seed, epoch)
        losses += fit_alone(alone, (x[order], y[order]), batch_size=5).history["loss"]
    assert_same_state(model, alone)
    np.testing.assert_allclose(history.history["a_loss"], losses, rtol=1e-5)


# Cases from users --------------------------------------------------------------------------------------------------


def test_c51_joined_training_equals_separate_training() -> None:
    def member(inputs: int, optimizer: str) -> Alone:
        return Alone(
            net(inputs, 1, 4),
            lambda: rows(12, inputs),
            lambda: {"optimizer": optimizer, "loss": "mse"},
            {"epochs": 3, "batch_size": 4},
        )

    members = {
        f"{name}_{optimizer}": member(n, optimizer) for name, n in (("a", 3), ("b", 2)) for optimizer in ("sgd", "adam")
    }
    fleet = Fleet(members)
    for name in members:
        fleet.assert_same(name, tolerance=1e-7)


def test_c61_every_row_of_every_member_once_an_epoch() -> None:
    """59 and 33 rows: the shorter member idles once its rows are through."""
    seen: dict[str, list[float]] = {"a": [], "b": []}
    models = {}
    for name in seen:
        x = keras.Input((1,))
        models[name] = keras.Model(x, layers.Dense(1)(Recorded(seen[name].extend)(x)))
        models[name].compile("sgd", "mse")
    joint = composer.compile("parallel(a, b)", models=models)
    data = {"a": np.arange(59.0), "b": np.arange(33.0)}
    joint.fit({name: (x[:, None], x[:, None] * 0) for name, x in data.items()}, batch_size=8, epochs=2, verbose=0)
    for name, x in data.items():
        assert int(models[name].optimizer.iterations) == 2 * -(-len(x) // 8)
        epochs = np.array(seen[name]).reshape(2, -1)
        for order in epochs:
            np.testing.assert_array_equal(np.sort(order), x)
        assert not np.array_equal(epochs[0], epochs[1])


class Recorded(layers.Layer):
    """Passes rows on and keeps the first number of each that passes in training."""

    def __init__(self, keep: Callable[[list[float]], None]) -> None:
        super().__init__()
        self.keep = keep

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            tf.py_function(lambda x: self.keep(x.numpy()[:, 0].tolist()), [inputs], [])
        return inputs


def test_c69_unlike_optimizers_do_not_touch_each_other() -> None:
    """Changing the rate of one member leaves the other's path as it is, to the bit."""
    a, b = compiled(net(), "adam", "mse"), compiled(net(), keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    start, ends = state(b), []
    for rate in (1e-3, 0.5):
        a.optimizer.learning_rate = rate
        set_state(b, start)
        halved = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        joint.fit({"a": rows(12), "b": rows(12)}, batch_size=4, epochs=2, callbacks={"a": [halved]}, verbose=0)
        np.testing.assert_allclose(float(a.optimizer.learning_rate), rate / 4, rtol=1e-6)
        ends.append(state(b))
    assert_equal_bits(ends[0], ends[1])


def test_c81_one_dataset_a_member_never_stops_at_the_shortest() -> None:
    """Pairs of a member stay together and each member sees all of its batches."""

    def pairs(n: int) -> tf.data.Dataset:
        x, y = rows(n)
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(n, seed=4).batch(4)

    fleet = Fleet(
        {
            name: Alone(net(), lambda n=n: pairs(n), lambda: {"optimizer": "sgd", "loss": "mse"}, {"epochs": 2})
            for name, n in (("a", 22), ("b", 9))
        }
    )
    for name, batches in (("a", 6), ("b", 3)):
        fleet.assert_same(name)
        assert int(fleet.models[name].optimizer.iterations) == 2 * batches


class NestedLogs(keras.Model):
    """Its step logs a dict among its logs, as Keras allows."""

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        return {**logs, "parts": {"half": logs["loss"] / 2}}


def test_logs_in_a_dict_stand_on_their_own() -> None:
    x = keras.Input((3,))
    models = [compiled(NestedLogs(x, layers.Dense(1, kernel_initializer="ones")(x)), "sgd", "mse") for _ in "ab"]
    history = composer.compile("parallel(a, b)", a=models[0], b=compiled(net(), "sgd", "mse")).fit(
        {"a": rows(9), "b": rows(4)}, epochs=2, shuffle=False, verbose=0
    )
    want = fit_alone(models[1], rows(9), epochs=2)
    assert set(want.history) == {"loss", "half"}
    assert_same_history(history.members["a"].history, want.history)
    assert history.history["a_half"] == history.members["a"].history["half"]


def test_validation_rows_may_come_as_x_and_y_by_member() -> None:
    joint = composer.compile("parallel(a, b)", a=compiled(net(), "sgd", "mse"), b=compiled(net(), "sgd", "mse"))
    (x, y), (xv, yv) = rows(4), rows(5, seed=2)
    history = joint.fit({"a": x, "b": x}, {"a": y, "b": y}, validation_data=({"b": xv}, {"b": yv}), verbose=0)
    assert set(history.history) == {"a_loss", "b_loss", "val_b_loss"}
    assert history.history["val_b_loss"][0] == pytest.approx(joint.evaluate({"b": (xv, yv)}, verbose=0)["b"]["loss"])


def test_members_that_have_trained_before_hold_no_one_up() -> None:
    """One with no epochs left takes no part; the others' last epoch is the last."""
    joint = composer.compile("parallel(a, b)", a=compiled(net(), "sgd", "mse"), b=compiled(net(), "sgd", "mse"))
    epochs: list[int] = []
    joint.fit(
        {"a": rows(4), "b": rows(4)},
        epochs={"a": 9, "b": 2},
        initial_epoch={"a": 9},
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))],
        verbose=0,
    )
    assert epochs == [0, 1]


@pytest.mark.parametrize(
    ("other", "validation", "entry"),
    [("a_b", {}, "a_b_loss"), ("val_a", {"a": "rows"}, "val_a_loss")],
)
def test_members_with_one_name_in_the_history_are_refused(other: str, validation: Any, entry: str) -> None:
    """One would write over the other, unseen."""
    x = keras.Input((3,))
    heads = keras.Model(x, {"b": layers.Dense(1, name="b")(x), "c": layers.Dense(1, name="c")(x)})
    models = {"a": compiled(heads, "sgd", "mse"), other: compiled(net(), "sgd", "mse")}
    joint = composer.compile(f"parallel(a, {other})", models=models)
    x, y = rows(4)
    data = {"a": (x, {"b": y, "c": y}), other: (x, y)}
    with pytest.raises(composer.GraphError, match=rf"`{other}` would both write `{entry}`|`a` would both.*`{entry}`"):
        joint.fit(data, validation_data={name: data[name] for name in validation} or None, verbose=0)
    assert int(models["a"].optimizer.iterations) == 0


@pytest.mark.parametrize(("other", "validation", "entry"), [("a_b", (), "a_b_loss"), ("val_a", ("a",), "val_a_loss")])
def test_eager_members_with_one_name_in_the_history_are_refused(
    other: str, validation: tuple[str, ...], entry: str
) -> None:
    """What an eager member logs shows only when it does."""
    x = keras.Input((3,))
    heads = keras.Model(x, {"b": layers.Dense(1, name="b")(x), "c": layers.Dense(1, name="c")(x)})
    models = {"a": compiled(heads, "sgd", "mse", run_eagerly=True), other: compiled(net(), "sgd", "mse")}
    joint = composer.compile(f"parallel(a, {other})", models=models)
    x, y = rows(4)
    data = {"a": (x, {"b": y, "c": y}), other: (x, y)}
    with pytest.raises(composer.GraphError, match=rf"would both write `{entry}` in the joint history"):
        joint.fit(data, validation_data={name: data[name] for name in validation} or None, verbose=0)
