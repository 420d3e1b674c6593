"""`evaluate` and `predict`: of any members, any rows, in each member's own structure; nothing else runs."""

from __future__ import annotations

import threading
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import net, rows
from tests.runtime.alone import compiled


class Counted(layers.Layer):
    """Passes rows on; counts how often it is traced, and how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"traced": 0, "run": 0}

    def call(self, inputs: Any) -> Any:
        self.counts["traced"] += 1
        with tf.control_dependencies([tf.py_function(self.count, [], [])]):
            return tf.identity(inputs)

    def count(self) -> None:
        self.counts["run"] += 1


def counted_net(inputs: int) -> keras.Model:
    x = keras.Input((inputs,))
    model = keras.Model(x, layers.Dense(2)(Counted()(x)))
    return compiled(model, "sgd", "mse", metrics=["mae"])


def counts(model: keras.Model) -> dict[str, int]:
    return dict(model.layers[1].counts)


@pytest.fixture(scope="module")
def joint() -> composer.ComposedModel:
    models = {"a": counted_net(3), "b": counted_net(5), "c": counted_net(4)}
    return composer.compile("parallel(a, b, c)", models=models)


WIDTHS = {"a": 3, "b": 5, "c": 4}


def xy_of(**sizes: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: rows(size, WIDTHS[name], 2) for name, size in sizes.items()}


def x_of(**sizes: int) -> dict[str, np.ndarray]:
    return {name: x for name, (x, _) in xy_of(**sizes).items()}


def test_c75_only_the_members_with_rows_run(joint: composer.ComposedModel) -> None:
    models = {name: member.model for name, member in joint.members.items()}
    before = counts(models["b"])
    got = joint.predict(x_of(a=5), verbose=0)
    evaluated = joint.evaluate(xy_of(a=5), verbose=0)
    assert list(got) == list(evaluated) == ["a"]
    assert counts(models["b"]) == before
    np.testing.assert_array_equal(got["a"], models["a"].predict(x_of(a=5)["a"], verbose=0))


def test_members_of_unlike_lengths_and_batch_sizes(joint: composer.ComposedModel) -> None:
    """C13: 50 rows in batches of 8 are 7 steps and 50 rows; no row of any member is lost."""
    sizes = {"a": 50, "b": 3, "c": 0}
    got = joint.predict(x_of(**sizes), batch_size={"a": 8, "b": 2}, verbose=0)
    assert {name: value.shape for name, value in got.items()} == {"a": (50, 2), "b": (3, 2), "c": (0, 2)}
    data = xy_of(a=50, b=3)
    evaluated = joint.evaluate(data, batch_size={"a": 8, "b": 2}, verbose=0)
    for name, (x, y) in data.items():
        model = joint.members[name].model
        np.testing.assert_allclose(got[name], model.predict(x, verbose=0), atol=1e-6)
        want = model.evaluate(x, y, 8, verbose=0, return_dict=True)
        assert evaluated[name] == pytest.approx(want, rel=1e-5)
        errors = (model.predict(x, verbose=0) - y) ** 2
        assert evaluated[name]["loss"] == pytest.approx(errors.mean(), rel=1e-5)


def test_sample_weights_weigh_as_alone(joint: composer.ComposedModel) -> None:
    (x, y), weights = xy_of(a=7)["a"], np.arange(7.0)
    model = joint.members["a"].model
    want = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    for data, arguments in (
        ({"x": {"a": (x, y, weights)}}, {}),
        ({"x": {"a": x}, "y": {"a": y}}, {"sample_weight": {"a": weights}}),
    ):
        assert joint.evaluate(**data, **arguments, verbose=0)["a"] == pytest.approx(want, rel=1e-5)


def test_c59_calls_by_turns_trace_once(joint: composer.ComposedModel) -> None:
    """The same members and shapes again, whatever came between: no new trace, any number of rows."""
    model = joint.members["c"].model
    joint.predict(x_of(c=5), verbose=0)
    joint.predict(x_of(a=2, c=5), verbose=0)
    joint.evaluate(xy_of(c=5), verbose=0)
    traced = counts(model)["traced"]
    for size in (1, 7, 40):
        joint.predict(x_of(c=size), verbose=0)
        joint.predict(x_of(a=size, c=3), verbose=0)
        joint.evaluate(xy_of(c=size), batch_size=16, verbose=0)
    assert counts(model)["traced"] == traced


def test_evaluate_leaves_weights_and_the_next_evaluation_alone(joint: composer.ComposedModel) -> None:
    first = joint.evaluate(xy_of(a=9), verbose=0)
    weights = joint.members["a"].model.get_weights()
    assert joint.evaluate(xy_of(a=9), verbose=0) == first  # metrics begin anew
    np.testing.assert_array_equal(joint.members["a"].model.get_weights()[0], weights[0])


def test_c83_concurrent_predictions_return_each_caller_its_own_rows() -> None:
    x = keras.Input((1,))
    twice = layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(2.0))
    joint = composer.compile("parallel(m x2, other) on gpus=2", m=keras.Model(x, twice(x)), other=net())
    joint.predict({"m": np.ones((3, 1))}, verbose=0)
    wrong: list[Any] = []

    def ask(caller: int) -> None:
        numbers = np.arange(caller * 100, caller * 100 + caller + 1, dtype="float32")[:, None]
        for _ in range(3):
            got = joint.predict({"m": numbers}, batch_size=4, verbose=0)["m"]
            if not np.array_equal(got, 2 * numbers):
                wrong.append((caller, got))

    threads = [threading.Thread(target=ask, args=(caller,)) for caller in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_predictions_may_be_asked_for_within_a_fit(joint: composer.ComposedModel) -> None:
    seen: list[int] = []
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(len(joint.predict(x_of(b=3), verbose=0)["b"]))
    )
    joint.fit(xy_of(a=4, b=4, c=4), epochs=2, callbacks=[look], verbose=0)
    assert seen == [3, 3]


# Faults ------------------------------------------------------------------------------------------------------------


def test_c12_outputs_that_cannot_be_joined_name_member_and_axis() -> None:
    """A second axis that depends on the batch: an error that names it, not a failed concatenation."""
    x = keras.Input((None,))
    model = keras.Model(x, keras.layers.Activation("relu")(x))
    joint = composer.compile("parallel(m)", m=model)
    widths = [np.ones((2, 3), "float32"), np.ones((2, 5), "float32")]
    signature = tf.TensorSpec((None, None), tf.float32)
    dataset = tf.data.Dataset.from_generator(lambda: iter(widths), output_signature=signature)
    with pytest.raises(composer.DataError, match=r"predictions of `m` differ along axis 1.*\(sizes 3, 5\)"):
        joint.predict({"m": dataset}, verbose=0)


def test_single_batches_are_refused(joint: composer.ComposedModel) -> None:
    joint.predict(x_of(a=2), verbose=0)  # nothing of it is left behind
    for call in (
        lambda: joint.predict_on_batch(x_of(a=2)),
        lambda: joint.train_on_batch(x_of(a=2), {"a": np.ones((2, 2))}),
        lambda: joint.test_on_batch(x_of(a=2), {"a": np.ones((2, 2))}),
    ):
        with pytest.raises(composer.GraphError, match="single batches are not supported"):
            call()


def test_members_that_are_not_compiled_predict_but_do_not_evaluate() -> None:
    joint = composer.compile("parallel(a)", a=net())
    assert joint.predict({"a": rows(3)[0]}, verbose=0)["a"].shape == (3, 1)
    with pytest.raises(composer.GraphError, match="`a` is not compiled"):
        joint.evaluate({"a": rows(3)}, verbose=0)
