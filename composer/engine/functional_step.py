"""One step of a model as a pure function of its state: what is batched over the members of a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from composer.engine.functional_optimizers import Varying, functional_optimizer
from composer.graph.layers import call_model
from composer.graph.private import flatten_layers, unweighted_losses

State = list[tf.Tensor]  # a value for each variable


@dataclass(frozen=True)
class FunctionalStep:
    """The steps of one model, which stands for all models like it.

    A state holds a value for each of `variables`; nothing is read from the model's own, and nothing is written to them.

    Args:
        model: compiled, its metrics and optimizer built.
        optimizer: the model's, as `functional_optimizer` makes it; None where it is not to be trained.
        num_weights: how many of the variables are trainable weights; they come first.
        variables: weights, other states, metrics and the optimizer's, in this order; at last its settings that vary,
            which no step changes.
    """

    model: keras.Model
    optimizer: Any
    num_weights: int
    variables: tuple[keras.Variable, ...]

    @classmethod
    def of(cls, model: keras.Model, *, trains: bool = True, settings: Sequence[Varying] = ()) -> FunctionalStep:
        """The steps of a model; of one that is to be trained or evaluated metrics and optimizer are built.

        Args:
            model: whose.
            trains: whether it is to be trained.
            settings: of its optimizer, which are part of the state.
        """
        optimizer = functional_optimizer(model.optimizer, model.trainable_variables, settings) if trains else None
        variables = (*model_variables(model), *([] if optimizer is None else optimizer.state_variables))
        return cls(model, optimizer, len(model.trainable_variables), variables)

    def train(self, state: Sequence[tf.Tensor], batch: Any) -> State:
        """Keras' `train_step`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        weights = list(state[: self.num_weights])
        with self._scope(state) as scope:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                y_pred = call_model(self.model, x, True)
                loss = self._loss(x, y, y_pred, sample_weight, training=True)
                scaled = self.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, weights)
            self._count(loss, x)
            self.optimizer.apply(gradients, list(self.variables[: self.num_weights]))
            self.model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return self._after(scope, state)

    def test(self, state: Sequence[tf.Tensor], batch: Any) -> State:
        """Keras' `test_step`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        with self._scope(state) as scope:
            y_pred = call_model(self.model, x, False)
            loss = self._loss(x, y, y_pred, sample_weight, training=False)
            self._count(loss, x)
            self.model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return self._after(scope, state)

    def predict(self, state: Sequence[tf.Tensor], batch: Any) -> Any:
        """Keras' `predict_step`."""
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        with self._scope(state):
            return call_model(self.model, x, False)

    def logs(self, state: Sequence[tf.Tensor]) -> Mapping[str, Any]:
        """What the metrics have counted."""
        with self._scope(state):
            results: Mapping[str, Any] = self.model.get_metrics_result()
            return results

    def _scope(self, state: Sequence[tf.Tensor]) -> keras.StatelessScope:
        return keras.StatelessScope(list(zip(self.variables, state, strict=True)), collect_losses=True)

    def _loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, *, training: bool) -> Any:
        with unweighted_losses(self.model):
            return self.model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)

    def _count(self, loss: Any, x: Any) -> None:
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        for metric in self.model.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=rows)

    def _after(self, scope: keras.StatelessScope, state: Sequence[tf.Tensor]) -> State:
        changed = [scope.get_current_value(variable) for variable in self.variables]
        return [old if new is None else new for new, old in zip(changed, state, strict=True)]


@contextmanager
def unrolled(model: keras.Model) -> Iterator[None]:
    """Within it, recurrent layers of a model are traced step by step: XLA has no form of their loops once batched."""
    loops = [layer for layer in flatten_layers(model) if isinstance(layer, keras.layers.RNN) and not layer.unroll]
    for layer in loops:
        layer.unroll = True
    try:
        yield
    finally:
        for layer in loops:
            layer.unroll = False


def model_variables(model: keras.Model) -> list[keras.Variable]:
    """All of a model's variables but its optimizer's, in the order of a state."""
    return [*model.trainable_variables, *model.non_trainable_variables, *model.metrics_variables]
