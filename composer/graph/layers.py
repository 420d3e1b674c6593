"""The layers a joint graph is made of: group, split, placed replicas, merge, ungroup.

All are registered under the package `composer`, so files load in safe mode. Placement is a layer, since `tf.device`
around a symbolic call places variables but no operations: the scope has to be open while `call` runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from composer.graph.private import mask_of, set_mask
from composer.graph.slicing import join_rows, masks_of, no_rows_like, set_masks, split_rows

register = keras.saving.register_keras_serializable(package="composer")


def call_model(model: keras.Model, inputs: Any, training: bool | None) -> Any:
    """Call a model with `training` where its `call` takes it, as Keras' own `train_step` does."""
    if "training" in inspect.signature(model.call).parameters:
        return model(inputs, training=training)
    return model(inputs)


def call_replica(model: keras.Model, inputs: Any, first: Any, training: bool | None) -> Any:
    """One replica after the first: the model on its slice, or no rows in the shape of the first replica's output.

    An empty slice must never reach a layer: convolutions raise on it, a max-pool gradient aborts the process and batch
    normalization turns to NaN. The first slice is the longest, so it is empty only where the whole batch is.
    """
    rows = tf.shape(keras.tree.flatten(inputs)[0])[0]

    def with_masks() -> tuple[Any, list[Any]]:
        outputs = call_model(model, inputs, training)
        return outputs, masks_of(outputs)

    outputs, masks = tf.cond(rows > 0, with_masks, lambda: no_rows_like((first, masks_of(first))))
    set_masks(outputs, masks, like=first)  # a condition passes on tensors, not the masks on them
    return outputs


