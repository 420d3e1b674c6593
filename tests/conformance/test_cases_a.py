"""Cases of users, group A: uneven, tiny and empty sub-batches. The others of this group are in `tests/runtime`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from composer.graph.slicing import slice_sizes
from tests.helpers import assert_same_history, net, rows, twin
from tests.runtime.alone import assert_same_state, compiled, fit_alone


def images(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 6, 6, 3)).astype("float32")


def test_c01_one_row_over_two_replicas_and_none() -> None:
    """A convolution and a pooling abort the process where they see no row."""
    model = keras.Sequential(
        [layers.Input((6, 6, 3)), layers.Conv2D(4, 3), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(2)]
    )
    joint = composer.compile("parallel(m x2) on gpus=2", m=model)
    x = images(3)
    for batch in (1, 2, 8):
        got = joint.predict({"m": x}, batch_size=batch, verbose=0)["m"]
        np.testing.assert_allclose(got, model.predict(x, verbose=0), atol=1e-6)
    one = joint.predict({"m": x[:1]}, batch_size=1, verbose=0)["m"]
    np.testing.assert_allclose(one, model.predict(x[:1], verbose=0), atol=1e-6)
    assert joint.predict({"m": x[:0]}, verbose=0)["m"].shape == (0, 2)


class NumRows(keras.metrics.Metric):
    """Counts the rows it is shown."""

    def __init__(self, name: str = "num_rows") -> None:
        super().__init__(name=name)
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign_add(tf.cast(tf.shape(y_pred)[0], tf.float32))

    def result(self) -> Any:
        return self.count.value


def test_c13_validation_counts_the_tail() -> None:
    """5000 rows in batches of 64: 79 steps, 5000 rows."""
    model = compiled(net(), "sgd", "mse", metrics=[NumRows()])
    joint = composer.compile("parallel(m)", m=model)
    steps: list[int] = []
    count = keras.callbacks.LambdaCallback(on_test_batch_end=lambda step, logs: steps.append(step))
    history = joint.fit(
        {"m": rows(8)},
        validation_data={"m": rows(5000)},
        validation_batch_size=64,
        callbacks={"m": [count]},
        verbose=0,
    )
    assert history.members["m"].history["val_num_rows"] == [5000.0]
    assert steps == list(range(79))
    assert joint.evaluate({"m": rows(5000)}, batch_size=64, verbose=0)["m"]["num_rows"] == 5000.0


def test_c14_ten_batches_over_four_replicas() -> None:
    """Every batch is cut; replicas do not fetch batches of their own, so none is missing in a last round."""
    model = net()
    alone = twin(model)
    for each in (model, alone):
        compiled(each, "sgd", "mse", metrics=[NumRows()])
    joint = composer.compile("parallel(m x4) on gpus=4", m=model)
    history = joint.fit({"m": tf.data.Dataset.from_tensor_slices(rows(40)).batch(4)}, verbose=0)
    assert int(model.optimizer.iterations) == 10
    want = fit_alone(alone, rows(40), batch_size=4).history
    assert want["num_rows"] == [40.0]
    assert_same_history(history.members["m"].history, want)
    assert_same_state(model, alone)


class SliceSizes(layers.Layer):
    """Passes rows on and keeps how many came, by call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def call(self, inputs: Any) -> Any:
        tf.py_function(lambda n: self.seen.append(int(n)), [tf.shape(inputs)[0]], [])
        return tf.identity(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def test_c17_odd_numbers_of_replicas_are_like_any_other() -> None:
    """64 rows over three replicas: 22, 21, 21."""
    x = keras.Input((3,))
    sizes = SliceSizes()
    model = keras.Model(x, layers.Dense(1)(sizes(x)))
    joint = composer.compile("parallel(m x3) on gpus=3", m=model)
    joint.predict({"m": rows(64)[0]}, batch_size=64, verbose=0)
    assert sorted(sizes.seen) == [21, 21, 22]


@pytest.mark.parametrize(
    ("num_rows", "replicas", "sizes"),
    [(64, 5, [13, 13, 13, 13, 12]), (256, 6, [43, 43, 43, 43, 42, 42]), (5, 4, [2, 1, 1, 1]), (1, 2, [1, 0])],
)
def test_c17_slices_differ_by_at_most_one_row(num_rows: int, replicas: int, sizes: list[int]) -> None:
    assert slice_sizes(num_rows, replicas).numpy().tolist() == sizes
