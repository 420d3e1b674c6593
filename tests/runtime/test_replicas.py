"""Replicas of one set of weights: each trains its slice of the batch, and the result is that of no cut."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import assert_same_history, assert_same_weights, needs_newest_keras, net, rows, twin
from tests.runtime.alone import Alone, Fleet, assert_same_state, compiled, fit_alone, set_state, state

SPLIT_ROUNDING = 1e-6
"""What another order of summing costs, relative to the largest value."""


class NoEmptyBatch(layers.Layer):
    """Passes rows on; fails when it is run on none, as convolutions and poolings do. Counts how often it is traced."""

    calls = 0

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        with tf.control_dependencies([tf.debugging.assert_positive(tf.shape(inputs)[0], "an empty slice")]):
            return tf.identity(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor(inputs.shape, inputs.dtype)


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
def test_c77_row_i_in_row_i_out(replicas: int) -> None:
    """C01, C17: any number of rows, replicas and batch size; no layer meets an empty slice; one trace."""
    x = keras.Input((1,))
    guard = NoEmptyBatch()
    model = keras.Model(x, layers.Dense(1, use_bias=False, kernel_initializer="ones")(guard(x)))
    model.layers[-1].kernel.assign([[2.0]])
    joint = composer.compile(f"parallel(m x{replicas}) on gpus=4 merge=gpu", m=model)
    guard.calls = 0
    for batch, sizes in ((1, (0, 1, 3)), (3, (0, 1, 2, 4, 5, 7, 17)), (8, (0, 1, 2, 3, 6, 7, 8, 9, 17))):
        for num_rows in sizes:
            numbers = np.arange(num_rows, dtype="float32")[:, None] + 1
            got = joint.predict({"m": numbers}, batch_size=batch, verbose=0)["m"]
            np.testing.assert_array_equal(got, 2 * numbers, err_msg=f"{num_rows} rows in batches of {batch}")
    assert guard.calls == replicas


BATCHES = (3, 1, 10, 5, 13, 1, 8, 2, 33, 7, 9, 4, 17)
"""Rows of each batch of one epoch: an uneven first one (C06), fewer than replicas (C10), every remainder."""


def uneven_batches(seed: int = 0) -> tf.data.Dataset:
    def batches() -> Any:
        for index, size in enumerate(BATCHES):
            yield rows(size, seed=100 * seed + index)

    signature = (tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((None, 1), tf.float32))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(len(BATCHES)))


@pytest.fixture(scope="module")
def uneven() -> tuple[keras.Model, list[np.ndarray], keras.Model, dict[str, Any], dict[str, float]]:
    """A model with its first state, and its twin after a fit of uneven batches, with its history and evaluation."""
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(1)(layers.Dense(4, activation="tanh")(NoEmptyBatch()(x))))
    alone = twin(model)
    for each in (model, alone):
        compiled(each, keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    history = fit_alone(alone, uneven_batches(), epochs=2, validation_data=uneven_batches(1))
    return model, state(model), alone, history.history, alone.evaluate(uneven_batches(), verbose=0, return_dict=True)


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_c05_c06_c10_batches_of_every_size_train_and_evaluate_as_alone(uneven: Any, replicas: int) -> None:
    model, start, alone, history, evaluated = uneven
    set_state(model, start)
    joint = composer.compile(f"parallel(m x{replicas}) on gpus=4", m=model)
    got = joint.fit({"m": uneven_batches()}, epochs=2, verbose=0, validation_data={"m": uneven_batches(1)})
    assert_same_state(model, alone, SPLIT_ROUNDING)
    assert_same_history(got.members["m"].history, history)
    assert joint.evaluate({"m": uneven_batches()}, verbose=0)["m"] == pytest.approx(evaluated, rel=1e-5)


# Models ------------------------------------------------------------------------------------------------------------


def conv_net() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3, kernel_regularizer="l2"),
        ]
    )


def masked_text_net() -> keras.Model:
    return keras.Sequential(
        [
            layers.Input((6,), dtype="int32"),
            layers.Embedding(10, 4, mask_zero=True),
            layers.Dense(4, activation="tanh"),
            layers.Dense(1),
        ]
    )


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def padded_words(n: int) -> np.ndarray:
    """Rows of words of unlike lengths, filled up with zeros."""
    words = np.random.default_rng(n).integers(1, 10, size=(n, 6))
    return np.where(np.arange(6) < np.arange(n)[:, None] % 6 + 1, words, 0)


@pytest.fixture(scope="module")
def replicated() -> Fleet:
    keras.utils.set_random_seed(5)
    members = {
        "image": Alone(
            conv_net(),
            lambda: (numbers(9, 6, 6, 1), numbers(9, 3)),
            lambda: {"optimizer": keras.optimizers.SGD(1e-2, global_clipnorm=0.5), "loss": "mse"},
            {"epochs": 2, "batch_size": 7},
        ),
        "text": Alone(
            masked_text_net(),
            lambda: (padded_words(10), numbers(10, 6, 1), np.abs(numbers(10, 6))),
            lambda: {
                "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
                "loss": "mse",
                "metrics": ["mae"],
                "weighted_metrics": ["mse"],
            },
            {"epochs": 2, "batch_size": 4, "validation_split": 0.3},
        ),
        "plain": Alone(
            net(),
            lambda: rows(8),
            lambda: {"optimizer": "sgd", "loss": "mse"},
            {"epochs": 3, "batch_size": 5},
        ),
    }
    return Fleet(members, "parallel(image x3, text x2, plain) on gpus=4 merge=gpu")


@pytest.mark.parametrize("name", ["image", "text", "plain"])
def test_replicated_members_train_as_alone(replicated: Fleet, name: str) -> None:
    """Convolutions and poolings, embeddings (sparse gradients), masks, sample weights; beside an uncut member."""
    replicated.assert_same(name, tolerance=2e-6)


def test_masked_steps_do_not_count_in_a_replicated_loss(replicated: Fleet) -> None:
    """The mask that an embedding makes reaches the loss and the metrics through the cut, at `evaluate` too."""
    x, y, weights = replicated.members["text"].rows()
    got = replicated.joint.evaluate({"text": (x, y, weights)}, batch_size=4, verbose=0)["text"]
    alone, _ = replicated.alone("text")
    want = alone.evaluate(x, y, 4, sample_weight=weights, verbose=0, return_dict=True)
    assert got == pytest.approx(want, rel=1e-5)
    errors = (y - alone.predict(x, verbose=0))[..., 0] ** 2
    assert got["mse"] == pytest.approx(np.average(errors, weights=weights * (x != 0)), rel=1e-5)
    assert got["mse"] != pytest.approx(np.average(errors, weights=weights), rel=1e-2)


def test_mixed_precision_replicas_scale_their_loss_as_alone() -> None:
    keras.utils.set_random_seed(7)
    x = keras.Input((3,))
    h = layers.Dense(4, activation="tanh", dtype="mixed_float16")(x)
    model = keras.Model(x, layers.Dense(1, dtype="float32")(h))
    alone = twin(model)
    for each in (model, alone):
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0)
        each.compile(optimizer, "mse")
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    joint.fit({"m": rows(5)}, epochs=2, batch_size=4, shuffle=False, verbose=0)
    fit_alone(alone, rows(5), epochs=2, batch_size=4)
    assert_same_weights(model, alone, 1e-3)  # half precision
    assert float(model.optimizer.dynamic_scale) == float(alone.optimizer.dynamic_scale) == 8.0


def test_frozen_replicated_model_only_tracks_its_loss() -> None:
    """As alone: no weight moves, and a warning says so."""
    model = net()
    model.trainable = False
    model.compile("sgd", "mse")
    weights = model.get_weights()
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    with pytest.warns(UserWarning, match="`m` has no trainable weights"):
        history = joint.fit({"m": rows(5)}, batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_allclose(history.history["m_loss"], model.evaluate(*rows(5), verbose=0), rtol=1e-5)
    assert_same_weights(model, model_with(weights))


def model_with(weights: list[np.ndarray]) -> keras.Model:
    model = net()
    model.set_weights(weights)
    return model


# Cases from users --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", ["cpu", "gpu"])
def test_c07_one_step_over_an_uneven_batch_is_the_mean_over_its_rows(merge: str) -> None:
    """13 rows in batches of 8 over 4 replicas: b = 6.0 after the second step (averaging replicas gives 6.575)."""
    model = keras.Sequential([layers.Input((1,)), layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    joint = composer.compile(f"parallel(m x4) on gpus=4 merge={merge}", m=model)
    x, y = np.arange(13.0)[:, None] / 10, np.arange(13.0)[:, None]
    after = []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: after.append([float(w.numpy().item()) for w in model.weights])
    )
    joint.fit({"m": (x, y)}, batch_size=8, shuffle=False, verbose=0, callbacks={"m": [look]})
    np.testing.assert_allclose(after[0], [3.5, 7.0], atol=1e-5)
    np.testing.assert_allclose(after[1][1], 6.0, atol=1e-5)


def test_c03_batch_norm_stays_finite_whatever_the_last_batch() -> None:
    """9 and 17 rows in batches of 8: the last row goes to one replica, the others do not run."""
    model = keras.Sequential([layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.warns(composer.ComposerWarning, match=r"MG320.*`m` do not train exactly like the model alone"):
        joint = composer.compile("parallel(m x3) on gpus=4", m=model)
    for num_rows in (9, 17):
        joint.fit({"m": rows(num_rows)}, batch_size=8, epochs=2, shuffle=False, verbose=0)
    assert all(np.isfinite(values).all() for values in state(model))
    x = rows(9)[0]
    np.testing.assert_allclose(joint.predict({"m": x}, verbose=0)["m"], model.predict(x, verbose=0), atol=1e-6)


def first_row_loss(y_true: Any, y_pred: Any) -> Any:
    """A loss that reads row 0, as a loss with an anchor does."""
    return keras.ops.square(y_pred - y_true)[:, 0] + 0.0 * (y_pred[0, 0] - y_true[0, 0])


def test_c09_c02_no_row_is_dropped_and_a_loss_may_index_row_0() -> None:
    """35 rows in batches of 9 over 4 replicas, the last batch of 8; no replica without rows reaches the loss."""
    model = net()
    alone = twin(model)
    for each in (model, alone):
        each.compile(keras.optimizers.SGD(0.1), first_row_loss)
    joint = composer.compile("parallel(m x4) on gpus=4", m=model)
    joint.fit({"m": rows(37)}, batch_size=9, shuffle=False, verbose=0)
    fit_alone(alone, rows(37), batch_size=9)
    assert int(model.optimizer.iterations) == 5
    assert_same_state(model, alone)


def test_c16_the_users_preprocessing_sees_whole_batches() -> None:
    sizes: list[int] = []

    def whole(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tf.py_function(lambda n: sizes.append(int(n)), [tf.shape(x)[0]], [])
        return x * x[11 % tf.shape(x)[0]], y  # touches a row of the whole batch

    model = compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(m x4) on gpus=4", m=model)
    joint.fit({"m": tf.data.Dataset.from_tensor_slices(rows(24)).batch(12).map(whole)}, verbose=0)
    assert sizes[:2] == [12, 12]
    assert set(sizes) == {12}


def test_l2_penalty_counts_once_whatever_the_replicas() -> None:
    """L2(1.0) on a kernel of two ones is 2.0, not 2.0 for each replica."""
    x = keras.Input((2,))
    kernel = {"kernel_initializer": "ones", "kernel_regularizer": keras.regularizers.L2(1.0), "use_bias": False}
    model = keras.Model(x, layers.Dense(1, **kernel)(x))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    joint = composer.compile("parallel(m x4) on gpus=4", m=model)
    data = {"m": (np.zeros((6, 2)), np.zeros((6, 1)))}
    assert joint.fit(data, verbose=0).history["m_loss"] == [2.0]
    assert joint.evaluate(data, verbose=0)["m"]["loss"] == 2.0


def test_c31_x2_gives_one_series_a_metric() -> None:
    """Two replicas are one member: one loss, of the whole batch, not two that overwrite each other."""
    model = compiled(net(), "sgd", "mse", metrics=["mae"])
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    history = joint.fit({"m": rows(8)}, epochs=2, verbose=0)
    assert {key: len(values) for key, values in history.history.items()} == {"m_loss": 2, "m_mae": 2}


def test_c38_inner_states_follow_the_slice() -> None:
    """An encoder's state passed to a decoder has the rows of the slice."""
    keras.utils.set_random_seed(9)
    source, target = keras.Input((4, 3), name="source"), keras.Input((2, 3), name="target")
    _, h = layers.GRU(5, return_state=True)(source)
    decoded = layers.GRU(5, return_sequences=True)(target, initial_state=h)
    model = keras.Model([source, target], layers.Dense(3)(decoded))
    x = [numbers(7, 4, 3), numbers(7, 2, 3)]
    joint = composer.compile("parallel(m x3) on gpus=4", m=model)
    np.testing.assert_allclose(joint.predict({"m": x}, verbose=0)["m"], model.predict(x, verbose=0), atol=1e-6)


