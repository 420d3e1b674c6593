"""Every private name of Keras that composer needs, each because no public one does the work.

`tests/graph/test_private.py` uses each of them as the code does, and so tells when a new version moves one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf


def flatten_layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """All layers below a model, each once, those inside wrappers and nested models included."""
    return list(model._flatten_layers(include_self=False, recursive=True))


def symbolic_calls(layer: keras.layers.Layer) -> Iterator[tuple[list[Any], list[Any]]]:
    """The symbolic inputs and outputs of each call of a layer in a functional graph."""
    for node in layer._inbound_nodes:
        yield node.input_tensors, node.output_tensors


def layer_name(tensor: Any) -> str | None:
    """The name of the layer that a symbolic tensor comes from; None of one that stands alone."""
    history = getattr(tensor, "_keras_history", None)
    return None if history is None else str(history.operation.name)


def replace_value(variable: keras.Variable, value: tf.Variable) -> None:
    """Let a Keras variable stand for another TensorFlow variable: the only way to move one to another device."""
    variable._value = value


def mask_of(tensor: Any) -> Any:
    """The mask a layer left on its output: the steps of a sequence that count in a loss. None where all of them do."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor: Any, mask: Any) -> None:
    """Leave a mask on a tensor, for the loss and the metrics to read."""
    tensor._keras_mask = mask


def resumed_epoch(model: keras.Model) -> int:
    """The epoch that `BackupAndRestore` has told a model to go on at; 0 where none."""
    return model._initial_epoch or 0
