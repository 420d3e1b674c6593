"""`steps_per_epoch`, `validation_steps` and `steps` by member: as many batches, the same rows, as its own `fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, assert_equal_bits, compiled, fit_alone, state
from tests.runtime.test_datasets import batches, sgd

pytestmark = [
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),  # Keras' own, of the models alone
    pytest.mark.filterwarnings("ignore:the rows of `.*` ran out in epoch"),
]


def endless() -> tf.data.Dataset:
    return batches(14, 4, shuffle=True).repeat()


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """Endless, too short, and in memory, each with its own number of steps."""
    return Fleet(
        {
            "endless": Alone(
                net(), endless, sgd, {"epochs": 3, "steps_per_epoch": 5, "validation_steps": 2}, validation=endless
            ),
            "short": Alone(net(), lambda: batches(22, 4), sgd, {"epochs": 5, "steps_per_epoch": 4}),
            "untold": Alone(
                net(),
                lambda: batches(19, 4, shuffle=True, known=False),
                sgd,
                {"epochs": 4, "steps_per_epoch": 3},
            ),
            "arrays": Alone(
                net(),
                lambda: rows(17),
                sgd,
                {"epochs": 4, "steps_per_epoch": 3, "validation_steps": 2},
                validation=lambda: rows(7),
            ),
            "sized": Alone(
                net(),
                lambda: rows(17),
                sgd,
                {"epochs": 4, "steps_per_epoch": 3, "batch_size": 4, "validation_steps": 1, "validation_batch_size": 3},
                validation=lambda: rows(7),
            ),
            "plain": Alone(net(), lambda: rows(9), sgd, {"epochs": 2, "batch_size": 4}),
        }
    )


@pytest.mark.parametrize("name", ["endless", "short", "untold", "arrays", "sized", "plain"])
def test_epochs_of_so_many_steps_train_as_alone(fleet: Fleet, name: str) -> None:
    fleet.assert_same(name, counters=name != "untold")


def test_rows_that_run_out_shorten_an_epoch(fleet: Fleet) -> None:
    steps = {name: int(model.optimizer.iterations) for name, model in fleet.models.items()}
    # 6 batches of `short`: 4, 2 and again; 5 of `untold`: 3, 2 and again; 17 rows of `sized` are 5 batches: 3, 2, 3, 2
    assert steps == {"endless": 15, "short": 4 + 2 + 4 + 2 + 4, "untold": 10, "arrays": 12, "sized": 10, "plain": 6}


def test_shuffled_arrays_are_taken_in_passes_over_all_rows() -> None:
    """Two epochs of half the batches are one pass: every row once, in the order of the epoch that takes all."""
    x = np.arange(12, dtype="float32")[:, None]
    seen: dict[str, list[float]] = {"half": [], "whole": []}

    def listening(name: str) -> keras.Model:
        class Listening(keras.layers.Layer):
            def call(self, inputs: Any) -> Any:
                def look(values: np.ndarray) -> np.ndarray:
                    seen[name].extend(values[:, 0].tolist())
                    return values

                return tf.ensure_shape(tf.numpy_function(look, [inputs], tf.float32), (None, 1))

        inputs = keras.Input((1,))
        return compiled(keras.Model(inputs, keras.layers.Dense(1)(Listening()(inputs))), "sgd", "mse")

    for name, arguments in (("half", {"epochs": 4, "steps_per_epoch": 2}), ("whole", {"epochs": 2})):
        joint = composer.compile("parallel(a)", a=listening(name))
        seen[name].clear()
        joint.fit({"a": (x, x)}, batch_size=3, verbose=0, **arguments)
    assert seen["half"] == seen["whole"]
    assert sorted(seen["half"][:12]) == x[:, 0].tolist() != seen["half"][:12]


def test_evaluate_and_predict_take_so_many_steps() -> None:
    models = {name: compiled(net(), "sgd", "mse") for name in ("endless", "arrays", "sized", "all")}
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    data: dict[str, Any] = {"endless": endless(), "arrays": rows(7), "sized": rows(7), "all": rows(5)}
    steps, batch = {"endless": 3, "arrays": 2, "sized": 2}, {"sized": 3}
    evaluated = joint.evaluate(data, steps=steps, batch_size=batch, verbose=0)
    inputs = {name: part[0] if isinstance(part, tuple) else endless() for name, part in data.items()}
    predicted = joint.predict(inputs, steps=steps, batch_size=batch, verbose=0)
    assert {name: len(value) for name, value in predicted.items()} == {"endless": 12, "arrays": 7, "sized": 6, "all": 5}
    for name, model in models.items():
        own = {"steps": steps.get(name), "batch_size": batch.get(name), "verbose": 0}
        x, y = (endless(), None) if name == "endless" else data[name]
        assert evaluated[name]["loss"] == pytest.approx(model.evaluate(x, y, **own), rel=1e-6)
        np.testing.assert_allclose(predicted[name], model.predict(inputs[name] if y is not None else endless(), **own))


def test_unknown_lengths_validate_at_unlike_frequencies_and_begin_at_unlike_epochs() -> None:
    """The longest comes late: neither its training nor its validation may be cut to what the others took before."""
    members = {
        "early": Alone(
            net(),
            lambda: batches(5, 2, known=False),
            sgd,
            {"epochs": 3, "validation_freq": 1},
            validation=lambda: batches(3, 2, known=False),
        ),
        "late": Alone(
            net(),
            lambda: batches(23, 2, known=False),
            sgd,
            {"initial_epoch": 1, "epochs": 4, "validation_freq": 2},
            validation=lambda: batches(11, 2, known=False),
        ),
    }
    fleet = Fleet(members)
    for name in members:
        fleet.assert_same(name, counters=False)
    assert int(fleet.models["late"].optimizer.iterations) == 3 * 12


# Said beforehand, or in time ---------------------------------------------------------------------------------------


def test_rows_that_run_out_are_told() -> None:
    joint = composer.compile("parallel(a, b)", models={name: compiled(net(), "sgd", "mse") for name in "ab"})
    told = r"the rows of `a` ran out in epoch 2 after 1 of 2 steps; the next epoch begins with them anew"
    with pytest.warns(composer.ComposerWarning, match=told):
        joint.fit({"a": batches(6, 2), "b": rows(4)}, steps_per_epoch={"a": 2}, epochs=2, verbose=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda joint: joint.fit({"a": endless()}, verbose=0), "`steps_per_epoch=n`"),
        (lambda joint: joint.fit({"a": rows(4)}, validation_data={"a": endless()}, verbose=0), "`validation_steps=n`"),
        (lambda joint: joint.evaluate({"a": endless()}, verbose=0), "`steps=n`"),
        (lambda joint: joint.predict({"a": endless()}, verbose=0), "`steps=n`"),
        (lambda joint: joint.predict({"a": rows(4)[0]}, steps=0, verbose=0), "`steps` of `a` must be .* at least 1"),
    ],
)
def test_rows_without_end_need_a_number_of_steps(call: Any, message: str) -> None:
    joint = composer.compile("parallel(a)", a=compiled(net(), "sgd", "mse"))
    with pytest.raises(composer.DataError, match=message):
        call(joint)


def test_whole_groups_make_the_steps_asked_for() -> None:
    """Of a grouped member a batch counts flat rows: 5 steps of 12 rows are 3 rows each, in groups of 2 four."""
    grouped, alone = net(), net()
    alone.set_weights(grouped.get_weights())
    for model in (grouped, alone):
        compiled(model, "sgd", "mse")
    joint = composer.compile("parallel(a group=2)", a=grouped)
    joint.fit({"a": rows(12)}, steps_per_epoch=5, shuffle=False, verbose=0)
    fit_alone(alone, rows(12), batch_size=4)
    assert int(grouped.optimizer.iterations) == 3
    assert_equal_bits(state(grouped), state(alone))