class MaskedLayer(keras.layers.Layer):
    """A layer whose `call` leaves the masks of its inputs on its outputs itself, each where it belongs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        """Nothing to add to what `call` did."""


@register
class BatchSplit(keras.layers.Layer):
    """Cuts a batch into contiguous slices whose sizes differ by at most one, larger first.

    Args:
        num_slices: how many; slices at the end are empty where there are fewer rows.

    Input shape: `(rows, ...)`, or a structure of such tensors.
    Output shape: a list of `num_slices` of them, `(slice, ...)`.

    Example:
        >>> [part.shape[0] for part in BatchSplit(4)(keras.ops.zeros((5, 3)))]
        [2, 1, 1, 1]
    """

    def __init__(self, num_slices: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_slices < 1:
            raise ValueError(f"`num_slices` must be at least 1. Received: num_slices={num_slices}")
        self.num_slices = num_slices
        self.supports_jit = False

    def call(self, inputs: Any) -> list[Any]:
        return split_rows(inputs, self.num_slices)

    def compute_output_spec(self, inputs: Any) -> list[Any]:
        def open_rows(leaf: Any) -> keras.KerasTensor:
            return keras.KerasTensor((None, *leaf.shape[1:]), dtype=leaf.dtype)

        return [keras.tree.map_structure(open_rows, inputs) for _ in range(self.num_slices)]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_slices": self.num_slices}


@register
class PlacedReplicas(keras.layers.Layer):
    """Calls one model once a device, each call on its own slice and with all of its operations on that device.

    The calls share one set of weights. With one device the input is the batch itself, else the list that `BatchSplit`
    gives.

    Args:
        model: the member's own model; neither copied nor renamed.
        devices: TensorFlow device names, one a replica.

    Example:
        >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        >>> PlacedReplicas(model, ["/device:CPU:0"])(keras.ops.zeros((5, 3))).shape
        TensorShape([5, 1])
    """

    def __init__(self, model: keras.Model, devices: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not devices:
            raise ValueError(f"`devices` must name at least one device. Received: devices={devices}")
        self.model = model
        self.devices = tuple(devices)
        self.supports_jit = False  # inside one XLA cluster device scopes would be ignored

    def build(self, *_: Any) -> None:
        # The model is built by its owner; a second build on reload would add state.
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if len(self.devices) == 1:
            with tf.device(self.devices[0]):
                return call_model(self.model, inputs, training)
        outputs: list[Any] = []
        for device, part in zip(self.devices, inputs, strict=True):
            with tf.device(device):
                if outputs:
                    outputs.append(call_replica(self.model, part, outputs[0], training))
                else:
                    outputs.append(call_model(self.model, part, training))
        return outputs

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        if len(self.devices) == 1:
            return self.model.compute_output_spec(inputs)
        return [self.model.compute_output_spec(part) for part in inputs]

    def get_config(self) -> dict[str, Any]:
        model = keras.saving.serialize_keras_object(self.model)
        return {**super().get_config(), "model": model, "devices": list(self.devices)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PlacedReplicas:
        config = dict(config)
        with tf.device(config["devices"][0]):
            config["model"] = keras.saving.deserialize_keras_object(config["model"])
        return cls(**config)


@register
class BatchMerge(MaskedLayer):
    """Joins the outputs of replicas in row order on one device.

    Args:
        device: TensorFlow device name.

    Input shape: a list of `(slice, ...)`, or of structures of such tensors.
    Output shape: `(rows, ...)`.
    """

    def __init__(self, device: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.device = device
        self.supports_jit = False

    def call(self, inputs: Any) -> Any:
        with tf.device(self.device):
            return join_rows(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.tree.map_structure(
            lambda leaf: keras.KerasTensor((None, *leaf.shape[1:]), dtype=leaf.dtype), inputs[0]
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "device": self.device}


@register
class BatchGroup(keras.layers.Layer):
    """Flattens groups into rows: `(batch, group, ...) -> (batch * group, ...)`, in order.

    Example:
        >>> BatchGroup()(keras.ops.zeros((3, 10, 2))).shape
        TensorShape([30, 2])
    """

    def call(self, inputs: Any) -> Any:
        def flatten(leaf: Any) -> Any:
            shape = tf.shape(leaf)
            rows = tf.reshape(leaf, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
            return tf.ensure_shape(rows, (None, *leaf.shape[2:]))

        return keras.tree.map_structure(flatten, inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.tree.map_structure(
            lambda leaf: keras.KerasTensor((None, *leaf.shape[2:]), dtype=leaf.dtype), inputs
        )


@register
class BatchUngroup(MaskedLayer):
    """Takes rows back to groups: `(batch * group, ...) -> (batch, group, ...)`.

    The grouped input is passed as well, since its shape says how many rows a group has, whatever the batch.

    Example:
        >>> BatchUngroup()(keras.ops.zeros((30, 1)), keras.ops.zeros((3, 10, 2))).shape
        TensorShape([3, 10, 1])
    """

    def call(self, inputs: Any, grouped: Any) -> Any:
        reference = keras.tree.flatten(grouped)[0]
        outer = tf.shape(reference)[:2]

        def restore(leaf: Any) -> Any:
            groups = tf.reshape(leaf, tf.concat([outer, tf.shape(leaf)[1:]], axis=0))
            groups = tf.ensure_shape(groups, (*reference.shape[:2], *leaf.shape[1:]))
            if mask_of(leaf) is not None:
                set_mask(groups, restore(mask_of(leaf)))
            return groups

        return keras.tree.map_structure(restore, inputs)

    def compute_output_spec(self, inputs: Any, grouped: Any) -> Any:
        outer = keras.tree.flatten(grouped)[0].shape[:2]
        return keras.tree.map_structure(
            lambda leaf: keras.KerasTensor((*outer, *leaf.shape[1:]), dtype=leaf.dtype), inputs
        )


@register
class BranchOutput(MaskedLayer):
    """The end of a branch: passes its input on under the member's own name."""

    def call(self, inputs: Any) -> Any:
        outputs = keras.tree.map_structure(tf.identity, inputs)
        set_masks(outputs, masks_of(inputs), like=inputs)
        return outputs

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.tree.map_structure(lambda leaf: keras.KerasTensor(leaf.shape, dtype=leaf.dtype), inputs)
