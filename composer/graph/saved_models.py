"""A SavedModel folder -> a functional `keras.Model` with the names of its serving signature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from composer.diagnostics.near import quoted_list

SERVING_SIGNATURE = "serving_default"


class SavedModelFault(Exception):  # noqa: N818 - never leaves `graph`: `load_model` adds the model's name
    """Why a SavedModel cannot serve as a model."""


@keras.saving.register_keras_serializable("composer")
class SavedModelLayer(keras.layers.TFSMLayer):
    """Calls one signature of a SavedModel. It computes only: nothing of it is trained.

    `keras.layers.TFSMLayer` hands its input over as one positional argument; a signature with several inputs takes
    them by name only.

    Args:
        filepath: the SavedModel folder.
        call_endpoint: the signature.

    Call arguments:
        inputs: a dict of tensors by the signature's input names.

    Output:
        A dict of tensors by the signature's output names.
    """

    def __init__(self, filepath: str, call_endpoint: str = SERVING_SIGNATURE, **kwargs: Any) -> None:
        super().__init__(filepath, call_endpoint=call_endpoint, **{**kwargs, "trainable": False})
        self.call_endpoint_fn = self._reloaded_obj.signatures[call_endpoint]  # `serve` is a function and a signature

    def call(self, inputs: dict[str, Any], training: bool = False) -> dict[str, Any]:
        outputs: dict[str, Any] = self.call_endpoint_fn(**inputs)
        return outputs


def is_saved_model(path: Path) -> bool:
    """Whether a folder holds a SavedModel."""
    return (path / "saved_model.pb").is_file() or (path / "saved_model.pbtxt").is_file()


def is_servable_only(model: keras.Model) -> bool:
    """Whether a model came from a SavedModel folder: it can predict and be exported, not trained or saved as "
    "`.keras`."""
    return any(
        isinstance(layer, SavedModelLayer) or (isinstance(layer, keras.Model) and is_servable_only(layer))
        for layer in model.layers
    )


def load_saved_model(path: Path) -> keras.Model:
    """Makes a functional model around the serving signature of a SavedModel.

    A signature with one input becomes a model that takes a tensor, one with several a model that takes a dict; outputs
    likewise.

    Args:
        path: the SavedModel folder.

    Returns:
        The model; `is_servable_only` is true of it.

    Raises:
        SavedModelFault: it cannot be read, has no signature to call, or an input has no known rank.
    """
    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:  # TensorFlow raises OSError, ValueError, its own errors and more
        raise SavedModelFault(
            f"TensorFlow {tf.__version__} cannot load it: {' '.join(str(error).split())[:300]}"
        ) from error
    endpoint = _endpoint(list(loaded.signatures))
    signature = loaded.signatures[endpoint]
    inputs = {name: _input(name, spec) for name, spec in signature.structured_input_signature[1].items()}
    if not inputs:
        raise SavedModelFault(f"its signature `{endpoint}` takes no inputs")
    outputs = SavedModelLayer(str(path), endpoint)(inputs)
    return keras.Model(_single(inputs), _named(outputs, taken=set(inputs)))


def _endpoint(signatures: list[str]) -> str:
    if SERVING_SIGNATURE in signatures:
        return SERVING_SIGNATURE
    if len(signatures) == 1:
        return signatures[0]
    if not signatures:
        raise SavedModelFault("it has no signatures. Export it anew with `model.export`")
    raise SavedModelFault(
        f"it has no signature `{SERVING_SIGNATURE}`, and which of {quoted_list(signatures)} to take is not said"
    )


def _input(name: str, spec: tf.TensorSpec) -> Any:
    if spec.shape.rank is None:
        raise SavedModelFault(f"the rank of its input `{name}` is not known")
    if spec.shape.rank == 0:
        raise SavedModelFault(f"its input `{name}` is a single value without a batch axis")
    return keras.Input(batch_shape=tuple(spec.shape), dtype=spec.dtype.name, name=name)


def _single(tensors: dict[str, Any]) -> Any:
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def _named(outputs: dict[str, Any], taken: set[str]) -> Any:
    """The outputs behind layers of their own names, where Keras takes these as layer names and no input has one of "
    "them."""
    if not taken & set(outputs) and not any("/" in name for name in outputs):
        outputs = {name: keras.layers.Identity(name=name)(tensor) for name, tensor in outputs.items()}
        return _single(outputs)
    return outputs
