"""A unit is what the engine steps: one member with the devices it runs on. The functions here run one step of one
unit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from composer.errors import GraphError
from composer.graph.layers import call_model, call_replica
from composer.graph.slicing import join_rows, num_rows, split_rows

Batch = Any  # x, (x,), (x, y) or (x, y, sample_weight), each a tensor or a structure of tensors
Step = Callable[[Batch], dict[str, Any]]


@dataclass(frozen=True)
class Unit:
    """One member as the engine sees it.

    Args:
        name: the member's name.
        model: what is stepped, with its own optimizer, loss and metrics: the user's own model, or a view of it where
            several members share it.
        devices: TensorFlow device names, one a replica.
        merge: the device on which replica outputs are joined and the loss is taken.
    """

    name: str
    model: keras.Model
    devices: tuple[str, ...]
    merge: str

    @property
    def home(self) -> str:
        """The device of everything that is done once for all replicas."""
        return self.devices[0] if len(self.devices) == 1 else self.merge


def train_step(unit: Unit) -> Step:
    """The member's own `train_step`, wholly on its device; of a replicated member, the split step."""
    return _placed(
        unit, unit.model.train_step if len(unit.devices) == 1 else lambda batch: _replicated_train_step(unit, batch)
    )


def gradient_step(unit: Unit) -> Step:
    """The member's `train_step` without the optimizer's part, for members that share weights.

    Returns `{"gradients": ..., "logs": ...}`: gradients of the member's scaled loss, by position of the weight among
    the trainable ones, as a string; weights that the loss does not depend on are left out.
    """

    def step(batch: Batch) -> dict[str, Any]:
        gradients, logs = _backward(unit, batch)
        dense = {str(i): tf.convert_to_tensor(part) for i, part in enumerate(gradients) if part is not None}
        return {"gradients": dense, "logs": logs}

    return _placed(unit, step)


def test_step(unit: Unit) -> Step:
    """The member's own `test_step`, wholly on its device; of a replicated member, the split step."""
    return _placed(
        unit, unit.model.test_step if len(unit.devices) == 1 else lambda batch: _replicated_test_step(unit, batch)
    )


def predict_step(unit: Unit) -> Callable[[Batch], Any]:
    """The member's own `predict_step`, wholly on its device; of a replicated member, the split forward pass."""
    if len(unit.devices) == 1:
        return _placed(unit, unit.model.predict_step)
    return _placed(
        unit, lambda batch: _forward(unit, keras.utils.unpack_x_y_sample_weight(batch)[0], training=False)[0]
    )


def _placed(unit: Unit, step: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    def run(batch: Batch) -> Any:
        with tf.device(unit.home), tf.name_scope(member_scope(unit.name)):
            return step(batch)

    return run


def member_scope(name: str) -> str:
    """The name scope of a member's operations, by which an error of one of them is told to be the member's."""
    return f"member.{name}"


@dataclass(frozen=True)
class _Replica:
    """One replica's forward pass as its backward pass needs it."""

    device: str
    tape: tf.GradientTape
    outputs: Any


def _forward(unit: Unit, x: Any, training: bool) -> tuple[Any, list[_Replica]]:
    """Every replica on its slice under a tape of its own; the joined outputs."""
    replicas: list[_Replica] = []
    for device, part in zip(unit.devices, split_rows(x, len(unit.devices)), strict=True):
        with tf.device(device), tf.GradientTape(watch_accessed_variables=training) as tape:
            if replicas:
                outputs = call_replica(unit.model, part, replicas[0].outputs, training)
            else:
                outputs = call_model(unit.model, part, training)
        replicas.append(_Replica(device, tape, outputs))
    with tf.device(unit.merge):
        return join_rows([replica.outputs for replica in replicas]), replicas


def _replicated_train_step(unit: Unit, batch: Batch) -> dict[str, Any]:
    """Keras' `train_step` with the forward and backward pass of each slice on its own device."""
    weights = unit.model.trainable_weights
    gradients, logs = _backward(unit, batch)
    if weights:
        unit.model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
    else:
        warnings.warn(f"`{unit.name}` has no trainable weights", UserWarning, stacklevel=2)
    return logs


def _backward(unit: Unit, batch: Batch) -> tuple[list[Any], dict[str, Any]]:
    """The gradient of the scaled loss with respect to each trainable weight (None: no part of it), and the logs."""
    model = unit.model
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)

    def scaled_loss(y_pred: Any) -> tuple[Any, Any]:
        loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
        return loss, model.optimizer.scale_loss(loss)

    if len(unit.devices) == 1:
        with tf.GradientTape() as tape:
            y_pred = call_model(unit.model, x, True)
            loss, scaled = scaled_loss(y_pred)
        gradients = tape.gradient(scaled, model.trainable_weights)
    else:
        y_pred, loss, gradients = _replicated_backward(unit, x, scaled_loss)
    _update_loss_tracker(model, loss, x)
    return gradients, model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def _replicated_backward(
    unit: Unit, x: Any, scaled_loss: Callable[[Any], tuple[Any, Any]]
) -> tuple[Any, Any, list[Any]]:
    """The outputs, the loss and the gradients of replicas.

    One loss over the joined outputs, so that it and its gradient are those of the whole batch, whatever the slices'
    sizes; one tape a replica, because the operations of a gradient go where `tape.gradient` is called.
    """
    y_pred, replicas = _forward(unit, x, training=True)
    _refuse_row_losses(unit)
    with tf.GradientTape() as head:
        head.watch(y_pred)
        loss, scaled = scaled_loss(y_pred)
    weights = unit.model.trainable_weights
    if not weights:
        return y_pred, loss, []
    from_outputs, from_weights = head.gradient(
        scaled, (y_pred, weights), unconnected_gradients=tf.UnconnectedGradients.NONE
    )
    parts = [from_weights, *_replica_gradients(replicas, from_outputs, weights)]
    return y_pred, loss, [_sum(part) for part in zip(*parts, strict=True)]


