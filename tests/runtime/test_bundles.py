"""Members of one architecture as one batched program: each as its model alone, to what `fuse` allows (1e-5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import assert_same_history, net, rows, twin
from tests.runtime.alone import Alone, Fleet, assert_equal_bits, assert_same_state, compiled, state
from tests.runtime.test_resume import Cut, CutInBatch

FUSED = 1e-5


def drawing_net(seed: int) -> keras.Model:
    """Weights of its own, statistics, random masks and a penalty."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            layers.Input((3,)),
            layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dropout(0.3, seed=seed),
            layers.Dense(2),
        ]
    )


def stopping() -> list[keras.callbacks.Callback]:
    return [keras.callbacks.EarlyStopping("loss", patience=1, min_delta=10, restore_best_weights=True)]


def plateau() -> list[keras.callbacks.Callback]:
    return [keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, min_delta=10)]


class Watcher(keras.callbacks.Callback):
    """What a member's callback sees at every batch: its logs and the first weights of its model."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[float, np.ndarray]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append((logs["loss"], np.array(self.model.weights[0])))


def member(seed: int, num_rows: int, **options: Any) -> Alone:
    return Alone(
        drawing_net(seed),
        rows=lambda: rows(num_rows, 3, 2, seed=seed),
        settings=lambda: {
            "optimizer": keras.optimizers.Adam(0.01 * (seed + 1), clipnorm=1.0),
            "loss": "mse",
            "metrics": ["mae"],
        },
        **{"fit": {"batch_size": 8, "epochs": 4}, **options},
    )


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """Unlike lengths, learning rates, epochs, validation and callbacks in one bundle."""
    members = {
        "whole": member(0, 24),
        "long": member(1, 45, validation=lambda: rows(11, 3, 2, seed=8)),
        "one": member(2, 1),
        "brief": member(3, 20, fit={"batch_size": 8, "epochs": 2}),
        "stopped": member(4, 20, callbacks=stopping),
        "slower": member(5, 33, validation=lambda: rows(9, 3, 2, seed=9), callbacks=plateau),
    }
    return Fleet(members, f"parallel({', '.join(members)}) on cpus=1 fuse=on")


@pytest.mark.parametrize("name", ["whole", "long", "one", "brief", "stopped", "slower"])
def test_members_of_a_bundle_train_as_alone(fleet: Fleet, name: str) -> None:
    fleet.assert_same(name, FUSED)


def test_the_plan_tells_of_the_bundle(fleet: Fleet) -> None:
    assert fleet.joint.plan.notes[-1] == "6 members like `whole` are one batched program"
    assert "6 members like `whole` are one batched program" in str(fleet.joint.plan)


def test_bundles_are_evaluated_and_predicted_as_alone(fleet: Fleet) -> None:
    data = {name: rows(size, 3, 2, seed=size) for name, size in [("long", 21), ("one", 3), ("brief", 16)]}
    results = fleet.joint.evaluate(data, batch_size=8, verbose=0)
    outputs = fleet.joint.predict({name: x for name, (x, _) in data.items()}, batch_size=8, verbose=0)
    assert list(results) == list(outputs) == ["long", "one", "brief"]
    for name, (x, y) in data.items():
        model = fleet.models[name]
        alone = model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
        assert results[name] == pytest.approx(alone, rel=FUSED)
        np.testing.assert_allclose(outputs[name], model.predict(x, verbose=0), atol=1e-6)
        assert np.abs(outputs[name]).max() > 0.01


def pair(**options: Any) -> dict[str, Alone]:
    return {"a": member(0, 20, **options), "b": member(1, 13, **options)}


def test_nothing_of_one_member_reaches_another() -> None:
    """NaN among the rows of one, and an exception in a callback of another."""

    def spoilt() -> Any:
        x, y = rows(20, 3, 2)
        return np.where(np.arange(20)[:, None] == 9, np.nan, x).astype("float32"), y

    def fails(epoch: int, logs: Any) -> None:
        raise ValueError("no room")

    members = {**pair(), "c": Alone(drawing_net(2), spoilt, member(2, 1).settings, {"batch_size": 8, "epochs": 4})}
    members["d"] = member(3, 20)
    fleet = Fleet(members, "parallel(a, b, c, d) on cpus=1 fuse=on")
    again = {name: each.rows() for name, each in members.items()}
    faulty = {"d": [keras.callbacks.LambdaCallback(on_epoch_end=fails)]}
    with pytest.warns(composer.ComposerWarning, match="a callback of `d`.*no room"):
        fleet.joint.fit(again, batch_size=8, callbacks=faulty, shuffle=False, verbose=0)
    assert np.isnan(fleet.history.members["c"].history["loss"]).all()
    for name in ("a", "b"):
        model, _ = fleet.alone(name)
        x, y = members[name].rows()
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        assert_same_state(fleet.models[name], model, FUSED)


def test_callbacks_see_and_change_the_member_at_every_batch() -> None:
    watchers = [Watcher(), Watcher()]
    members = pair(fit={"batch_size": 8, "epochs": 2})
    members["a"] = member(0, 20, fit={"batch_size": 8, "epochs": 2}, callbacks=lambda: [watchers.pop()])
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on")
    fleet.assert_same("a", FUSED)
    (mine,), (theirs,) = fleet.callbacks["a"], fleet.twin_callbacks["a"]
    assert len(mine.seen) == len(theirs.seen) == 6
    for (loss, weights), (wanted, alone) in zip(mine.seen, theirs.seen, strict=True):
        assert loss == pytest.approx(wanted, rel=FUSED)
        np.testing.assert_allclose(weights, alone, atol=FUSED)


def test_joint_callbacks_see_and_change_members() -> None:
    def halve(epoch: int, logs: Any) -> None:
        model = fleets[-1].models["b"] if fleets else joint["b"]
        model.optimizer.learning_rate = float(model.optimizer.learning_rate) / 2

    members = pair(fit={"batch_size": 8, "epochs": 3})
    joint = {name: each.model for name, each in members.items()}
    fleets: list[Fleet] = []
    halving = keras.callbacks.LambdaCallback(on_epoch_end=halve)
    fleets.append(Fleet(members, "parallel(a, b) on cpus=1 fuse=on", callbacks={"*": [halving]}))
    alone = fleets[0]._twins["b"]
    alone.compile(**members["b"].settings())

    def halve_alone(epoch: int, logs: Any) -> None:
        alone.optimizer.learning_rate = float(alone.optimizer.learning_rate) / 2

    halving_alone = keras.callbacks.LambdaCallback(on_epoch_end=halve_alone)
    x, y = members["b"].rows()
    alone.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0, callbacks=[halving_alone])
    assert float(alone.optimizer.learning_rate) == pytest.approx(0.02 / 8)
    assert_same_state(fleets[0].models["b"], alone, FUSED)
    fleets[0].assert_same("a", FUSED)


def test_a_second_fit_goes_on_and_a_compile_begins_anew() -> None:
    models = {"a": net(name="a"), "b": net(name="b")}
    twins = {name: twin(model) for name, model in models.items()}
    data = {"a": rows(20), "b": rows(13, seed=1)}
    joint = composer.compile("parallel(a, b) on cpus=1 fuse=on", models=models)
    for round_number in range(3):
        for name in models:
            if round_number != 1:
                compiled(models[name], keras.optimizers.Adam(0.01 + round_number), "mse")
                compiled(twins[name], keras.optimizers.Adam(0.01 + round_number), "mse")
            twins[name].fit(*data[name], batch_size=8, epochs=2, shuffle=False, verbose=0)
        joint.fit(data, batch_size=8, epochs=2, shuffle=False, verbose=0)
        for name in models:
            assert_same_state(models[name], twins[name], FUSED)


def test_freezing_waits_for_a_compile_as_in_keras() -> None:
    """Of a model, and of all, between two fits and before an evaluation."""
    models = {"a": net(name="a"), "b": net(name="b")}
    twins = {name: twin(model) for name, model in models.items()}
    data = {"a": rows(16), "b": rows(16, seed=1)}
    joint = composer.compile("parallel(a, b) on cpus=1 fuse=on", models=models)
    for model in (*models.values(), *twins.values()):
        model.compile("adam", "mse")
    for frozen in ((), ("a",), ("a", "b")):
        for name, model in twins.items():
            models[name].layers[0].trainable = model.layers[0].trainable = name not in frozen
            model.fit(*data[name], batch_size=8, shuffle=False, verbose=0)
        joint.fit(data, batch_size=8, shuffle=False, verbose=0)
        results = joint.evaluate(data, verbose=0)
        for name, model in twins.items():
            assert_same_state(models[name], model, FUSED)
            assert results[name]["loss"] == pytest.approx(model.evaluate(*data[name], verbose=0), rel=FUSED)
    assert joint.plan.notes[-1].startswith("2 members like `a` are one batched program")


def test_shuffled_members_see_their_rows_in_the_order_of_the_joined() -> None:
    fits = {}
    for fuse in ("on", "off"):
        models = {"a": drawing_net(0), "b": drawing_net(1)}
        for model in models.values():
            model.compile(keras.optimizers.SGD(0.01), "mse")
        joint = composer.compile(f"parallel(a, b) on cpus=1 fuse={fuse}", models=models)
        data = {"a": rows(20, 3, 2), "b": rows(13, 3, 2)}
        history = joint.fit(data, batch_size=8, epochs=3, verbose=0)
        fits[fuse] = (models, history)
    for name in ("a", "b"):
        assert_same_state(fits["on"][0][name], fits["off"][0][name], FUSED)
        assert_same_history(fits["on"][1].members[name].history, fits["off"][1].members[name].history)


@pytest.mark.parametrize(("cut", "every"), [(Cut(2), None), (CutInBatch(2, 3), 2)])
def test_a_fit_that_was_cut_off_goes_on_to_the_same_end(tmp_path: Path, cut: Cut, every: int | None) -> None:
    def train(callbacks: list[Any], backup_dir: Path | None) -> list[np.ndarray]:
        models = {"a": drawing_net(0), "b": drawing_net(1)}
        for model in models.values():
            model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
        joint = composer.compile("parallel(a, b) on cpus=1 fuse=on", models=models)
        data = {"a": rows(40, 3, 2), "b": rows(29, 3, 2)}
        kept = {} if backup_dir is None else {"backup_dir": backup_dir, "checkpoint_every": every}
        history = joint.fit(data, batch_size=8, epochs=4, verbose=0, callbacks={"a": callbacks}, **kept)
        losses = [np.array(history.members[name].history["loss"]) for name in models]
        return [*losses, *(array for model in models.values() for array in state(model))]

    with pytest.raises(KeyboardInterrupt):
        train([cut], tmp_path)
    assert_equal_bits(train([Cut()], tmp_path), train([Cut()], None))


def test_members_log_each_output_and_metric_under_their_own_names() -> None:
    """Outputs and metrics that Keras names by their number in the process; short batches count as much as full ones."""

    def branching(seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        inputs = layers.Input((3,))
        return keras.Model(inputs, [layers.Dense(1)(inputs), layers.Dense(1, activation="sigmoid")(inputs)])

    def two_targets(size: int) -> Any:
        x, y = rows(size, 3, 1)
        return x, [y, (y > 0).astype("float32")]

    counted = {name: [["mae"], [keras.metrics.Precision()]] for name in ("a", "b")}
    members = {
        name: Alone(
            branching(seed),
            rows=lambda size=size: two_targets(size),
            settings=lambda name=name: {
                "optimizer": "adam",
                "loss": ["mse", "binary_crossentropy"],
                "metrics": counted[name],
            },
            fit={"batch_size": 4, "epochs": 2},
        )
        for seed, (name, size) in enumerate([("a", 13), ("b", 9)])
    }
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on")
    assert fleet.joint.plan.notes[-1].startswith("2 members like `a` are one batched program")
    for name in members:
        fleet.assert_same(name, FUSED)


def test_convolutions_draw_and_train_as_alone() -> None:
    """Each member has filters of its own; their random masks are those of XLA, which Keras alone uses too."""

    def convolutional(seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        return keras.Sequential(
            [
                layers.Input((8, 8, 2)),
                layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
                layers.SeparableConv2D(6, 2),
                layers.SpatialDropout2D(0.3, seed=seed),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(3),
            ]
        )

    def images(size: int, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return rng.normal(size=(size, 8, 8, 2)).astype("float32"), rng.integers(0, 3, size)

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    members = {
        name: Alone(
            convolutional(seed),
            rows=lambda size=size, seed=seed: images(size, seed),
            settings=lambda: {"optimizer": "adam", "loss": loss, "metrics": ["accuracy"]},
            fit={"batch_size": 4, "epochs": 2},
        )
        for name, size, seed in [("a", 12, 0), ("b", 9, 1)]
    }
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on")
    for name in members:
        fleet.assert_same(name, FUSED)


def recurrent(seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [layers.Input((6,)), layers.Embedding(9, 4, mask_zero=True), layers.LSTM(5), layers.Dense(1)]
    )


def texts(size: int, seed: int) -> Any:
    """Words, the same several times in a row, behind which zeros are masked."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 9, (size, 6)) * (np.arange(6) < rng.integers(1, 7, (size, 1)))
    return words, rng.normal(size=(size, 1)).astype("float32")


