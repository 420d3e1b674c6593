"""What metrics count in, made before the first batch: Keras makes it at the first one, when a program is traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from composer.engine.feed import ArrayRows, Rows
from composer.engine.units import Unit
from composer.graph.private import random_states


def build_metrics(group: Sequence[Unit], rows: Mapping[str, Rows]) -> None:
    """Make what the metrics of members that are alike count in, where it is not there."""
    counted = None
    for unit in group:
        if counted is None or len(unit.model.metrics_variables) != counted:
            _build_model_metrics(unit.model, rows[unit.name])
        counted = len(unit.model.metrics_variables)


def _build_model_metrics(model: keras.Model, rows: Rows) -> None:
    assert isinstance(rows, ArrayRows)
    one_row = keras.tree.map_structure(lambda array: array[:1], rows.arrays)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(one_row)
    drawn = random_states(model)
    before = [np.array(state) for state in drawn]  # a recurrent cell draws even where it drops nothing
    with tf.device("/device:CPU:0"):
        y_pred = model(x, training=False)
        model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
    model.reset_metrics()
    for state, value in zip(drawn, before, strict=True):
        state.assign(value)
