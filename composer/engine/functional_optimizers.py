"""Keras' optimizers as pure functions: the rule of each, its assignments kept in a `keras.StatelessScope`.

On TensorFlow a Keras optimizer assigns to `tf.Variable`s by way of `tf.distribute` and refuses `stateless_apply`. A
functional optimizer has the same class, settings and variables, and assigns to Keras variables instead.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from composer.graph.private import BaseOptimizer


class _Functional:
    """What stands in for the TensorFlow side of an optimizer's class."""

    _var_key = BaseOptimizer._var_key
    assign = BaseOptimizer.assign
    assign_add = BaseOptimizer.assign_add
    assign_sub = BaseOptimizer.assign_sub
    _apply_weight_decay = BaseOptimizer._apply_weight_decay
    _overwrite_model_variables_with_average_value = BaseOptimizer._overwrite_model_variables_with_average_value

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars

    def _distributed_tf_update_step(self, _: Any, grads_and_vars: Any, learning_rate: Any) -> None:
        for (gradient, _), variable in zip(grads_and_vars, self._stepped, strict=True):
            self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]

    def _update(self, gradients: list[Any], variables: list[Any]) -> None:
        self._stepped = list(variables)
        gradients = self._clip_gradients(gradients)  # type: ignore[attr-defined]
        self._apply_weight_decay(variables)
        self._backend_update_step(gradients, variables, self.learning_rate)  # type: ignore[attr-defined]

    def _backend_apply_gradients(self, grads: list[Any], trainable_variables: list[Any]) -> None:
        """Keras' own steps; where it branches, both branches are taken and one is kept."""
        if self.gradient_accumulation_steps:  # type: ignore[attr-defined]
            self._accumulate(grads, trainable_variables)
        else:
            self._update(grads, trainable_variables)
        if self.use_ema:  # type: ignore[attr-defined]
            self._average()

    def _accumulate(self, grads: list[Any], variables: list[Any]) -> None:
        steps = self.gradient_accumulation_steps  # type: ignore[attr-defined]
        sums = [self._accumulated_gradients[self._get_variable_index(v)] for v in variables]  # type: ignore[attr-defined]
        totals = [tf.convert_to_tensor(g) + ops.convert_to_tensor(total) for g, total in zip(grads, sums, strict=True)]
        touched = [*self._trainable_variables, *self.variables]  # type: ignore[attr-defined]
        before = [ops.convert_to_tensor(variable) for variable in touched]
        complete = ops.equal((self._iterations + 1) % steps, 0)  # type: ignore[attr-defined]
        self._update([total / steps for total in totals], variables)
        for variable, old in zip(touched, before, strict=True):
            variable.assign(ops.where(complete, ops.convert_to_tensor(variable), old))
        for each, total in zip(sums, totals, strict=True):
            each.assign(ops.where(complete, ops.zeros_like(total), total))

    def _average(self) -> None:
        variables = self._trainable_variables  # type: ignore[attr-defined]
        self._update_model_variables_moving_average(variables)  # type: ignore[attr-defined]
        if self.ema_overwrite_frequency:  # type: ignore[attr-defined]
            due = ops.equal((self.iterations + 1) % self.ema_overwrite_frequency, 0)  # type: ignore[attr-defined]
            averages = self._model_variables_moving_average  # type: ignore[attr-defined]
            for variable, average in zip(variables, averages, strict=True):
                if average is not None:
                    variable.assign(ops.where(due, average, variable))


def functional_optimizer(optimizer: keras.optimizers.Optimizer, weights: list[keras.Variable]) -> Any:
    """An optimizer with the rule and the settings of another, to be used in a `keras.StatelessScope`.

    Args:
        optimizer: of one of Keras' own classes, built or not; it is left as it is.
        weights: those it is to step; its variables are in the order of the optimizer's own.
    """
    kind: Any = type(optimizer)
    functional = type(kind.__name__, (_Functional, kind), {}).from_config(optimizer.get_config())  # type: ignore[attr-defined]
    functional.build(weights)
    return functional
