"""The private names of Keras that composer uses, used as the code does: a new Keras that moves one fails here."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from composer.graph import private
from tests.helpers import net, rows


def test_flatten_layers_reaches_into_wrappers_and_nested_models() -> None:
    inner = keras.Sequential([layers.Input((4,)), layers.Dense(2, name="deep")])
    model = keras.Sequential([layers.Input((3, 4)), layers.TimeDistributed(inner)])
    assert "deep" in [layer.name for layer in private.flatten_layers(model)]


def test_graph_calls_are_those_of_the_models_own_graph() -> None:
    """A layer called elsewhere too, or by a Sequential model while it grew, counts once a call of the graph."""
    layer = layers.Dense(5)
    layer(keras.Input((3,)))
    x = keras.Input((3,))
    model = keras.Model(x, layer(layers.Activation("relu")(layers.Dense(3)(x))))
    ((inputs, outputs),) = private.graph_calls(model)[id(layer)]
    assert ([t.shape for t in inputs], [t.shape for t in outputs]) == ([(None, 3)], [(None, 5)])
    grown = net()
    nested = keras.Sequential([layers.Input((3,)), grown])
    for owner in (grown, nested):
        assert [len(private.graph_calls(owner)[id(each)]) for each in grown.layers] == [1, 1]


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


def test_masks_are_left_on_outputs() -> None:
    masked = layers.Embedding(4, 2, mask_zero=True)(np.array([[1, 0]]))
    np.testing.assert_array_equal(private.mask_of(masked), [[True, False]])
    plain = tf.identity(masked)
    assert private.mask_of(plain) is None
    private.set_mask(plain, tf.constant([[False, True]]))
    losses = keras.losses.MeanSquaredError(reduction="none")(tf.zeros((1, 2, 2)), plain)
    np.testing.assert_array_equal(losses[0, 0], 0.0)  # what a loss reads is this very attribute


def test_compiled_metrics_are_the_objects_given_to_compile() -> None:
    model = net()
    assert private.compiled_metrics(model) == []
    mae, mse = keras.metrics.MeanAbsoluteError(), keras.metrics.MeanSquaredError()
    model.compile("sgd", "mse", metrics=["accuracy", mae], weighted_metrics=[[mse]])
    assert private.compiled_metrics(model) == [mae, mse]


def test_random_states_are_those_that_are_drawn_from() -> None:
    drop = layers.Dropout(0.5)
    model = keras.Sequential([layers.Input((3, 2)), layers.GRU(2), layers.Dropout(0.0), drop])
    assert [id(state) for state in private.random_states(model)] == [id(drop.seed_generator.state)]
    assert len(private.random_states(keras.Sequential([layers.Input((3, 2)), layers.GRU(2, dropout=0.5)]))) == 1


def test_resumed_epoch_is_what_backup_and_restore_sets(tmp_path: Path) -> None:
    model = net()
    model.compile("sgd", "mse")
    assert private.resumed_epoch(model) == 0
    for _ in range(2):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)
        model.fit(*rows(4), epochs=3, callbacks=[backup], verbose=0)
    assert private.resumed_epoch(model) == 3


def test_compile_settings_are_the_objects_given() -> None:
    def loss(y: object, y_pred: object) -> object:
        return y_pred

    model, optimizer, metric = net(), keras.optimizers.SGD(), keras.metrics.MeanAbsoluteError()
    assert private.compile_settings(model) == {}
    model.compile(optimizer, loss, metrics=[metric], loss_weights=[2.0])
    settings = private.compile_settings(model)
    assert (settings["optimizer"], settings["loss"], settings["metrics"]) == (optimizer, loss, [metric])
    assert (settings["loss_weights"], settings["run_eagerly"]) == ([2.0], False)
    net().compile(**settings)
