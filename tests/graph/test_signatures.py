"""What planning needs to know of a model, read from the model: ends, sizes, work, and what forbids cutting it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from composer.catalog import TensorSignature
from composer.graph.signatures import input_structure, output_structure, signature_of
from tests.helpers import net


def test_ends_have_the_models_own_names_order_and_kinds() -> None:
    second, first = keras.Input((None, 4), name="second"), keras.Input((1,), dtype="string", name="first")
    ids = layers.Flatten()(layers.Embedding(4, 2)(layers.StringLookup(vocabulary=["a"])(first)))
    pooled = layers.GlobalAveragePooling1D()(second)
    model = keras.Model([second, first], [layers.Dense(3, name="b")(pooled), layers.Dense(1, name="a")(ids)])
    signature = signature_of(model)
    assert signature.inputs == (
        TensorSignature("second", (None, None, 4), "float32"),
        TensorSignature("first", (None, 1), "string"),
    )
    assert signature.outputs == (
        TensorSignature("b", (None, 3), "float32"),
        TensorSignature("a", (None, 1), "float32"),
    )


def test_dicts_give_their_keys() -> None:
    x = keras.Input((2,), name="x")
    model = keras.Model({"x": x}, {"z": layers.Dense(1)(x), "y": layers.Dense(1)(x)})
    signature = signature_of(model)
    assert [tensor.name for tensor in signature.inputs] == ["x"]
    assert [tensor.name for tensor in signature.outputs] == ["y", "z"]  # the order Keras flattens a dict in


def test_a_subclassed_model_is_known_once_it_was_called() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.head = layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return {"scores": self.head(inputs)}

    model = Own()
    assert input_structure(model) is None
    with pytest.raises(ValueError, match="has never been built"):
        signature_of(model)
    model(np.ones((4, 3), "float32"))
    signature = signature_of(model)
    assert [tensor.shape for tensor in signature.inputs] == [(None, 3)]
    assert signature.outputs == (TensorSignature("scores", (None, 2), "float32"),)
    assert output_structure(model)["scores"].shape == (None, 2)


def test_sizes_and_work_are_counted_by_hand() -> None:
    """Multiply-adds count as two, once a position of a kernel; activations are the outputs of all layers and inputs."""
    image = keras.Sequential([layers.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(5)])
    signature = signature_of(image)
    assert signature.parameters == signature.trainable_parameters == 3 * 3 * 3 * 4 + 4 + 144 * 5 + 5
    assert signature.weight_bytes == 4 * signature.parameters
    assert signature.flops_per_row == 2 * 36 * (3 * 3 * 3 * 4) + 2 * 144 * 5
    assert signature.activation_bytes_per_row == 4 * (8 * 8 * 3 + 36 * 4 + 144 + 5)
    assert signature_of(net(3, 1)).flops_per_row == 2 * (3 * 8 + 8)


@pytest.mark.parametrize(
    ("make", "kernel"),
    [
        (lambda: layers.GRU(5, reset_after=False), 3 * 15 + 5 * 15),
        (lambda: layers.RNN(layers.SimpleRNNCell(5)), 3 * 5 + 5 * 5),
        (lambda: layers.Bidirectional(layers.LSTM(5)), 2 * (3 * 20 + 5 * 20)),
        (lambda: layers.TimeDistributed(layers.Dense(5)), 3 * 5),
    ],
)
def test_cells_and_wrapped_layers_work_once_a_step(make: Any, kernel: int) -> None:
    """They are not counted besides the layer that holds them."""
    model = keras.Sequential([layers.Input((7, 3)), make()])
    assert signature_of(model).flops_per_row == 2 * 7 * kernel


def test_a_shared_layer_works_once_a_call_and_an_open_length_is_not_guessed() -> None:
    first, second, shared = keras.Input((3,)), keras.Input((3,)), layers.Dense(4)
    model = keras.Model([first, second], layers.Add()([shared(first), shared(second)]))
    assert signature_of(model).flops_per_row == 2 * 2 * 12
    open_length = keras.Sequential([layers.Input((None, 3)), layers.LSTM(2)])
    assert signature_of(open_length).flops_per_row is None


def test_frozen_weights_count_as_weights_only() -> None:
    model = net()
    model.layers[0].trainable = False
    signature = signature_of(model)
    assert (signature.parameters, signature.trainable_parameters) == (41, 9)


def reused_state(name: str) -> Any:
    return layers.LSTM(2, stateful=True, return_sequences=True, name=name)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: layers.BatchNormalization(name="it"), "coupled_layers"),
        (lambda: layers.TimeDistributed(layers.BatchNormalization(name="it")), "coupled_layers"),
        (lambda: reused_state("it"), "stateful_layers"),
        (lambda: layers.Bidirectional(reused_state("inner"), name="it"), "stateful_layers"),
        (lambda: layers.Dense(2, activity_regularizer="l2", name="it"), "row_losses"),
        (lambda: layers.ActivityRegularization(0.1, name="it"), "row_losses"),
    ],
)
def test_what_forbids_cutting_is_found_inside_wrappers_and_nested_models(make: Any, field: str) -> None:
    inner = keras.Sequential([layers.Input((5, 3), batch_size=4), make()], name="inner")
    outer = keras.Sequential([layers.Input((5, 3), batch_size=4), inner])
    plain = keras.Sequential([layers.Input((5, 3), batch_size=4), layers.Dense(2, kernel_regularizer="l2")])
    assert "it" in getattr(signature_of(outer), field)
    assert not getattr(signature_of(plain), field)


def test_fixed_batches_and_scalar_outputs_are_told() -> None:
    fixed = keras.Sequential([layers.Input((3,), batch_size=4), layers.Dense(1)])
    assert signature_of(fixed).fixed_batch == 4
    assert signature_of(net()).fixed_batch is None
    x = keras.Input((3,))
    scalar = keras.Model(x, {"mean": keras.ops.mean(x), "row": layers.Dense(1)(x)})
    assert signature_of(scalar).rank0_outputs == ("mean",)
