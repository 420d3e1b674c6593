"""Moving the variables of a model to another device, in place."""

from __future__ import annotations

import keras
import tensorflow as tf

from composer.errors import GraphError
from composer.graph.private import replace_value


def device_of(variable: keras.Variable) -> str:
    """The device a variable lives on, e.g. `/device:CPU:1`."""
    spec = tf.DeviceSpec.from_string(variable.value.device)
    return f"/device:{spec.device_type}:{spec.device_index or 0}"


def move_variables(member: str, model: keras.Model, device: str) -> None:
    """Move all variables of a model, keeping their values and the model object itself.

    Args:
        member: named in the error.
        model: built; not trained yet under an optimizer, whose slots would go on pointing at the old variables.
        device: TensorFlow device name.

    Raises:
        GraphError: if the model's optimizer has slots already.
    """
    away = [variable for variable in model.variables if device_of(variable) != device]
    if not away:
        return
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        raise GraphError(
            f"cannot move the weights of `{member}` to {device}: its optimizer has state that belongs to the weights "
            f"where "
            "they are now. Leave `weights=` out, or call `compile` on the model again first"
        )
    for variable in away:
        old = variable.value
        with tf.device(device):
            replace_value(
                variable,
                tf.Variable(
                    tf.convert_to_tensor(old), trainable=old.trainable, name=old.name.split(":")[0], dtype=old.dtype
                ),
            )
    # Traced functions would go on using the old variables.
    model.train_function = model.test_function = model.predict_function = None
