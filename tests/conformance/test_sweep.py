"""Rows by replicas by batch size: `fit`, `evaluate` and `predict` of every combination are those of the model alone.

Four members, of one to four replicas, train side by side, each with rows and a batch size of its own; in the end every
number of replicas has had every number of rows with every batch size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.conformance.trials import BAR
from tests.helpers import assert_same_arrays, rows
from tests.runtime.alone import compiled, fit_alone, set_state, state

REPLICAS = (1, 2, 3, 4)
MOST_ROWS, LARGEST_BATCH = 17, 8
ALL = [(n, batch) for n in range(1, MOST_ROWS + 1) for batch in range(1, LARGEST_BATCH + 1)]
DAILY = [
    (1, 1),
    (1, 8),
    (2, 3),
    (3, 8),
    (4, 3),
    (5, 4),
    (7, 8),
    (8, 8),
    (9, 8),
    (10, 4),
    (13, 8),
    (15, 7),
    (17, 4),
    (17, 8),
]

Results = tuple[list[np.ndarray], dict[str, list[float]], dict[str, float], np.ndarray]


def net() -> keras.Model:
    model = keras.Sequential(
        [layers.Input((3,)), layers.Dense(4, activation="tanh", kernel_regularizer="l2"), layers.Dense(1)]
    )
    return compiled(model, keras.optimizers.SGD(0.01, momentum=0.9), "mse", weighted_metrics=["mae"])


def weighted_rows(n: int) -> tuple[np.ndarray, ...]:
    return (*rows(n), np.linspace(0.5, 2.0, n).astype("float32"))


@dataclass
class Sweep:
    """The members, by their number of replicas, and the model alone; all start from one state."""

    models: dict[str, keras.Model] = field(default_factory=lambda: {f"x{count}": net() for count in REPLICAS})
    alone: keras.Model = field(default_factory=net)
    known: dict[tuple[int, int], Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = state(self.alone)
        members = ", ".join(f"m{name} {name}" for name in self.models)
        self.joint = composer.compile(
            f"parallel({members}) on gpus=4", models={f"m{name}": model for name, model in self.models.items()}
        )

    def together(self, combinations: list[tuple[int, int]]) -> list[Results]:
        """One joint `fit`, `evaluate` and `predict`, a combination a member."""
        names = list(self.joint.members)
        for model in self.models.values():
            set_state(model, self.start)
        data = {name: weighted_rows(n) for name, (n, _) in zip(names, combinations, strict=True)}
        sizes = {name: batch for name, (_, batch) in zip(names, combinations, strict=True)}
        history = self.joint.fit(data, batch_size=sizes, epochs=2, shuffle=False, verbose=0)
        evaluated = self.joint.evaluate(data, batch_size=sizes, verbose=0)
        predicted = self.joint.predict({name: x for name, (x, *_) in data.items()}, batch_size=sizes, verbose=0)
        return [
            (state(self.joint.members[name].model), history.members[name].history, evaluated[name], predicted[name])
            for name in names
        ]

    def by_itself(self, n: int, batch: int) -> Results:
        if (n, batch) not in self.known:
            set_state(self.alone, self.start)
            x, y, weights = weighted_rows(n)
            history = fit_alone(self.alone, (x, y, weights), batch_size=batch, epochs=2).history
            evaluated = self.alone.evaluate(x, y, batch, sample_weight=weights, verbose=0, return_dict=True)
            predicted = self.alone.predict(x, batch, verbose=0)
            self.known[n, batch] = (state(self.alone), history, evaluated, predicted)
        return self.known[n, batch]


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return Sweep()


def faults(sweep: Sweep, among: list[tuple[int, int]]) -> list[str]:
    """What differs from the model alone. All in one test: between two, seeds are set, and TensorFlow prepares all its
    programs anew."""
    found = []
    for index in range(len(among)):
        combinations = taken(among, index)
        for replicas, combination, got in zip(REPLICAS, combinations, sweep.together(combinations), strict=True):
            try:
                same(got, sweep.by_itself(*combination))
            except AssertionError as error:
                found.append("{} rows in batches of {} over {} replicas: {}".format(*combination, replicas, error))
    return found


def same(got: Results, want: Results) -> None:
    (weights, history, evaluated, predicted), (weights_alone, history_alone, evaluated_alone, predicted_alone) = (
        got,
        want,
    )
    assert_same_arrays(weights, weights_alone, BAR)
    assert_same_arrays([predicted], [predicted_alone], BAR)
    assert set(history) == set(history_alone)
    for key, values in history_alone.items():
        np.testing.assert_allclose(history[key], values, rtol=BAR, err_msg=key)
    assert evaluated == pytest.approx(evaluated_alone, rel=BAR)


def taken(among: list[tuple[int, int]], index: int) -> list[tuple[int, int]]:
    """A combination for each number of replicas, far apart in the list; over all indices each gets all of them."""
    return [among[(index + place * len(among) // len(REPLICAS)) % len(among)] for place in range(len(REPLICAS))]


def test_some_combinations_are_as_alone(sweep: Sweep) -> None:
    assert faults(sweep, DAILY) == []


@pytest.mark.slow
def test_all_combinations_are_as_alone(sweep: Sweep) -> None:
    assert faults(sweep, ALL) == []


@pytest.mark.parametrize("among", [DAILY, ALL])
def test_every_number_of_replicas_gets_every_combination(among: list[tuple[int, int]]) -> None:
    for place, _ in enumerate(REPLICAS):
        assert {taken(among, index)[place] for index in range(len(among))} == set(among)


@pytest.mark.parametrize("replicas", REPLICAS)
def test_no_rows_are_predicted_and_are_refused_to_train_and_evaluate(sweep: Sweep, replicas: int) -> None:
    name = f"mx{replicas}"
    x, y = rows(0)
    for batch in range(1, LARGEST_BATCH + 1):
        assert sweep.joint.predict({name: x}, batch_size=batch, verbose=0)[name].shape == (0, 1)
    data: dict[str, Any] = {other: rows(4) for other in sweep.joint.members}
    data[name] = (x, y)
    before = state(sweep.models[f"x{replicas}"])
    with pytest.raises(composer.DataError, match=f"`{name}` has no rows"):
        sweep.joint.fit(data, verbose=0)
    with pytest.raises(composer.DataError, match=f"`{name}` has no rows"):
        sweep.joint.evaluate(data, verbose=0)
    assert_same_arrays(state(sweep.models[f"x{replicas}"]), before, 0.0)
