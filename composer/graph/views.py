"""A model that several members share has one loss and one set of metrics; a view gives each member its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from composer.graph.layers import call_model
from composer.graph.private import compile_settings

OWN_STEPS = ("train_step", "test_step", "compute_loss", "compute_metrics")
"""What a view cannot take over from a model's class: these read the model's own loss and metrics."""


def overrides(model: keras.Model, method: str) -> bool:
    """Whether a model's class replaces one of Keras' own methods, such as `train_step`."""
    return getattr(type(model), method) is not getattr(keras.Model, method)


@dataclass(frozen=True)
class _Compiled:
    """What a fresh `compile` of a model replaces. No type that Keras tracks in attributes."""

    optimizer: Any
    loss_tracker: Any

    @classmethod
    def of(cls, model: keras.Model) -> _Compiled | None:
        return cls(model.optimizer, model.metrics[0]) if model.compiled else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Compiled):
            return NotImplemented
        return self.optimizer is other.optimizer and self.loss_tracker is other.loss_tracker

    __hash__ = None  # type: ignore[assignment]


class ModelView(keras.Model):
    """Computes what another model computes, with its variables, and is compiled by itself.

    It is stepped in place of the model and never saved.

    Args:
        model: a built model whose class has no steps of its own.

    Raises:
        ValueError: for a class that has one of `OWN_STEPS`.

    Example:
        >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        >>> view = ModelView(model)
        >>> view.compile("sgd", "mse")
        >>> model.compiled, view.trainable_variables == model.trainable_variables
        (False, True)
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name=model.name, dtype=model.dtype_policy, autocast=False)  # the model casts its own inputs
        own = [method for method in OWN_STEPS if overrides(model, method)]
        if own:
            raise ValueError(f"{type(model).__name__} has its own {', '.join(own)}, which a view would leave out")
        self.viewed = model
        if hasattr(model, "output_names"):
            self.output_names = list(model.output_names)  # the keys of losses and metrics by output
        self.built = True
        self._followed: _Compiled | None = None

    def follow(self) -> None:
        """Be compiled as the viewed model is, with metrics of its own, if that was compiled anew since."""
        now = _Compiled.of(self.viewed)
        if now is not None and now != self._followed:
            self.compile(**_with_own_metrics(compile_settings(self.viewed)), auto_scale_loss=False)
            self._followed = now

    def lead(self) -> None:
        """Compile the viewed model as this view is, so that it holds the optimizer and can go on alone."""
        self.viewed.compile(**_with_own_metrics(compile_settings(self)), auto_scale_loss=False)

    def keep(self) -> None:
        """Take the viewed model's settings as known, so that this view keeps its own."""
        self._followed = _Compiled.of(self.viewed)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return call_model(self.viewed, inputs, training)

    def predict_step(self, data: Any) -> Any:
        return self.viewed.predict_step(data)


def _with_own_metrics(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `compile` for another model: the state of a metric object belongs to one."""

    def own(metric: Any) -> Any:
        return type(metric).from_config(metric.get_config()) if isinstance(metric, keras.metrics.Metric) else metric

    metrics = ("metrics", "weighted_metrics")
    return {**settings, **{key: keras.tree.map_structure(own, settings.get(key)) for key in metrics}}
