"""Every loss of Keras, on targets of its kind and with a weight a row."""

from __future__ import annotations

from collections.abc import Iterator

import keras

from tests.conformance.found import classes
from tests.conformance.tasks import (
    BINARY,
    CLASSES,
    DIRECTIONS,
    LABELS,
    MAPS,
    POSITIVE,
    REGRESSION,
    SEQUENCES,
    SIGNS,
    Task,
)
from tests.conformance.trials import Entry, Trial

REASONS = {"Loss": "the base class"}

TASKS = {
    "CTC": SEQUENCES, "Circle": DIRECTIONS, "Dice": MAPS, "Tversky": MAPS, "KLDivergence": CLASSES,
    "CategoricalGeneralizedCrossEntropy": LABELS,
    "MeanSquaredLogarithmicError": POSITIVE, "MeanAbsolutePercentageError": POSITIVE, "Poisson": POSITIVE,
    "Hinge": SIGNS, "SquaredHinge": SIGNS,
}  # fmt: skip
DAILY = {"BinaryCrossentropy", "CTC", "CategoricalCrossentropy", "Circle", "Dice", "Huber"}
"""One of each kind of targets; the rest differ from them in a formula."""

BEGINNINGS = {"Binary": BINARY, "Categorical": CLASSES, "Sparse": LABELS}


def task_of(name: str) -> Task:
    """The targets that a loss is for: from the table, from how its name begins, else numbers."""
    by_beginning = (task for beginning, task in BEGINNINGS.items() if name.startswith(beginning))
    return TASKS.get(name) or next(by_beginning, REGRESSION)


def entries() -> Iterator[Entry]:
    for name, cls in classes(keras.losses, keras.losses.Loss).items():
        if name not in REASONS:
            task = task_of(name)
            trial = Trial(
                f"loss {name}",
                task.model,
                task.rows if name in ("Circle", "Dice", "Tversky") else task.weighted_rows,
                lambda cls=cls: {"optimizer": keras.optimizers.SGD(0.05), "loss": cls()},
            )
            yield Entry("loss", name, trial, daily=name in DAILY)
