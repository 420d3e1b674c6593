"""Every optimizer, schedule, loss, metric, regularizer, constraint, initializer and dtype policy trains in company as
it does alone."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from tests.conformance.catalogue import KINDS
from tests.conformance.optimizers import UNBUILT, net, numbers
from tests.conformance.params import DAILY_EPOCHS, each_of
from tests.conformance.trials import Entry, Outcomes, Trial, gap, run

ENTRIES = {
    kind: list(KINDS[kind].entries())
    for kind in (
        "optimizers", "schedules", "losses", "metrics", "regularizers", "constraints", "initializers", "policies",
    )
}  # fmt: skip
OUTCOMES = Outcomes([entry for entries in ENTRIES.values() for entry in entries], DAILY_EPOCHS)


def check(entry: Entry) -> None:
    assert OUTCOMES[entry].passed, str(OUTCOMES[entry])


@each_of(ENTRIES["optimizers"])
def test_optimizers_train_as_alone(entry: Entry) -> None:
    check(entry)


@each_of(ENTRIES["schedules"])
def test_schedules_train_as_alone(entry: Entry) -> None:
    check(entry)


@each_of(ENTRIES["losses"])
def test_losses_train_as_alone(entry: Entry) -> None:
    check(entry)


@each_of(ENTRIES["metrics"])
def test_metrics_are_logged_as_alone(entry: Entry) -> None:
    check(entry)


@each_of([*ENTRIES["regularizers"], *ENTRIES["constraints"], *ENTRIES["initializers"]])
def test_what_layers_are_made_with_trains_as_alone(entry: Entry) -> None:
    check(entry)


@each_of(ENTRIES["policies"])
def test_dtype_policies_train_as_alone(entry: Entry) -> None:
    check(entry)


# What the other tests rely on ----------------------------------------------------------------------------------------


def test_half_floats_scale_their_loss() -> None:
    """Keras puts the scaling around the optimizer by itself; the entry has it in both trainings."""
    entry = next(entry for entry in ENTRIES["policies"] if entry.name == "mixed_float16")
    outcome = OUTCOMES[entry]
    for trained in (outcome.joint, outcome.alone):
        assert isinstance(trained.model.optimizer, keras.optimizers.LossScaleOptimizer)


def test_a_loss_scale_overflows_and_is_halved(tmp_path: Path) -> None:
    """Of six steps two overflow, each halves the scale, and two by two the others double it; alone it is the same.

    The entry is trained here by itself: its rows and its steps follow from its place among the entries beside it.
    """
    entry = next(entry for entry in ENTRIES["optimizers"] if entry.name == "LossScaleOptimizer")
    (outcome,) = run([entry], 2, tmp_path)
    assert outcome.passed, str(outcome)
    optimizer = outcome.joint.model.optimizer
    assert (float(optimizer.dynamic_scale), int(optimizer.inner_optimizer.iterations)) == (2.0**109, 4)


def test_an_entry_that_trains_otherwise_is_told_by_name(tmp_path: object) -> None:
    """A learning rate that is 0.1 % off shows, in the weights and in the history."""
    rates = iter([0.05, 0.05005])

    def settings() -> dict[str, object]:
        return {"optimizer": keras.optimizers.SGD(next(rates)), "loss": "mse"}

    entries = [
        Entry("optimizer", "off", Trial("off", net, numbers, settings)),
        Entry("optimizer", "right", Trial("right", net, numbers)),
    ]
    off, right = run(entries, 2, tmp_path)
    assert not off.passed
    assert 1e-5 < off.difference < 1e-2
    assert str(off).startswith("optimizer off: ")
    assert right.passed


def test_an_entry_that_fails_is_told_by_name(tmp_path: object) -> None:
    """Those beside it are compared all the same."""
    broken = Trial("broken", net, lambda n: (numbers(n)[0], np.zeros((n, 7))))
    entries = [Entry("loss", "right", Trial("right", net, numbers)), Entry("loss", "broken", broken)]
    right, wrong = run(entries, 1, tmp_path)
    assert right.passed
    assert not wrong.passed
    assert str(wrong).startswith("loss broken: in company: ")
    assert "alone: " in str(wrong)


@pytest.mark.parametrize(
    ("got", "want", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([np.inf, 2.5], [np.inf, 2.0], 0.25),
        ([np.inf, 2.0], [1.0, 2.0], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
        ([1, 2], [1, 3], np.inf),
    ],
)
def test_gaps_are_relative_and_tell_other_shapes_and_kinds(got: list, want: list, apart: float) -> None:
    assert gap(np.array(got), np.array(want), scale=2.0) == apart


@pytest.mark.parametrize("name", UNBUILT)
def test_optimizers_are_still_built_wrongly_within_a_traced_step(name: str) -> None:
    """Fails when Keras mends it: the entry then needs no `built` any more."""
    cls = getattr(keras.optimizers, name, None)
    if cls is None:
        pytest.skip(f"Keras {keras.__version__} has no {name}")
    models = []
    for built in (True, False):
        keras.utils.set_random_seed(0)
        model = net()
        model.compile(cls(), "mse")
        if built:
            model.optimizer.build(model.trainable_variables)
        model.fit(*numbers(4), verbose=0, shuffle=False)
        models.append(model)
    assert not np.allclose(models[0].get_weights()[0], models[1].get_weights()[0], atol=0.1)
