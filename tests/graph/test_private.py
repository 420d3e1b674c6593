"""The private names of Keras and TensorFlow that composer uses, used as the code does: a new version that moves one
fails here."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.eager import context as eager_context

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


def test_losses_of_outputs_are_logged_without_weights_within_the_context() -> None:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, [layers.Dense(1, name="u")(inputs), layers.Dense(1, name="v")(inputs)])
    model.compile("sgd", ["mse", "mse"])

    def logged(size: int, value: float) -> float:
        zeros = [tf.zeros((size, 1))] * 2
        model.compute_loss(y=zeros, y_pred=[each + value for each in zeros])
        return next(float(metric.result()) for metric in model.metrics if metric.name == "u_loss")

    logged(4, 0.0)  # the first time it makes what counts
    model.reset_metrics()
    with private.unweighted_losses(model):
        assert (logged(4, 0.0), logged(1, 1.0)) == (0.0, 0.5)
    model.reset_metrics()
    assert (logged(4, 0.0), logged(1, 1.0)) == (0.0, pytest.approx(0.2))


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


def test_an_epoch_iterator_steps_as_keras_own_fit_and_notes_that_rows_ran_out() -> None:
    dataset = tf.data.Dataset.range(5).map(lambda x: (tf.cast(x, tf.float32)[None],))
    assert private.yields_batches(dataset)
    adapter = private.data_adapter(dataset)
    epochs = private.EpochIterator(adapter, dataset, steps=3)
    epochs.reset()
    taken = []
    for _ in range(3):
        taken.append([float(next(iterator)[0][0]) for _, _, iterator in iter(epochs)])
    assert taken == [[0, 1, 2], [3, 4], [0, 1, 2]]
    assert epochs.ran_out
    untold = dataset.filter(lambda x: True)
    epochs = private.EpochIterator(private.data_adapter(untold), untold)
    epochs.reset()
    iter(epochs)
    next(epochs)
    epochs.end_of_data()
    assert epochs.num_batches == 1


def test_generators_are_looked_at_and_put_back() -> None:
    adapter = private.data_adapter(rows(2, seed=seed) for seed in range(3))
    assert adapter.num_batches is None
    assert hasattr(adapter, "generator")
    dataset = adapter.get_tf_dataset()
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [[None, 3], [None, 1]]
    assert len(list(dataset)) == 3


def test_a_pydataset_is_known_by_its_adapter() -> None:
    class Batches(keras.utils.PyDataset):
        num_batches = 2

        def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
            return rows(2, seed=index)

    batches = Batches()
    assert private.data_adapter(batches).py_dataset is batches


def test_an_iterator_without_tuning_asks_for_none() -> None:
    """In TensorFlow 2.21 letting go of one that is tuned waits, now and then, as long as it has lived."""
    dataset = tf.data.Dataset.range(3)
    assert private.without_autotune(dataset).options().autotune.enabled is False
    options = tf.data.Options()
    options.autotune.enabled = True
    assert private.without_autotune(dataset.with_options(options)).options().autotune.enabled is True


def test_rows_of_sparse_and_ragged_tensors_are_taken_by_position() -> None:
    dense = np.array([[0, 1], [2, 0], [0, 3]], "float32")
    index = tf.constant([2, 0], tf.int64)
    taken = private.take_rows(private.sliceable(tf.sparse.from_dense(dense)), index)
    np.testing.assert_array_equal(tf.sparse.to_dense(taken), dense[[2, 0]])
    ragged = tf.ragged.constant([[1], [2, 3], [4, 5, 6]])
    assert private.take_rows(private.sliceable(ragged), index).to_list() == [[4, 5, 6], [1]]


def test_sparse_matrices_become_sparse_tensors_in_the_order_of_their_rows() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    matrix = scipy_sparse.coo_matrix(([1.0, 2.0, 3.0, 4.0], ([2, 0, 2, 1], [0, 1, 0, 1])), shape=(3, 2))
    tensor = private.tensor_of(matrix)
    np.testing.assert_array_equal(tf.sparse.to_dense(tensor), matrix.toarray())
    assert tensor.indices.numpy().tolist() == [[0, 1], [1, 1], [2, 0]]
    assert private.tensor_of(matrix.toarray()).shape == (3, 2)


def _rewriting() -> RewriterConfig:
    """What the graph optimizer is told of a function that is called now."""
    options = eager_context.context().function_call_options
    return ConfigProto.FromString(options.config_proto_serialized).graph_options.rewrite_options


def test_light_optimizing_leaves_the_passes_that_round_and_the_settings_of_the_process() -> None:
    """The names and numbers of a pass's switches are TensorFlow's own: a new one that renames them fails here."""
    before, settings = _rewriting(), tf.config.optimizer.get_experimental_options()
    with private.light_optimizing():
        inside = _rewriting()
        assert tf.config.optimizer.get_experimental_options() == settings
    changed = {field.name for field, _ in inside.ListFields()} - {field.name for field, _ in before.ListFields()}
    for_gpus = set() if tf.config.list_logical_devices("GPU") else {"layout_optimizer", "memory_optimization"}
    assert changed == {"loop_optimization", "disable_tfg_optimizer"} | for_gpus
    assert _rewriting() == before


def test_light_optimizing_keeps_what_the_user_has_set() -> None:
    tf.config.optimizer.set_experimental_options({"layout_optimizer": True, "remapping": False})
    try:
        with private.light_optimizing():
            inside = _rewriting()
            assert (inside.layout_optimizer, inside.remapping) == (RewriterConfig.ON, RewriterConfig.OFF)
            tf.config.optimizer.set_experimental_options({"remapping": True})
        assert _rewriting().remapping == RewriterConfig.ON
    finally:
        eager_context.context()._optimizer_experimental_options = {}
        eager_context.context().function_call_options = None


def test_a_built_layer_takes_and_forgets_weights() -> None:
    layer = layers.Dense(2)
    layer.build((None, 3))
    with pytest.raises(ValueError, match="already built"):
        layer.add_weight(shape=(1,))
    with private.unlocked(layer):
        extra = layer.add_weight(shape=(1,), name="extra")
    assert len(layer.weights) == 3
    with pytest.raises(ValueError, match="already built"):
        layer.add_weight(shape=(1,))
    private.untrack(layer, [extra])
    assert [weight.name for weight in layer.weights] == ["kernel", "bias"]


def test_functional_optimizers_take_the_steps_of_the_base_class() -> None:
    for name in (
        "_var_key", "assign", "assign_add", "assign_sub", "_apply_weight_decay", "_clip_gradients",
        "_overwrite_model_variables_with_average_value", "_backend_update_step", "_backend_apply_gradients",
        "_update_model_variables_moving_average", "_get_variable_index",
    ):  # fmt: skip
        assert hasattr(private.BaseOptimizer, name), f"Keras has moved `BaseOptimizer.{name}`"
