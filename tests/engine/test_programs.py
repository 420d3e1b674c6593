"""Joint programs: each member's step under a condition, on its device; a replicated step is one step over the batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from composer.engine import units
from composer.engine.feed import ArrayBatches, ArrayRows, Feed, joint_feed
from composer.engine.programs import JointProgram, MemberStep, to_python
from composer.engine.units import Unit
from tests.helpers import assert_same_weights, net, rows, twin
from tests.runtime.alone import assert_equal_bits, compiled, state

CPU = "/device:CPU:0"
SPEC = (tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((None, 1), tf.float32))


def unit(name: str, model: keras.Model, replicas: int = 1) -> Unit:
    return Unit(name, model, tuple(f"/device:CPU:{index}" for index in range(replicas)), CPU)


def some(*arrays: Any) -> tf.experimental.Optional:
    return tf.experimental.Optional.from_value(tuple(tf.constant(array) for array in arrays))


def none() -> tf.experimental.Optional:
    return tf.experimental.Optional.empty(SPEC)


def trainer(*models: keras.Model, **options: Any) -> JointProgram:
    members = [unit(name, model) for name, model in zip("abc", models, strict=False)]
    return JointProgram([MemberStep(each, units.train_step(each), SPEC) for each in members], **options)


@pytest.mark.parametrize("eager", [False, True])
def test_only_members_with_a_batch_that_run_take_a_step(eager: bool) -> None:
    """The others are left to the bit: no weight, slot or counter of theirs moves."""
    models = [compiled(net(), keras.optimizers.SGD(0.1, momentum=0.9), "mse") for _ in range(3)]
    running = {"c": tf.Variable(True, trainable=False)}
    program = trainer(*models, running=running, eager=eager)
    for batches, gate, want in (
        ({"a": some(*rows(2)), "b": none(), "c": some(*rows(5))}, True, [True, False, True]),
        ({"a": none(), "b": some(*rows(3)), "c": some(*rows(5))}, False, [False, True, False]),
        ({"a": none(), "b": none(), "c": none()}, True, [False, False, False]),
    ):
        running["c"].assign(gate)
        before = [state(model) for model in models]
        steps = [int(model.optimizer.iterations) for model in models]
        ran, results = program(batches)
        assert ran.numpy().tolist() == want
        assert [int(model.optimizer.iterations) for model in models] == [
            a + b for a, b in zip(steps, want, strict=True)
        ]
        for model, values, stepped, name in zip(models, before, want, "abc", strict=True):
            if stepped:
                assert np.isfinite(float(results[name]["loss"]))
            else:
                assert_equal_bits(state(model), values)


def test_one_trace_serves_batches_of_every_size() -> None:
    traced = []
    model = compiled(net(), "sgd", "mse")
    step = model.train_step
    model.train_step = lambda batch: traced.append(1) or step(batch)
    program = trainer(model)
    for size in (4, 1, 9):
        program({"a": some(*rows(size))})
        for most in (None, 2):
            x, y = (tf.constant(part) for part in rows(size))
            slices = ArrayBatches(ArrayRows((x, y), size, 2))
            slices.begin(0)
            program.run({"a": slices.slices}, {}, most)
    assert len(traced) == 1


def test_logs_become_numbers() -> None:
    logs = to_python({"loss": tf.constant(1.5), "matrix": tf.eye(2)})
    assert logs["loss"] == 1.5
    assert isinstance(logs["loss"], float)
    np.testing.assert_array_equal(logs["matrix"], np.eye(2))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_replicated_step_is_one_step_over_the_batch(size: int) -> None:
    """Same loss, gradients and metrics, whichever replicas have rows; one update, with the counters of one step."""
    model = keras.Sequential(
        [layers.Input((3,)), layers.Dense(4, activation="tanh", kernel_regularizer="l2"), layers.Dense(1)]
    )
    alone = twin(model)
    for each in (model, alone):
        compiled(each, keras.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    batch = tuple(tf.constant(array) for array in rows(size))
    got = units.train_step(unit("m", model, replicas=3))(batch)
    want = alone.train_step(batch)
    assert to_python(got) == pytest.approx(to_python(want), rel=1e-5)
    assert_same_weights(model, alone)
    assert int(model.optimizer.iterations) == 1
    got = units.test_step(unit("m", model, replicas=3))(batch)
    assert to_python(got) == pytest.approx(to_python(alone.test_step(batch)), rel=1e-5)


def test_gradients_of_an_embedding_stay_sparse_over_replicas() -> None:
    """Rows of a big table are put together, not added as whole tables."""
    model = keras.Sequential(
        [layers.Input((2,), dtype="int32"), layers.Embedding(50, 3), layers.Flatten(), layers.Dense(1)]
    )
    alone = twin(model)
    seen: list[Any] = []

    class Watched(keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars: Any) -> Any:
            pairs = list(grads_and_vars)
            seen.append(pairs[0][0])
            return super().apply_gradients(pairs)

    for each in (model, alone):
        compiled(each, Watched(0.1), "mse")
    batch = (tf.constant([[1, 2], [2, 49], [1, 1], [0, 3]]), tf.ones((4, 1)))
    units.train_step(unit("m", model, replicas=3))(batch)
    alone.train_step(batch)
    assert isinstance(seen[0], tf.IndexedSlices)
    assert sorted(seen[0].indices.numpy().tolist()) == [0, 1, 1, 1, 2, 2, 3, 49]
    assert_same_weights(model, alone)


def test_weights_behind_an_output_without_a_loss_are_left_alone() -> None:
    """They have no gradient, as alone: a gradient of zeros would let AdamW decay them."""
    x = keras.Input((3,))
    h = layers.Dense(4, activation="tanh")(x)
    model = keras.Model(x, [layers.Dense(1)(h), layers.Dense(2)(h)])
    alone = twin(model)
    for each in (model, alone):
        compiled(each, keras.optimizers.AdamW(0.1, weight_decay=0.5), ["mse", None])
    x_rows, y = (tf.constant(array) for array in rows(5))
    batch = (x_rows, [y, tf.zeros((5, 2))])
    unread = model.layers[-1].get_weights()[0]
    for step in (units.train_step(unit("m", model, replicas=2)), alone.train_step):
        with pytest.warns(UserWarning, match="Gradients do not exist"):  # Keras' own
            step(batch)
    assert_same_weights(model, alone)
    np.testing.assert_array_equal(model.layers[-1].get_weights()[0], unread)


def test_a_burst_is_so_many_steps_in_one_call() -> None:
    """Members of unlike lengths: equal to single steps to the bit, it stops at `most` and at the end of the rows."""

    def feed() -> Feed:
        data = {name: tuple(map(tf.constant, rows(n))) for name, n in {"a": 9, "b": 3}.items()}
        joint = joint_feed({"a": ArrayRows(data["a"], 9, 2, shuffle=True), "b": ArrayRows(data["b"], 3, 2)})
        for name in "ab":
            joint.begin(name)
        return joint

    models = [compiled(net(), keras.optimizers.Adam(0.1), "mse", metrics=["mae"]) for _ in range(2)]
    others = [twin(model) for model in models]
    for model in others:
        compiled(model, keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    steps, bursts = trainer(*models), trainer(*others)
    single, several = feed(), feed()
    for _ in range(5):
        _, taken, results = steps.run(single.slices, {})
        assert int(taken) == 1
        single.advance(1)
    got = []
    for most in (1, 3, 9, 2):
        counts, taken, last = bursts.run(several.slices, {}, most)
        several.advance(int(taken))
        got.append((*counts.numpy().tolist(), int(taken)))
        if most == 9:
            assert to_python(last["a"]) == to_python(results["a"])
    assert got == [(1, 1, 1), (3, 1, 3), (1, 0, 1), (0, 0, 0)]
    for mine, theirs in zip(others, models, strict=True):
        assert_equal_bits(state(mine), state(theirs))
    with pytest.raises(ValueError, match=r"several steps in one call need arrays of all members\. Received: most=2"):
        bursts.run({}, {"a": none(), "b": none()}, 2)
