"""What TensorFlow and Keras do and the engine relies on: a new version that does otherwise fails here first."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from composer.graph.placement import device_of
from tests.graph.test_placement import executed_operations
from tests.helpers import net, rows

HOST, FIRST, SECOND = (f"/device:CPU:{index}" for index in range(3))


class Placed(layers.Layer):
    """Calls a model under a device, as a placement layer has to."""

    def __init__(self, model: keras.Model, device: str) -> None:
        super().__init__()
        self.model, self.device = model, device

    def call(self, inputs: Any) -> Any:
        with tf.device(self.device):
            return self.model(inputs)


def test_keras_own_fit_leaves_gradients_on_the_default_device() -> None:
    """Why every member is stepped under its device by our own program: a placing layer does not place gradients."""
    inputs = keras.Input((3,))
    model = keras.Model(inputs, Placed(net(3, 2), SECOND)(inputs))
    model.compile("sgd", "mse")
    found = executed_operations(lambda: model.fit(*rows(8, 3, 2), batch_size=8, verbose=0))
    assert set(found["_FusedMatMul"]) == {"CPU:2"}
    assert set(found["ReluGrad"]) == {"CPU:0"}


def test_a_device_around_symbolic_calls_places_variables_but_no_operations() -> None:
    """Why placement is a layer."""
    with tf.device(SECOND):
        model = net(3, 2)
        model.build((None, 3))
    assert {device_of(variable) for variable in model.variables} == {SECOND}
    found = executed_operations(lambda: tf.function(model)(tf.ones((4, 3))))
    assert set(found["_FusedMatMul"]) == {"CPU:0"}


def test_slots_lie_beside_their_weights_only_if_they_are_made_eagerly() -> None:
    """Why optimizers are built before a step is traced."""
    homes = {}
    for eagerly in (True, False):
        with tf.device(SECOND):
            model = net()
        model.compile(keras.optimizers.SGD(momentum=0.9), "mse")
        if eagerly:
            model.optimizer.build(model.trainable_variables)
        model.fit(*rows(4), verbose=0)
        homes[eagerly] = {device_of(slot) for slot in model.optimizer.variables if "momentum" in slot.path}
    assert homes == {True: {SECOND}, False: {HOST}}


def test_keras_fit_takes_every_step_although_the_train_function_returns_early() -> None:
    """Why a pass that is through can answer the rest of Keras' steps without touching the data."""

    class Idle(keras.Model):
        def make_train_function(self, force: bool = False) -> None:
            self.train_function = lambda iterator: asked.append(iterator) or {}

    asked: list[Any] = []
    inputs = keras.Input((3,))
    model = Idle(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    history = model.fit(*rows(10), batch_size=4, epochs=2, verbose=0)
    assert len(asked) == 2 * 3
    assert history.epoch == [0, 1]


def test_keras_fixes_the_number_of_steps_in_the_first_epoch_of_unknown_length() -> None:
    """Why a joint dataset without end is given an end that no epoch reaches."""

    class Growing(keras.Model):
        def make_train_function(self, force: bool = False) -> None:
            self.train_function = self.take_step

        def take_step(self, iterator: Any) -> Any:
            steps.append(1)
            if len(steps) == 3:
                raise StopIteration
            return {}

    steps: list[int] = []
    inputs = keras.Input((3,))
    model = Growing(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    untold = tf.data.Dataset.from_tensors(rows(2)).repeat().filter(lambda x, y: True)
    with pytest.warns(UserWarning, match="Your input ran out of data"):
        model.fit(untold, epochs=2, shuffle=False, verbose=0)
    assert len(steps) == 3 + 3


def test_every_iterator_of_a_shuffling_dataset_takes_the_next_order() -> None:
    """Why the orders of a member's dataset are those of its own `fit` only if as many iterators are made."""

    def orders(skip: bool) -> list[list[int]]:
        dataset = tf.data.Dataset.range(8).shuffle(8, seed=3)
        first = [int(x) for x in dataset]
        if skip:
            iter(dataset)
        return [first, [int(x) for x in dataset]]

    plain, skipped = orders(False), orders(True)
    assert plain[0] == skipped[0]
    assert plain[1] != skipped[1]
    assert plain[0] != plain[1]


def test_keras_fit_makes_one_iterator_more_at_the_end_of_an_epoch_of_known_length() -> None:
    """Why a stream is stepped by Keras' own epoch iterator."""
    known, untold = shuffled_epochs(known=True), shuffled_epochs(known=False)
    assert known[0] == untold[0]
    assert known[1] != untold[1]


def shuffled_epochs(known: bool) -> list[list[float]]:
    """The orders that Keras' own `fit` takes a shuffling dataset in, in two epochs."""
    x = np.arange(6, dtype="float32")[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((x, x)).shuffle(6, seed=3).batch(6)
    if not known:
        dataset = dataset.filter(lambda x, y: True)
    seen: list[list[float]] = []
    dataset = dataset.map(lambda x, y: (tf.ensure_shape(tf.numpy_function(keep(seen), [x], tf.float32), (None, 1)), y))
    model = keras.Sequential([layers.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    with contextlib.nullcontext() if known else pytest.warns(UserWarning, match="ran out of data"):
        model.fit(dataset, epochs=2, shuffle=False, verbose=0)
    return seen


def keep(seen: list[list[float]]) -> Any:
    def look(x: np.ndarray) -> np.ndarray:
        seen.append(x[:, 0].tolist())
        return x

    return look


def test_empty_optionals_pass_through_a_dataset() -> None:
    """How a member without a batch is told of: no padding, no weights of zero."""
    spec = (tf.TensorSpec((None, 2), tf.float32),)
    batch = tf.data.Dataset.from_tensors((tf.ones((3, 2)),)).map(lambda x: tf.experimental.Optional.from_value((x,)))
    empty = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(spec))
    steps = list(tf.data.Dataset.zip({"a": batch.concatenate(empty)}))
    assert [bool(step["a"].has_value()) for step in steps] == [True, False]
    assert steps[0]["a"].get_value()[0].shape == (3, 2)


def test_batch_normalization_turns_to_nan_on_no_rows() -> None:
    """Why an empty slice must never reach a layer (convolutions raise, a max-pool gradient ends the process)."""
    layer = layers.BatchNormalization()
    layer(np.ones((4, 2)), training=True)
    layer(np.ones((0, 2)), training=True)
    assert np.isnan(np.array(layer.moving_mean)).all()


def test_joining_tensors_drops_their_masks() -> None:
    """Why masks are joined by hand: a loss reads them from the very tensor it is given."""
    part = layers.Embedding(4, 2, mask_zero=True)(np.array([[1, 0]]))
    assert getattr(part, "_keras_mask", None) is not None
    assert getattr(tf.concat([part, part], axis=0), "_keras_mask", None) is None


def test_a_weightless_row_still_moves_what_has_momentum() -> None:
    """Why stopping is a condition: weights of zero leave momentum, decay and statistics running (C66)."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, layers.Dense(1, use_bias=False, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    one, five = np.ones((1, 1)), np.full((1, 1), 5.0)
    model.fit(one, five, verbose=0)
    assert float(np.array(model.weights[0]).item()) == pytest.approx(1.8)
    model.fit(one, five, sample_weight=np.zeros(1), epochs=5, verbose=0)
    assert float(np.array(model.weights[0]).item()) == pytest.approx(4.7485, abs=1e-4)
