"""Rows that do not fit: each fault ends in one message that names the member and the mend, before a step is taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import net, rows
from tests.runtime.alone import compiled

X, Y = rows(8)
XB, YB = rows(8, 5, 2)
OTHER = {"b": (XB, YB)}
NAN = np.where(np.arange(8)[:, None] == 3, np.nan, Y)


@pytest.fixture(scope="module")
def joint() -> composer.ComposedModel:
    return composer.compile("parallel(a, b)", a=compiled(net(), "sgd", "mse"), b=compiled(net(5, 2), "sgd", "mse"))


def classifier(**settings: Any) -> keras.Model:
    model = keras.Sequential([layers.Input((3,)), layers.Dense(3, activation="softmax")])
    return compiled(model, "sgd", **{"loss": "sparse_categorical_crossentropy", **settings})


def two_headed() -> keras.Model:
    left, right = keras.Input((3,), name="left"), keras.Input((4,), name="right")
    h = layers.Concatenate()([left, right])
    outputs = {"price": layers.Dense(1)(h), "kind": layers.Dense(1)(h)}
    return compiled(keras.Model({"left": left, "right": right}, outputs), "sgd", {"price": "mse", "kind": "mse"})


def words() -> keras.Model:
    x = keras.Input((1,), dtype="string", name="word")
    ids = layers.StringLookup(vocabulary=["a"])(x)
    return compiled(keras.Model(x, layers.Dense(1)(layers.Flatten()(layers.Embedding(3, 2)(ids)))), "sgd", "mse")


def indices() -> keras.Model:
    x = keras.Input((4,), dtype="int32")
    return compiled(keras.Model(x, layers.Dense(1)(layers.Flatten()(layers.Embedding(3, 2)(x)))), "sgd", "mse")


def single(model: keras.Model) -> composer.ComposedModel:
    return composer.compile("parallel(m)", m=model)


# Rows --------------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Any, str]] = {
    "missing member": ({"a": (X, Y)}, r"no rows for `b`: `fit` trains all members. Give rows for each"),
    "unknown member": (
        {"a": (X, Y), "bb": (XB, YB)},
        r"names `bb`, which is no member. Did you mean `b`\?.*: `a`, `b`",
    ),
    "nothing": (None, r"must be a dict by member, such as \{\"a\": ..., \"b\": ...\}"),
    "an array": (X, r"must be a dict by member.*Received: ndarray"),
    "a dataset": (
        lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(2),
        r"must be a dict by member.*Received: _BatchDataset",
    ),
    "no x": ({"a": (None, Y), **OTHER}, r"`a` has no rows: its x is None"),
    "no rows": ({"a": (X[:0], Y[:0]), **OTHER}, r"`a` has no rows"),
    "no targets": ({"a": X, **OTHER}, r"`a` has a loss but no targets. Pass its rows as \(x, y\)"),
    "four parts": ({"a": (X, Y, Y, Y), **OTHER}, r"`a` takes \(x, y\) or \(x, y, sample_weight\).*a tuple of 4"),
    "too wide": (
        {"a": (XB, Y), **OTHER},
        r"of `a` takes rows of shape \(3,\). Received: rows of shape \(5,\) \(the whole array is \(8, 5\)\)",
    ),
    "too many axes": ({"a": (X[..., None, None], Y), **OTHER}, r"`a` takes.*Received: rows of shape \(3, 1, 1\)"),
    "fewer targets": ({"a": (X, Y[:5]), **OTHER}, r"arrays of `a` differ in their number of rows: x has 8, y has 5"),
    "fewer weights": ({"a": (X, Y, np.ones(3)), **OTHER}, r"arrays of `a` differ.*sample_weight has 3"),
    "strings": ({"a": (np.full((8, 3), "u"), Y), **OTHER}, r"`a` takes float32 values. Received: strings"),
    "string targets": ({"a": (X, np.full(8, "u")), **OTHER}, r"the targets of `a` are strings"),
    "dates": ({"a": (np.zeros((8, 3), "datetime64[s]"), Y), **OTHER}, r"`a` has dates or times \(datetime64\[s\]\)"),
    "uneven lists": ({"a": ([[1, 2, 3], [4]], Y[:2]), **OTHER}, r"`a` has rows of unlike lengths"),
    "objects": ({"a": (np.array([[1], "u"], dtype=object), Y[:2]), **OTHER}, r"Python objects \(list, str\)"),
    "complex": ({"a": (X * 1j, Y), **OTHER}, r"of `a` takes float32 values. Received: complex numbers"),
    "ragged": (
        lambda: {"a": (tf.ragged.constant([[1.0], [2.0, 3.0]]), Y[:2]), **OTHER},
        r"of `a` takes rows of shape \(3,\). Received: a RaggedTensor.*to_tensor",
    ),
    "more columns": ({"a": (X, Y), "b": (XB, rows(8, 5, 3)[1])}, r"`b` predicts 2 columns, but its targets have 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_that_do_not_fit_name_their_member(joint: composer.ComposedModel, fault: str) -> None:
    data, message = FAULTS[fault]
    steps = [int(member.model.optimizer.iterations) for member in joint.members.values()]
    with pytest.raises(composer.DataError, match=message):
        joint.fit(data() if callable(data) else data, verbose=0)
    assert [int(member.model.optimizer.iterations) for member in joint.members.values()] == steps


PAIR = {"left": X, "right": rows(8, 4)[0]}

MODEL_FAULTS: dict[str, tuple[Callable[[], keras.Model], Any, str]] = {
    "class too high": (
        classifier,
        (X, np.full(8, 7)),
        r"targets of `m` hold the class 7, but it predicts 3 classes: 0 to 2",
    ),
    "class below 0": (classifier, (X, np.full(8, -1.0)), r"targets of `m` hold the class -1"),
    "no class": (classifier, (X, NAN[:, 0]), r"targets of `m` hold NaN, and its loss takes class labels\. Leave those"),
    "one-hot": (
        classifier,
        (X, np.eye(3)[np.zeros(8, int)]),
        r"loss of `m` takes class labels.*3 columns. `categorical_crossentropy` takes one column a class",
    ),
    "no strings": (words, (np.ones((8, 1)), Y), r"input `word` of `m` takes string values. Received: numbers"),
    "misspelt input": (
        two_headed,
        ({"left": X, "rigth": X}, {"price": Y, "kind": Y}),
        r"`m` has no input `rigth`. Did you mean `right`\? Its inputs are: left, right",
    ),
    "missing input": (
        two_headed,
        ({"left": X}, {"price": Y, "kind": Y}),
        r"`m` takes 2 inputs \(left, right\). Received: 1",
    ),
    "misspelt target": (
        two_headed,
        (PAIR, {"price": Y, "kinds": Y}),
        r"targets of `m` name `kinds`, which has no loss. Did you mean `kind`\? Losses: price, kind",
    ),
    "missing target": (two_headed, (PAIR, {"price": Y}), r"targets of `m` lack `kind`"),
    "one target for two": (two_headed, (PAIR, Y), r"`m` has 2 outputs \(kind, price\).*Received: 1"),
}


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_rows_that_do_not_fit_their_model_say_what_it_takes(fault: str) -> None:
    model, data, message = MODEL_FAULTS[fault]
    joint = single(model())
    for run in (joint.fit, joint.evaluate):
        with pytest.raises(composer.DataError, match=message):
            run({"m": data}, verbose=0)


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
@pytest.mark.parametrize("targets", [{"price": Y}, {"price": Y, "kind": Y}])
@pytest.mark.parametrize("loss", [{"price": "mse"}, {"price": "mse", "kind": None}])
def test_an_output_without_a_loss_needs_no_target(loss: Any, targets: Any) -> None:
    model = two_headed()
    compiled(model, "sgd", loss)
    joint, data = single(model), (PAIR, targets)
    got = joint.evaluate({"m": data}, verbose=0)["m"]
    assert got == pytest.approx(model.evaluate(*data, verbose=0, return_dict=True), rel=1e-5)
    assert set(joint.fit({"m": data}, verbose=0).history) == {"m_loss"}


def test_columns_that_keras_repeats_are_told() -> None:
    """Four targets against one output: Keras compares each with it, seldom what was meant."""
    with pytest.warns(composer.ComposerWarning, match="`m` predicts 1 columns, and its targets have 4"):
        single(compiled(net(), "sgd", "mse")).fit({"m": (X, np.ones((8, 4)))}, verbose=0)


def test_rows_that_fail_within_a_step_name_their_member() -> None:
    """An index that no embedding has: known only when the step runs."""
    joint = composer.compile("parallel(a, words x2) on gpus=2", a=compiled(net(), "sgd", "mse"), words=indices())
    bad = np.full((8, 4), 9)
    for run in (
        lambda: joint.fit({"a": (X, Y), "words": (bad, Y)}, verbose=0),
        lambda: joint.predict({"words": bad}, verbose=0),
    ):
        with pytest.raises(
            composer.DataError, match=r"a step of `words` failed on its rows: indices.* = 9 is not in \[0, 3\)"
        ):
            run()


def test_rows_that_keras_takes_are_taken() -> None:
    """Lists, integers, booleans, doubles, a missing or an extra last axis of 1, strings of NumPy, an ignored class."""
    taken: list[tuple[keras.Model, Any]] = [
        (compiled(net(), "sgd", "mse"), (X.tolist(), Y.tolist())),
        (compiled(net(), "sgd", "mse"), ((X * 5).astype(int), Y > 0)),
        (compiled(net(), "sgd", "mse"), (X.astype("float64"), Y[:, 0])),
        (compiled(net(1), "sgd", "mse"), (X[:, 0], Y)),
        (words(), (np.array([["a"]] * 8), Y)),
        (
            classifier(loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)),
            (X, np.array([-1, 0, 1, 2] * 2)),
        ),
    ]
    names = [f"m{index}" for index in range(len(taken))]
    joint = composer.compile(
        f"parallel({', '.join(names)})", models=dict(zip(names, (m for m, _ in taken), strict=True))
    )
    evaluated = joint.evaluate(dict(zip(names, (data for _, data in taken), strict=True)), verbose=0)
    for name, (model, data) in zip(names, taken, strict=True):
        x, y = (np.asarray(part) if not isinstance(part, list) else np.array(part, "float32") for part in data)
        x = tf.constant(x) if x.dtype.kind == "U" else x
        assert evaluated[name]["loss"] == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5), name


def test_nan_in_targets_is_warned_of_and_trained_on(joint: composer.ComposedModel) -> None:
    with pytest.warns(composer.ComposerWarning, match=r"targets of `a` hold 1 NaN: its loss and its weights will turn"):
        joint.fit({"a": (X, NAN), "b": (XB, YB)}, epochs={"a": 0, "b": 1}, verbose=0)


def test_c73_weights_for_every_row_are_honoured(joint: composer.ComposedModel) -> None:
    """All zero: the member stays as it is. As part of the rows or as an argument; never dropped silently."""
    b = joint.members["b"].model
    for data, arguments in (
        ({"b": (XB, YB, np.zeros(8))}, {}),
        ({"b": (XB, YB)}, {"sample_weight": {"b": np.zeros(8)}}),
    ):
        before = b.get_weights()
        joint.fit({"a": (X, Y), **data}, verbose=0, **arguments)
        np.testing.assert_array_equal(b.get_weights()[0], before[0])
    with pytest.raises(composer.DataError, match="`b` has sample weights twice"):
        joint.fit({"a": (X, Y), "b": (XB, YB, np.ones(8))}, sample_weight={"b": np.ones(8)}, verbose=0)


def test_c72_class_weights_that_cannot_be_are_refused(joint: composer.ComposedModel) -> None:
    message = r"`class_weight` of `m` needs one array of class labels.*Pass `sample_weight` instead"
    data = ({"left": X, "right": rows(8, 4)[0]}, {"price": Y, "kind": Y})
    with pytest.raises(composer.DataError, match=message):
        single(two_headed()).fit({"m": data}, class_weight={"m": {0: 1.0}}, verbose=0)
    with pytest.raises(composer.DataError, match=message):
        single(classifier()).fit({"m": (X, np.zeros(8), np.ones(8))}, class_weight={"m": {0: 1.0}}, verbose=0)


# Arguments ---------------------------------------------------------------------------------------------------------


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "epochs below 0": ({"epochs": -1}, r"`epochs` of `a` must be a whole number of at least 0. Received: -1"),
    "half an epoch": ({"epochs": {"b": 1.5}}, r"`epochs` of `b` must be a whole number.*Received: 1.5"),
    "epochs of no member": ({"epochs": {"bb": 1}}, r"`epochs` names `bb`, which is no member. Did you mean `b`"),
    "batches of 0": ({"batch_size": {"b": 0}}, r"`batch_size` of `b` must be a whole number of at least 1"),
    "nothing to train on": (
        {"validation_split": {"a": 1.0}},
        r"`validation_split=1.0` leaves `a`.*with 0 rows to train",
    ),
    "a split below 0": ({"validation_split": {"a": -0.5}}, r"`validation_split=-0.5` leaves `a`"),
    "half the rows, in words": ({"validation_split": {"a": "half"}}, r"`validation_split` of `a`.*Received: 'half'"),
    "validation too wide": ({"validation_data": {"a": (XB, Y)}}, r"of `a` takes rows of shape \(3,\)"),
    "validation of no member": ({"validation_data": {"z": (X, Y)}}, r"names `z`, which is no member"),
    "every 0 epochs": ({"validation_freq": 0}, r"`validation_freq` of `a` counts epochs from 1"),
    "epochs in words": ({"validation_freq": {"b": "all"}}, r"`validation_freq` of `b` is a number of epochs or a list"),
    "weights in a list": ({"class_weight": {"a": [1, 2]}}, r"`class_weight` of `a` is a dict of a weight a class"),
    "a callback's name": ({"callbacks": {"a": ["early"]}}, r"a callback of `a` must be a keras.*Received: 'early'"),
    "a callback's class": (
        {"callbacks": [keras.callbacks.EarlyStopping]},
        r"of all members must be.*Received: the class EarlyStopping",
    ),
    "steps an epoch": (
        {"steps_per_epoch": {"a": 0}},
        r"`steps_per_epoch` of `a` must be a whole number of at least 1. Received: 0",
    ),
    "validation steps": ({"validation_steps": {"b": 1.5}}, r"`validation_steps` of `b` must be a whole number"),
    "on error": ({"on_error": "ignore"}, r"`on_error` is one of 'continue', 'raise'. Received: 'ignore'"),
    "unknown": ({"epoch": 3}, r"`fit` has no argument `epoch`"),
    "targets of no member": ({"y": {"c": Y}}, r"`y` names `c`, which is no member"),
}


@pytest.mark.parametrize("fault", ARGUMENTS)
def test_arguments_that_make_no_sense_are_refused(joint: composer.ComposedModel, fault: str) -> None:
    arguments, message = ARGUMENTS[fault]
    with pytest.raises(composer.DataError, match=message):
        joint.fit({"a": (X, Y), "b": (XB, YB)}, verbose=0, **arguments)


def test_targets_for_a_member_without_rows_are_refused(joint: composer.ComposedModel) -> None:
    with pytest.raises(composer.DataError, match="`y` has values for `b`, but there are no rows for it"):
        joint.fit({"a": X}, {"a": Y, "b": YB}, verbose=0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": XB}, r"of `a` takes rows of shape \(3,\). Received: rows of shape \(5,\)"),
        ({"c": X}, r"names `c`, which is no member"),
        ({}, r"must be a dict by member"),
        ([X, XB], r"must be a dict by member.*Received: list"),
    ],
)
def test_rows_to_predict_that_do_not_fit_are_refused(joint: composer.ComposedModel, data: Any, message: str) -> None:
    with pytest.raises(composer.DataError, match=message):
        joint.predict(data, verbose=0)


@pytest.mark.parametrize("size", [0, -1, 2.0, "4"])
def test_batch_sizes_that_make_no_sense_are_refused(joint: composer.ComposedModel, size: Any) -> None:
    message = rf"`batch_size` of `a` must be a whole number of at least 1. Received: {size!r}"
    with pytest.raises(composer.DataError, match=message):
        joint.predict({"a": X}, batch_size={"a": size}, verbose=0)
    with pytest.raises(composer.DataError, match=message):
        joint.evaluate({"a": (X, Y)}, batch_size=size, verbose=0)


def test_one_member_needs_no_dict() -> None:
    """With a single member its rows and arguments may stand alone, as in its own `fit`."""
    joint = single(compiled(net(), "sgd", "mse"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = joint.fit(X, Y, validation_split=0.25, verbose=0)
        assert set(history.history) == {"m_loss", "val_m_loss"}
        assert joint.predict(X, verbose=0)["m"].shape == (8, 1)
        assert set(joint.evaluate(X, Y, verbose=0)) == {"m"}
