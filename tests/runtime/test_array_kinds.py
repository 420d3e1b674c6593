"""Rows in memory of every kind that Keras' own `fit` takes: frames, sparse and ragged tensors, lists and dicts of them.

What Keras 3.15 does with each on TensorFlow was found by running it; each is compared with it.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, compiled
from tests.runtime.test_datasets import sgd

pandas = pytest.importorskip("pandas")
scipy_sparse = pytest.importorskip("scipy.sparse")

X, Y = rows(13)
THIN = np.where(np.abs(X) > 0.5, X, 0).astype("float32")  # some rows of it are empty
WORDS = [[1, 2], [3], [], [4, 5, 6], [1], [2], [3, 1, 2, 5], [6], [1, 1], [2, 5], [4], [3, 3], [5]]


def sparse_net() -> keras.Model:
    x = keras.Input((3,), sparse=True)
    return keras.Model(x, layers.Dense(1)(x))


def ragged_net() -> keras.Model:
    x = keras.Input((None,), dtype="int64", ragged=True)
    hidden = layers.GlobalAveragePooling1D()(layers.Embedding(7, 2)(x))
    return keras.Model(x, layers.Dense(1)(hidden))


def pair_net() -> keras.Model:
    left, right = keras.Input((1,), name="left"), keras.Input((3,), name="right", sparse=True)
    return keras.Model({"left": left, "right": right}, layers.Dense(1)(left) + layers.Dense(1)(right))


def frame(**columns: Any) -> Any:
    return pandas.DataFrame(columns or {"a": X[:, 0].astype("float64"), "b": X[:, 1], "c": X[:, 2] > 0})


def series(values: np.ndarray) -> Any:
    return pandas.Series(values, index=range(100, 100 + len(values)))


def words() -> tf.RaggedTensor:
    return tf.ragged.constant([row or [0] for row in WORDS])


def thin() -> tf.SparseTensor:
    return tf.sparse.from_dense(THIN)


def words_in_batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((words(), Y)).batch(5)


def thin_in_batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((thin(), Y)).batch(5)


def thin_from_python() -> Any:
    for start in range(0, 12, 4):
        yield scipy_sparse.csr_matrix(THIN[start : start + 4]), Y[start : start + 4]


SPLIT = {"epochs": 2, "batch_size": 5, "validation_split": 0.3}
PLAIN = {"epochs": 2, "batch_size": 5}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "frame": (net, lambda: (frame(), pandas.DataFrame({"y": Y[:, 0]})), SPLIT),
    "series": (lambda: net(1), lambda: (series(X[:, 0]), series(Y[:, 0]), series(np.abs(X[:, 1]))), PLAIN),
    "whole_numbers": (net, lambda: (frame(a=range(13), b=range(13), c=[1] * 13), series(Y[:, 0])), PLAIN),
    "sparse": (sparse_net, lambda: (thin(), Y), SPLIT),
    "scipy_coo": (sparse_net, lambda: (scipy_sparse.coo_array(THIN.astype("float64")), Y), SPLIT),
    "scipy_in_steps": (sparse_net, lambda: (scipy_sparse.csr_matrix(THIN), Y), {"epochs": 3, "steps_per_epoch": 2}),
    "ragged": (ragged_net, lambda: (words(), Y), SPLIT),
    "named": (
        pair_net,
        lambda: ({"left": series(X[:, 0]), "right": scipy_sparse.csr_matrix(THIN)}, frame(y=Y[:, 0])),
        PLAIN,
    ),
    "ragged_batches": (ragged_net, words_in_batches, {"epochs": 2}),
    "sparse_batches": (sparse_net, thin_in_batches, {"epochs": 2}),
    "sparse_from_python": (sparse_net, thin_from_python, {"epochs": 1}),
}


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet({name: Alone(model(), make, sgd, fit) for name, (model, make, fit) in KINDS.items()})


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own, of the models alone
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_rows_trains_as_alone(fleet: Fleet, name: str) -> None:
    fleet.assert_same(name, counters=name != "sparse_from_python")


@pytest.mark.parametrize("name", ["frame", "series", "sparse", "scipy_coo", "ragged", "named"])
def test_every_kind_of_rows_is_evaluated_and_predicted_as_alone(fleet: Fleet, name: str) -> None:
    model, (x, y) = fleet.models[name], KINDS[name][1]()[:2]
    got = fleet.joint.predict({name: x}, batch_size=4, verbose=0)[name]
    np.testing.assert_allclose(got, model.predict(x, batch_size=4, verbose=0), rtol=1e-6)
    evaluated = fleet.joint.evaluate({name: (x, y)}, batch_size=4, verbose=0)[name]
    assert evaluated["loss"] == pytest.approx(model.evaluate(x, y, batch_size=4, verbose=0), rel=1e-6)


def test_ragged_predictions_stay_ragged() -> None:
    x = keras.Input((None,), dtype="int64", ragged=True)
    model = keras.Model(x, layers.Embedding(7, 2)(x))
    joint = composer.compile("parallel(a)", a=model)
    got = joint.predict({"a": words()}, batch_size=5, verbose=0)["a"]
    assert isinstance(got, tf.RaggedTensor)
    np.testing.assert_array_equal(got.flat_values, model.predict(words(), verbose=0).flat_values)
    assert got.row_lengths().numpy().tolist() == words().row_lengths().numpy().tolist()


def test_shuffled_sparse_rows_come_in_the_order_of_dense_ones() -> None:
    """It follows from the seed and the epoch, however rows are held."""
    x = keras.Input((3,))
    sparse, dense = sparse_net(), keras.Model(x, layers.Dense(1)(x))
    dense.set_weights(sparse.get_weights())
    for model, given in ((sparse, thin()), (dense, THIN)):
        joint = composer.compile("parallel(a)", a=compiled(model, "sgd", "mse"))
        joint.fit({"a": (given, Y)}, batch_size=4, epochs=2, verbose=0)
    for mine, theirs in zip(sparse.get_weights(), dense.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


# Faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (frame(a=["u"] * 13, b=X[:, 1], c=X[:, 2]), Y), r"`a` has an array of Python objects"),
        (lambda: (X, thin()), r"the targets of `a` are a SparseTensor.*`tf.sparse.to_dense"),
        (lambda: (X, words()), r"the targets of `a` are a RaggedTensor.*`y.to_tensor"),
        (lambda: (frame(a=X[:, 0], b=X[:, 1]), Y), r"`a` takes rows of shape \(3,\). Received: rows of shape \(2,\)"),
        (lambda: (frame(), series(Y[:5, 0])), r"the arrays of `a` differ in their number of rows"),
    ],
)
def test_rows_that_keras_does_not_take_are_refused(make: Any, message: str) -> None:
    joint = composer.compile("parallel(a)", a=compiled(net(), "sgd", "mse"))
    with pytest.raises(composer.DataError, match=message):
        joint.fit({"a": make()}, verbose=0)


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_replicas_of_rows_that_cannot_be_split_are_refused(kind: str) -> None:
    model, x = (sparse_net(), thin()) if kind == "sparse" else (ragged_net(), words())
    joint = composer.compile("parallel(a x2) on cpus=2", a=compiled(model, "sgd", "mse"))
    with pytest.raises(composer.DataError, match=rf"`a` has 2 replicas, and {kind} rows .*one replica"):
        joint.fit({"a": (x, Y)}, verbose=0)


def test_a_sparse_matrix_may_list_its_entries_in_any_order() -> None:
    """Keras takes only those in the order of their rows, as a matrix by columns is not."""
    joint = composer.compile("parallel(a)", a=sparse_net())
    got = joint.predict({"a": scipy_sparse.csc_matrix(THIN)}, verbose=0)["a"]
    np.testing.assert_allclose(got, joint.predict({"a": scipy_sparse.csr_matrix(THIN)}, verbose=0)["a"])