def reading(model: keras.Model, size: int, seed: int, optimizer: str) -> Alone:
    return Alone(
        model,
        rows=lambda: texts(size, seed),
        settings=lambda: {"optimizer": optimizer, "loss": "mse"},
        fit={"batch_size": 4, "epochs": 2},
    )


def test_recurrent_layers_with_masks_train_as_alone() -> None:
    members = {name: reading(recurrent(seed), size, seed, "adam") for name, size, seed in [("a", 8, 0), ("b", 12, 1)]}
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on")
    assert fleet.joint.plan.notes[-1] == "2 members like `a` are one batched program, compiled by XLA"
    for name in members:
        fleet.assert_same(name, FUSED)


def test_what_cannot_be_batched_is_joined() -> None:
    """What Keras does with the gradient of an embedding under this rule has another shape at each step."""

    def averaging() -> keras.Model:
        return keras.Sequential(
            [layers.Input((6,), dtype="int32"), layers.Embedding(9, 3), layers.Flatten(), layers.Dense(1)]
        )

    members = {name: reading(averaging(), 8, seed, "rmsprop") for seed, name in enumerate("ab")}
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on")
    told = "2 members like `a` are joined: they cannot be batched (the shape of what `Where` gives depends"
    assert fleet.joint.plan.notes[-1].startswith(told)
    for name in members:
        fleet.assert_same(name)


