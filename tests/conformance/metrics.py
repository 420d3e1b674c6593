"""Every metric of Keras, several in each training, half of them with a weight a row."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import keras

from tests.conformance.found import classes, required
from tests.conformance.losses import BEGINNINGS
from tests.conformance.tasks import BINARY, CLASSES, NUM_CLASSES, POSITIVE, REGRESSION, ROUNDED, SIGNS, Task
from tests.conformance.trials import Entry, Trial

REASONS = {"Metric": "the base class"}

TASKS = {
    "Accuracy": ROUNDED, "Poisson": POSITIVE, "MeanAbsolutePercentageError": POSITIVE,
    "MeanSquaredLogarithmicError": POSITIVE, "Hinge": SIGNS, "SquaredHinge": SIGNS,
    **dict.fromkeys(("F1Score", "FBetaScore", "KLDivergence", "TopKCategoricalAccuracy"), CLASSES),
    **dict.fromkeys(("OneHotIoU", "OneHotMeanIoU"), CLASSES),
    **dict.fromkeys(("IoU", "MeanIoU"), BEGINNINGS["Sparse"]),
    **dict.fromkeys(("AUC", "Precision", "PrecisionAtRecall", "Recall", "RecallAtPrecision"), BINARY),
    **dict.fromkeys(("SensitivityAtSpecificity", "SpecificityAtSensitivity"), BINARY),
    **dict.fromkeys(("FalseNegatives", "FalsePositives", "TrueNegatives", "TruePositives"), BINARY),
}  # fmt: skip

ARGUMENTS: dict[str, Any] = {
    "num_classes": NUM_CLASSES, "target_class_ids": [0, 2], "recall": 0.5, "precision": 0.5, "specificity": 0.5,
    "sensitivity": 0.5, "fn": keras.losses.log_cosh,
}  # fmt: skip
EXTRA: dict[str, dict[str, Any]] = {
    "IoU": {"sparse_y_pred": False},
    "MeanIoU": {"sparse_y_pred": False},
    "TopKCategoricalAccuracy": {"k": 2},
    "SparseTopKCategoricalAccuracy": {"k": 2},
}


def make(name: str, cls: type) -> keras.metrics.Metric:
    return cls(**required(cls, ARGUMENTS), **EXTRA.get(name, {}), name=name)


class Tracked(keras.Model):
    """A model that logs a metric of its predictions, which it holds itself."""

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        self.tracked.update_state(y_pred)
        return {**logs, self.tracked.name: self.tracked.result()}


def tracked(name: str, cls: type) -> keras.Model:
    x = keras.Input((4,))
    model = Tracked(x, keras.layers.Dense(2)(x))
    model.tracked = make(name, cls)
    return model


def entries() -> Iterator[Entry]:
    found = classes(keras.metrics, keras.metrics.Metric)
    by_task: dict[Task, list[str]] = {}
    for name, cls in found.items():
        if "values" in inspect.signature(cls.update_state).parameters:
            yield Entry(
                "metric",
                name,
                Trial(f"metric {name}", partial(tracked, name, cls), REGRESSION.rows, validated=True),
                name,
            )
        elif name not in REASONS:
            by_beginning = (task for beginning, task in BEGINNINGS.items() if name.startswith(beginning))
            by_task.setdefault(TASKS.get(name) or next(by_beginning, REGRESSION), []).append(name)
    for task, names in by_task.items():

        def settings(task: Task = task, names: list[str] = names) -> dict[str, Any]:
            made = {name: make(name, found[name]) for name in names}
            return {
                "optimizer": keras.optimizers.SGD(0.05),
                "loss": task.loss,
                "metrics": [made[name] for name in names[::2]],
                "weighted_metrics": [made[name] for name in names[1::2]],
            }

        trial = Trial(f"metrics {' '.join(names)}", task.model, task.weighted_rows, settings)
        daily = task in (BINARY, CLASSES)
        yield from (Entry("metric", name, trial, metric=name, daily=daily) for name in names)
