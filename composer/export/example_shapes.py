"""Sizes for the open axes of example requests, found by tracing: nothing is run and no state changes."""

from __future__ import annotations

import tensorflow as tf

from composer.export.endpoints import Endpoint

SIZES = (8, 1, 32, 128, 256)
"""Tried in this order: convolutions without padding take no short axes, position embeddings no long ones."""


def example_shapes(endpoint: Endpoint) -> dict[str, tuple[int, ...]]:
    """The shape without the batch axis that an example request gives each input, by name.

    All open axes of a member get one size, since they often have to agree; the first that the model can be traced with.
    """
    for size in SIZES:
        shapes = {
            tensor.name: tuple(size if axis is None else axis for axis in tensor.spec.shape[1:])
            for tensor in endpoint.inputs
        }
        open_axes = any(axis is None for tensor in endpoint.inputs for axis in tensor.spec.shape[1:])
        if not open_axes or _traces(endpoint, shapes):
            return shapes
    return shapes


def _traces(endpoint: Endpoint, shapes: dict[str, tuple[int, ...]]) -> bool:
    specs = {
        tensor.name: tf.TensorSpec((*tensor.spec.shape[:1], *shapes[tensor.name]), tensor.spec.dtype, name=tensor.name)
        for tensor in endpoint.inputs
    }
    try:
        tf.function(endpoint, autograph=False).get_concrete_function(endpoint.pack(specs))
    except Exception:  # whatever a layer raises for a size that it cannot take
        return False
    return True