def _replicated_test_step(unit: Unit, batch: Batch) -> dict[str, Any]:
    model = unit.model
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    y_pred, _ = _forward(unit, x, training=False)
    loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
    _update_loss_tracker(model, loss, x)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def _refuse_row_losses(unit: Unit) -> None:
    """Refuse a model whose calls add losses: each replica would add one, and the sum would count them several times.

    Those of Keras' own layers are found when the spec is compiled; a layer of the user's own shows only once it is
    called.
    """
    regularized = sum(weight.regularizer is not None for weight in unit.model.trainable_variables)
    if len(unit.model.losses) > regularized:
        raise GraphError(
            f"`{unit.name}` has {len(unit.devices)} replicas, but a layer of its model adds a loss at every call, "
            "which replicas would count several times. Run it as one replica: "
            f"`{unit.name}` instead of `{unit.name} x{len(unit.devices)}`"
        )


def _update_loss_tracker(model: keras.Model, loss: Any, x: Any) -> None:
    rows = tf.shape(keras.tree.flatten(x)[0])[0]
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=rows)


def _replica_gradients(replicas: list[_Replica], from_outputs: Any, weights: list[Any]) -> list[list[Any]]:
    """What each replica adds to the gradient of the weights, taken on its device.

    Only outputs that a loss reads are followed: weights behind others have no gradient, as in Keras, and an optimizer
    leaves those alone; a gradient of zeros would let it decay them.
    """
    gradients = keras.tree.flatten(from_outputs)
    read = [index for index, gradient in enumerate(gradients) if gradient is not None]
    sizes = tf.stack([num_rows(replica.outputs) for replica in replicas])
    slices = [tf.split(gradients[index], sizes, axis=0) for index in read]
    parts = []
    for index, replica in enumerate(replicas):
        outputs = keras.tree.flatten(replica.outputs)
        with tf.device(replica.device):
            upstream = [pieces[index] for pieces in slices]
            parts.append(replica.tape.gradient([outputs[i] for i in read], weights, output_gradients=upstream))
    return parts if read else []


def _sum(gradients: tuple[Any, ...]) -> Any:
    """The sum of the replicas' gradients of one weight: rows of an embedding are put together, not made dense."""
    there = [gradient for gradient in gradients if gradient is not None]
    if len(there) <= 1:
        return there[0] if there else None
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in there):
        values = tf.concat([gradient.values for gradient in there], axis=0)
        indices = tf.concat([gradient.indices for gradient in there], axis=0)
        return tf.IndexedSlices(values, indices, there[0].dense_shape)
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in there])
