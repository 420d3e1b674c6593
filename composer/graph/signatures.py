"""`signature_of`: what planning needs to know of a Keras model, read from the model itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from composer.catalog import ModelSignature, TensorSignature
from composer.catalog_files.model_config import signature_of_config
from composer.graph.private import flatten_layers, graph_calls, layer_name

COUPLED_LAYERS = (keras.layers.BatchNormalization,)
RECURRENT_LAYERS = (keras.layers.RNN, keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D)


def leaf_layers(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """All layers below a model that are not models themselves, each once, wrapped ones included."""
    return (layer for layer in flatten_layers(model) if not isinstance(layer, keras.Model))


def input_structure(model: keras.Model) -> Any:
    """The model's inputs in its own structure, as symbolic tensors; None where a model has never been built."""
    inputs = _functional_end(model, "input")
    return _built_inputs(model) if inputs is None else inputs


def output_structure(model: keras.Model) -> Any:
    """The model's outputs in its own structure, as symbolic tensors."""
    outputs = _functional_end(model, "output")
    return model.compute_output_spec(input_structure(model)) if outputs is None else outputs


def own_names(structure: Any, default: str) -> list[str]:
    """The model's names for its symbolic inputs or outputs, in flat order: the keys of a dict, else the layers they
    come from.

    A symbolic tensor's own name will not do where the user gave none: it is another one in every process.

    Args:
        structure: what `input_structure` or `output_structure` gives.
        default: what a nameless leaf is called, `input` or `output`.
    """
    origins = [layer_name(leaf) for leaf in keras.tree.flatten(structure)]
    names = [origin for origin in origins if origin is not None]
    return leaf_names(structure, default) if isinstance(structure, dict) or len(names) < len(origins) else names


def leaf_names(structure: Any, default: str) -> list[str]:
    """Names for the leaves of a structure: keys and positions on the way, joined by underscores.

    Example:
        >>> leaf_names({"a": 1, "b": [2, 3]}, "output"), leaf_names([1, 2], "output"), leaf_names(1, "output")
        (['a', 'b_0', 'b_1'], ['output_0', 'output_1'], ['output'])
    """
    names = []
    for path, _ in keras.tree.flatten_with_path(structure):
        parts = [str(part) for part in path]
        names.append("_".join([default, *parts] if not parts or parts[0].isdecimal() else parts))
    return names


def signature_of(model: keras.Model) -> ModelSignature:
    """The signature of a built Keras model.

    Args:
        model: Sequential, functional or subclassed; a subclassed one must have been built.

    Returns:
        Its inputs and outputs in the model's order and under its own names, its sizes, and what forbids splitting it.

    Raises:
        ValueError: if the model has not been built, so that its shapes are not known.
    """
    inputs = input_structure(model)
    if inputs is None:
        raise ValueError("the model has never been built, so its input shapes are not known")
    outputs = output_structure(model)
    input_leaves, output_leaves = keras.tree.flatten(inputs), keras.tree.flatten(outputs)
    input_names, output_names = own_names(inputs, "input"), own_names(outputs, "output")
    layers, calls = list(leaf_layers(model)), graph_calls(model)
    told = _told_by_config(model)
    flops, activations = (None, None) if told is None else (told.flops_per_row, told.activation_bytes_per_row)
    fixed = [leaf.shape[0] for leaf in input_leaves if leaf.shape and leaf.shape[0] is not None]
    return ModelSignature(
        inputs=_tensors(input_names, input_leaves),
        outputs=_tensors(output_names, output_leaves),
        parameters=model.count_params(),
        trainable_parameters=sum(math.prod(weight.shape) for weight in model.trainable_weights),
        weight_bytes=sum(math.prod(weight.shape) * _bytes(weight.dtype) for weight in model.weights),
        flops_per_row=_flops(layers, calls) if flops is None else flops,
        activation_bytes_per_row=_activation_bytes(layers, calls) if activations is None else activations,
        fixed_batch=fixed[0] if fixed else None,
        stateful_layers=tuple(layer.name for layer in layers if getattr(layer, "stateful", False)),
        coupled_layers=tuple(layer.name for layer in layers if isinstance(layer, COUPLED_LAYERS)),
        row_losses=tuple(layer.name for layer in layers if _adds_loss(layer)),
        rank0_outputs=tuple(
            name
            for name, leaf in zip(output_names, output_leaves, strict=True)
            if leaf.shape is not None and not leaf.shape
        ),
    )


