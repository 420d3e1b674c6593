"""A sweep's members in order, and the best of them kept."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest

import composer
from composer.runtime.history import best_epoch, in_order, more_is_better
from tests.helpers import net, rows
from tests.runtime.alone import compiled


def test_the_best_epoch_and_the_order_of_values() -> None:
    assert best_epoch([3.0, 1.0, math.nan, 1.0], rising=False) == (1.0, 2)
    assert best_epoch([3.0, 1.0], rising=True) == (3.0, 1)
    assert best_epoch([], rising=True)[1] == best_epoch([math.nan], rising=False)[1] == 0
    values = [math.nan, 2.0, math.inf, -1.0]
    assert [str(value) for value in sorted(values, key=lambda v: in_order(v, rising=False))] == [
        "-1.0",
        "2.0",
        "inf",
        "nan",
    ]
    assert [str(value) for value in sorted(values, key=lambda v: in_order(v, rising=True))] == [
        "inf",
        "2.0",
        "-1.0",
        "nan",
    ]


@pytest.mark.parametrize(
    ("metric", "rising"), [("loss", False), ("val_loss", False), ("val_auc", True), ("mae", False)]
)
def test_whether_more_is_better_is_told_as_keras_tells_it(metric: str, rising: bool) -> None:
    model = compiled(net(), "sgd", "mse", metrics=["mae", keras.metrics.AUC(name="auc")])
    x, y = rows(8)
    model.fit(x, np.clip(y, 0, 1), verbose=0)
    assert more_is_better(metric, model) is rising


def test_the_history_ranks_members() -> None:
    models = {name: compiled(net(), keras.optimizers.SGD(rate), "mse") for name, rate in [("a", 1e-9), ("b", 0.1)]}
    joint = composer.compile("parallel(a, b)", models=models)
    data = rows(16)
    history = joint.fit({"a": data, "b": (data[0] * np.nan, data[1])}, epochs=2, verbose=0)
    assert [(name, epoch) for name, _, epoch in history.ranking("loss")] == [("a", 2), ("b", 0)]
    assert history.ranking("loss", ["a"])[0][1] == min(history.members["a"].history["loss"])
