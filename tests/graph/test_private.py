"""The private names of Keras that composer uses, used as the code does: a new Keras that moves one fails here."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from composer.graph import private
from tests.helpers import net


def test_flatten_layers_reaches_into_wrappers_and_nested_models() -> None:
    inner = keras.Sequential([layers.Input((4,)), layers.Dense(2, name="deep")])
    model = keras.Sequential([layers.Input((3, 4)), layers.TimeDistributed(inner)])
    assert "deep" in [layer.name for layer in private.flatten_layers(model)]


def test_symbolic_calls_tell_shapes() -> None:
    layer = layers.Dense(5)
    layer(keras.Input((3,)))
    ((inputs, outputs),) = private.symbolic_calls(layer)
    assert ([t.shape for t in inputs], [t.shape for t in outputs]) == ([(None, 3)], [(None, 5)])


def test_layer_name_is_the_same_in_every_process() -> None:
    model = keras.Sequential([layers.Input((3,), name="x"), layers.Dense(1, name="y")])
    assert (private.layer_name(model.inputs[0]), private.layer_name(model.outputs[0])) == ("x", "y")
    assert private.layer_name(keras.KerasTensor((None, 3))) is None


def test_replace_value_moves_what_a_model_computes_with() -> None:
    model = net()
    kernel = model.variables[0]
    with tf.device("/device:CPU:2"):
        private.replace_value(kernel, tf.Variable(tf.zeros(kernel.shape)))
    assert kernel.value.device.endswith("CPU:2")
    np.testing.assert_array_equal(kernel.numpy(), np.zeros(kernel.shape))