def _told_by_config(model: keras.Model) -> ModelSignature | None:
    """What a file of the model would tell: its work is counted by the same rules, so that a plan made from the file is
    that of the model loaded from it. Layers that no rule knows leave it open, and the model itself is counted."""
    if type(model).__module__.partition(".")[0] != "keras":
        return None
    try:
        entry = {"module": "keras", "class_name": type(model).__name__, "config": model.get_config()}
        return signature_of_config(json.loads(json.dumps(entry)))
    except Exception:  # a layer of the user's own may not say how it was made, or not in terms of JSON
        return None


def _functional_end(model: keras.Model, end: str) -> Any:
    """The `input` or `output` structure of a functional or Sequential model; None of a subclassed or unbuilt one."""
    if isinstance(model, keras.Sequential):
        structure = getattr(model, f"{end}s") if model.built else None
    else:
        try:
            structure = getattr(model, end)
        except AttributeError:
            return None
    return structure[0] if isinstance(structure, (list, tuple)) and len(structure) == 1 else structure


def _built_inputs(model: keras.Model) -> Any:
    """Symbolic inputs of a subclassed model in the structure and shapes it was built with; None where that is not
    known."""
    config = model.get_build_config() or {}
    shapes = config.get("input_shape")
    if shapes is None:
        return None
    return keras.tree.map_shape_structure(
        lambda shape: keras.KerasTensor((None, *shape[1:]), dtype=model.input_dtype), shapes
    )


def _tensors(names: list[str], leaves: list[Any]) -> tuple[TensorSignature, ...]:
    return tuple(
        TensorSignature(
            name, None if leaf.shape is None else tuple(leaf.shape), keras.backend.standardize_dtype(leaf.dtype)
        )
        for name, leaf in zip(names, leaves, strict=True)
    )


def _bytes(dtype: str) -> int:
    if dtype in ("bool", "int8", "uint8"):
        return 1
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) // 8 if digits else 8


def _adds_loss(layer: keras.layers.Layer) -> bool:
    """Whether a layer adds a loss for each call; weight regularizers do not, they are counted once whatever the
    split."""
    return getattr(layer, "activity_regularizer", None) is not None or isinstance(
        layer, keras.layers.ActivityRegularization
    )


Calls = Mapping[int, Sequence[tuple[Sequence[Any], Sequence[Any]]]]
"""The symbolic inputs and outputs of each call of a layer, by its `id`."""


def _output_shapes(layer: keras.layers.Layer, calls: Calls) -> list[tuple[int | None, ...]]:
    """The output shapes of every symbolic call of a layer; empty where it was never called symbolically."""
    leaves = (leaf for _, outputs in calls.get(id(layer), ()) for leaf in outputs)
    return [tuple(leaf.shape) for leaf in leaves if leaf.shape is not None]


def _flops(layers: list[keras.layers.Layer], calls: Calls) -> int | None:
    """Multiply-adds of every kernel at every position, counted as two. None where a shape is open."""
    total = 0
    # A called layer stands for those inside it (cells, wrapped layers): they work where it is called.
    inside = {id(part) for layer in layers if id(layer) in calls for part in flatten_layers(layer)}
    for layer in layers:
        if id(layer) in inside:
            continue
        kernels = [weight for weight in layer.weights if len(weight.shape) >= 2]
        if not kernels or isinstance(layer, keras.layers.Embedding):
            continue
        positions = _positions(layer, calls)
        if positions is None:
            return None
        total += 2 * positions * sum(math.prod(kernel.shape) for kernel in kernels)
    return total


def _positions(layer: keras.layers.Layer, calls: Calls) -> int | None:
    """How often a layer applies its kernels to one row: time steps of a recurrent layer, pixels of a convolution's
    output."""
    if isinstance(layer, (*RECURRENT_LAYERS, keras.layers.Bidirectional)):
        counts = [inputs[0].shape[1] for inputs, _ in calls.get(id(layer), ())]
    else:
        channels_first = getattr(layer, "data_format", None) == "channels_first"
        inner = [shape[2:] if channels_first else shape[1:-1] for shape in _output_shapes(layer, calls)]
        if any(None in shape for shape in inner):
            return None
        counts = [math.prod(shape) for shape in inner]
    if None in counts:
        return None
    return sum(counts) if counts else 1


def _activation_bytes(layers: list[keras.layers.Layer], calls: Calls) -> int | None:
    """Bytes of the outputs of all layers for one row. None where a shape is open."""
    total = 0
    for layer in layers:
        for shape in _output_shapes(layer, calls):
            sizes = [size for size in shape[1:] if size is not None]
            if len(sizes) < len(shape) - 1:
                return None
            total += math.prod(sizes) * _bytes(layer.compute_dtype)
    return total