# What cannot be cut ------------------------------------------------------------------------------------------------


def stateful() -> keras.Model:
    return keras.Sequential([layers.Input((5, 3), batch_size=4), layers.LSTM(2, stateful=True, name="memory")])


def fixed_batch() -> keras.Model:
    return keras.Sequential([layers.Input((3,), batch_size=4), layers.Dense(1)])


def scalar_output() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, keras.ops.mean(layers.Dense(1)(x)))


def batch_in_a_reshape() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(1)(keras.ops.reshape(layers.Dense(4)(x), (6, 4))))


def activity_loss() -> keras.Model:
    return keras.Sequential([layers.Input((3,)), layers.Dense(1, activity_regularizer="l2", name="penalised")])


class AddsLoss(layers.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_loss(tf.reduce_mean(inputs**2))
        return inputs


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        pytest.param(stateful, composer.SpecError, r"`m` cannot take `x2`.*`memory`", id="c37-stateful"),
        pytest.param(fixed_batch, composer.SpecError, r"`m` cannot take `x2`.*fixed batch size of 4", id="fixed-batch"),
        pytest.param(scalar_output, composer.SpecError, r"`m` cannot take `x2`.*no batch axis", id="rank-0"),
        pytest.param(activity_loss, composer.SpecError, r"`m` cannot take `x2`.*`penalised`", id="activity-loss"),
        pytest.param(batch_in_a_reshape, composer.GraphError, r"`m` cannot be cut into slices", id="c40-reshape"),
    ],
)
def test_what_cannot_be_cut_is_found_when_compiling(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        composer.compile("parallel(m x2) on gpus=2", m=model())


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(stateful, marks=needs_newest_keras),  # 3.12 asks for batches whose size is known
        fixed_batch,
        activity_loss,
    ],
)
def test_uncut_they_run(make: Any) -> None:
    model = make()
    x = numbers(4, *model.input_shape[1:])
    got = composer.compile("parallel(m, other) on gpus=4", m=model, other=net()).predict({"m": x}, 4, verbose=0)["m"]
    if make is stateful:
        model.layers[0].reset_states()
    np.testing.assert_allclose(got, model.predict(x, batch_size=4, verbose=0), atol=1e-6)


def test_layers_that_add_losses_and_own_steps_are_refused_before_they_train() -> None:
    x = keras.Input((3,))
    model = compiled(keras.Model(x, layers.Dense(1)(AddsLoss()(x))), "sgd", "mse")
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    with pytest.raises(composer.GraphError, match=r"`m` has 2 replicas.*adds a loss at every call"):
        joint.fit({"m": rows(4)}, verbose=0)
    own = compiled(OwnStep(x, layers.Dense(1)(x)), "sgd", "mse")
    joint = composer.compile("parallel(m x2) on gpus=2", m=own)
    with pytest.raises(composer.GraphError, match="`m` has replicas, but OwnStep has a `train_step` of its own"):
        joint.fit({"m": rows(4)}, verbose=0)
    assert int(own.optimizer.iterations) == 0