def test_bundles_are_spread_over_devices() -> None:
    members = {
        name: Alone(
            net(),
            rows=lambda seed=seed: rows(16, seed=seed),
            settings=lambda: {"optimizer": "adam", "loss": "mse"},
            fit={"batch_size": 8, "epochs": 2},
        )
        for seed, name in enumerate("abcd")
    }
    fleet = Fleet(members, "parallel(a, b, c, d) on gpus=2 fuse=on jit=off")
    assert fleet.joint.plan.notes[-1] == "4 members like `a` are one batched program, on 2 devices"
    for name in members:
        fleet.assert_same(name, FUSED)


def notes_of(models: dict[str, keras.Model], data: dict[str, Any], fuse: str = "on") -> tuple[str, ...]:
    joint = composer.compile(f"parallel({', '.join(models)}) on cpus=1 fuse={fuse}", models=models)
    joint.fit(data, batch_size=8, verbose=0)
    return joint.plan.notes


def test_what_is_not_alike_is_joined_and_the_plan_says_why() -> None:
    class Own(layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    models = {name: compiled(net(), "sgd", "mse") for name in ("a", "b", "wide")}
    models["wide"] = compiled(net(units=9), "sgd", "mse")
    models["own"] = compiled(keras.Sequential([layers.Input((3,)), Own(name="twice"), layers.Dense(1)]), "sgd", "mse")
    carrying = keras.Sequential([layers.Input(batch_shape=(8, 3, 1)), layers.GRU(1, stateful=True, name="carries")])
    models["stateful"] = compiled(carrying, "sgd", "mse")
    x, y = rows(8)
    data = {**{name: (x, y) for name in models}, "stateful": (x[:, :, None], y)}
    told = notes_of(models, data)
    assert "`stateful` is joined: `carries` carries a state from batch to batch" in told
    assert "2 members like `a` are one batched program, compiled by XLA" in told
    assert "`own` is joined: only Keras' own layers are batched, and `twice` is a Own" in told
    assert not any("batched" in note for note in notes_of({"a": models["a"], "b": models["b"]}, data_of(data), "off"))


def data_of(data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("a", "b")}
