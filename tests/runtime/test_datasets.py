"""Rows from a `tf.data.Dataset`: of any length, known or not, in the order of the member's own `fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, compiled


def batches(num_rows: int, batch: int, *, shuffle: bool = False, known: bool = True, weights: bool = False) -> Any:
    """A dataset of batches of `(x, y)` or `(x, y, sample_weight)`; of a length it can tell, or not."""
    x, y = rows(num_rows)
    parts = (x, y, np.abs(x[:, 0])) if weights else (x, y)
    dataset = tf.data.Dataset.from_tensor_slices(parts)
    if shuffle:
        dataset = dataset.shuffle(num_rows, seed=3)
    if not known:
        dataset = dataset.filter(lambda x, *_: tf.reduce_sum(x) > -1e6)
    return dataset.batch(batch)


def one_by_one() -> tf.data.Dataset:
    """Batches of unlike sizes out of a generator."""

    def generate() -> Any:
        for size in (2, 5, 1):
            yield rows(size)

    signature = (tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((None, 1), tf.float32))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def sgd() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.SGD(0.05, momentum=0.9), "loss": "mse"}


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(
        {
            "known": Alone(
                net(),
                lambda: batches(22, 5, shuffle=True),
                sgd,
                {"epochs": 3},
                validation=lambda: batches(9, 4, shuffle=True),
            ),
            "unknown": Alone(
                net(),
                lambda: batches(23, 4, shuffle=True, known=False),
                sgd,
                {"epochs": 4},
                validation=lambda: batches(5, 2, known=False),
            ),
            "generated": Alone(net(), one_by_one, sgd, {"epochs": 2}),
            "weighted": Alone(net(), lambda: batches(14, 3, weights=True), sgd, {"epochs": 1}),
            "arrays": Alone(net(), lambda: rows(17), sgd, {"epochs": 5, "batch_size": 2}),
        }
    )


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own, of the models alone
@pytest.mark.parametrize("name", ["known", "unknown", "generated", "weighted", "arrays"])
def test_datasets_train_as_alone(fleet: Fleet, name: str) -> None:
    """Of known and unknown length, shuffling anew each epoch, beside arrays, with validation of either kind.

    Where a length is not known, Keras' own `fit` finds the end by a step that fails, and that step advances the
    optimizer's counter (not the weights). The joint program does not.
    """
    fleet.assert_same(name, counters=name not in ("unknown", "generated"))


def test_every_batch_of_every_member_is_one_step(fleet: Fleet) -> None:
    steps = {name: int(model.optimizer.iterations) for name, model in fleet.models.items()}
    assert steps == {"known": 3 * 5, "unknown": 4 * 6, "generated": 2 * 3, "weighted": 5, "arrays": 5 * 9}


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_class_weights_of_a_dataset_weigh_as_alone() -> None:
    x, labels = rows(12)[0], np.arange(12) % 3

    def classified() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((x, labels)).batch(5)

    member = Alone(
        net(3, 3),
        classified,
        lambda: {
            "optimizer": "sgd",
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "weighted_metrics": ["accuracy"],
        },
        {"epochs": 2, "class_weight": {0: 1.0, 1: 5.0, 2: 0.1}},
    )
    Fleet({"a": member}).assert_same("a")


def test_datasets_predict_and_evaluate_to_their_end() -> None:
    """Of unknown length beside one of known length; in predict, targets that come along are left aside."""
    models = {name: compiled(net(), "sgd", "mse") for name in "ab"}
    joint = composer.compile("parallel(a, b)", models=models)
    data = {"a": batches(11, 4, known=False), "b": batches(5, 5)}
    predicted = joint.predict(data, verbose=0)
    evaluated = joint.evaluate(data, verbose=0)
    for name, num_rows in (("a", 11), ("b", 5)):
        x, y = rows(num_rows)
        np.testing.assert_allclose(predicted[name], models[name].predict(x, verbose=0), atol=1e-6)
        assert evaluated[name]["loss"] == pytest.approx(models[name].evaluate(x, y, verbose=0), rel=1e-5)


def test_a_validation_dataset_beside_arrays_keeps_its_own_batches() -> None:
    """The batch size is that of the training rows."""
    member = Alone(
        net(),
        rows=lambda: rows(9),
        settings=lambda: {"optimizer": "sgd", "loss": "mse"},
        fit={"batch_size": 4},
        validation=lambda: batches(7, 3),
    )
    Fleet({"a": member}).assert_same("a")


def test_a_dataset_that_is_empty_predicts_nothing() -> None:
    joint = composer.compile("parallel(a, b)", models={name: compiled(net(), "sgd", "mse") for name in "ab"})
    got = joint.predict({"a": batches(8, 4).take(0), "b": rows(3)[0]}, verbose=0)
    assert {name: value.shape for name, value in got.items()} == {"a": (0, 1), "b": (3, 1)}


# Faults ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def joint() -> composer.ComposedModel:
    return composer.compile("parallel(a, b)", models={name: compiled(net(), "sgd", "mse") for name in "ab"})


def single_rows() -> Any:
    return batches(8, 4).unbatch()


def without_end() -> Any:
    return batches(8, 4).repeat()


def empty() -> Any:
    return batches(8, 4).take(0)


def batched() -> Any:
    return batches(8, 4)


def too_wide() -> Any:
    return tf.data.Dataset.from_tensor_slices(rows(8, 4)).batch(4)


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        (single_rows, {}, r"`a` yields single rows of shape \(3,\).*`.batch\(32\)`"),
        (empty, {}, r"`a` has no rows: its dataset is empty"),
        (without_end, {}, r"`a` never end.*`steps_per_epoch=n`"),
        (batched, {"batch_size": {"a": 4}}, r"`a` comes as a dataset.*leave out its `batch_size`"),
        (batched, {"validation_split": {"a": 0.5}}, r"`a` come in batches.*Pass `validation_data`"),
        (too_wide, {}, r"`a` takes rows of shape \(3,\). Received: rows of shape \(4,\)"),
    ],
)
def test_datasets_that_do_not_fit_are_refused(
    joint: composer.ComposedModel, dataset: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(composer.DataError, match=message):
        joint.fit({"a": dataset(), "b": rows(8)}, verbose=0, **arguments)


def test_an_epoch_without_rows_is_told(joint: composer.ComposedModel) -> None:
    """Of a dataset that cannot tell its length it is known only then."""
    nothing = batches(8, 4).filter(lambda x, y: False)
    with pytest.warns(composer.ComposerWarning, match="`a` had no rows in epoch 1"):
        history = joint.fit({"a": nothing, "b": rows(8)}, verbose=0)
    assert set(history.history) == {"b_loss"}


def test_a_dataset_beside_targets_is_refused(joint: composer.ComposedModel) -> None:
    with pytest.raises(composer.DataError, match="`a` comes as a dataset, which holds its own targets"):
        joint.fit(x={"a": batches(8, 4), "b": rows(8)[0]}, y={"a": rows(8)[1], "b": rows(8)[1]}, verbose=0)
