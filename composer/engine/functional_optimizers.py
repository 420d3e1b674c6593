"""Keras' optimizers as pure functions: the rule of each, its assignments kept in a `keras.StatelessScope`.

On TensorFlow a Keras optimizer assigns to `tf.Variable`s by way of `tf.distribute` and refuses `stateless_apply`. A
functional optimizer has the same class, settings and variables, and assigns to Keras variables instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
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
        totals = [tf.convert_to_tensor(g) + total.value for g, total in zip(grads, sums, strict=True)]
        touched = [*self._trainable_variables, *self.variables]  # type: ignore[attr-defined]
        before = [variable.value for variable in touched]  # Keras takes a variable for a tensor: it would be read later
        complete = ops.equal((self._iterations + 1) % steps, 0)  # type: ignore[attr-defined]
        self._update([total / steps for total in totals], variables)
        for variable, old in zip(touched, before, strict=True):
            variable.assign(ops.where(complete, variable.value, old))
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


class Varying(NamedTuple):
    """A number of an optimizer's configuration that differs from member to member.

    Args:
        name: of the setting.
        dtype: of the variable that it becomes.
    """

    name: str
    dtype: str


class _Setting(keras.Variable):
    """A setting as a variable; 0 of none or of all members.

    Keras' rules ask in Python whether a setting is there (`if self.momentum != 0`, `if self.clipnorm and ...`), and
    compute `1 - self.beta_2` in Python's own precision, which is why these are float64 where a rule can take that.
    """

    def __bool__(self) -> bool:
        return True

    def __ne__(self, other: object) -> Any:
        return True if isinstance(other, (int, float)) and other == 0 else super().__ne__(other)

    def __gt__(self, other: Any) -> Any:
        return True if isinstance(other, (int, float)) and other == 0 else super().__gt__(other)

    __hash__ = keras.Variable.__hash__


def functional_optimizer(
    optimizer: keras.optimizers.Optimizer, weights: list[keras.Variable], settings: Sequence[Varying] = ()
) -> Any:
    """An optimizer with the rule and the settings of another, to be used in a `keras.StatelessScope`.

    Args:
        optimizer: of one of Keras' own classes, built or not; it is left as it is.
        weights: those it is to step.
        settings: numbers in its configuration that become variables.

    Returns:
        The optimizer; its `state_variables` are those of `optimizer`, in their order, and the settings.
    """
    kind: Any = type(optimizer)
    functional = type(kind.__name__, (_Functional, kind), {}).from_config(optimizer.get_config())  # type: ignore[attr-defined]
    functional.build(weights)
    own = list(functional.variables)
    variables = [_Setting(getattr(functional, each.name), trainable=False, dtype=each.dtype) for each in settings]
    for each, variable in zip(settings, variables, strict=True):
        setattr(functional, each.name, variable)
    functional.state_variables = [*own, *variables]
    return functional


def varying(optimizer: keras.optimizers.Optimizer, name: str) -> Varying | None:
    """A setting of an optimizer as one that is not known when its rule is traced; None where the rule wants to know."""
    settings = (Varying(name, dtype) for dtype in ("float64", "float32"))
    return next((setting for setting in settings if _works(optimizer, setting)), None)


def _works(optimizer: keras.optimizers.Optimizer, setting: Varying) -> bool:
    weight = keras.Variable(np.ones((2, 2), "float32"))
    functional = functional_optimizer(optimizer, [weight], [setting])
    variables = [weight, *functional.state_variables]

    def step(values: list[tf.Tensor]) -> tf.Tensor:
        with keras.StatelessScope(list(zip(variables, values, strict=True))) as scope:
            functional.apply([tf.ones((2, 2))], [weight])
        return scope.get_current_value(weight)

    specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    try:
        tf.function(step, autograph=False).get_concrete_function(specs)
    except Exception:  # whatever Keras and TensorFlow say of a number that they want to know
        return False
    return True
