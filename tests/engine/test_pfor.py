"""The batching of a function over members: the rules of composer's own, and the private names that they stand on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor as private

from composer.engine import pfor
from composer.engine.pfor import SIDE_BY_SIDE, vectorized

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> tf.Tensor:
    return tf.constant(RNG.normal(size=shape).astype("float32"))


@pytest.mark.parametrize(
    "name", ["_pfor_converter_registry", "_fallback_converter", "_create_op", "wrap", "_PforInput", "PFor"]
)
def test_private_names_are_there(name: str) -> None:
    assert hasattr(private, name), f"TensorFlow has moved `pfor.{name}`"


def test_a_rule_takes_what_the_rules_here_read() -> None:
    seen = {}

    def rule(rule_input: pfor.Any) -> pfor.Any:
        seen.update(type=rule_input.op_type, stacked=[stacked for _, stacked, _ in rule_input.inputs])
        seen["padding"], seen["members"] = rule_input.get_attr("padding"), rule_input.pfor.loop_len_vector
        return pfor._member_by_member(rule_input)

    before = dict(pfor._RULES)
    pfor._RULES["Conv2D"] = rule
    try:
        run(lambda each: tf.nn.conv2d(*each, 1, "SAME"), (tensor(2, 1, 4, 4, 1), tensor(2, 3, 3, 1, 2)))
    finally:
        pfor._RULES.update(before)
    assert (seen["type"], seen["stacked"], seen["padding"]) == ("Conv2D", [True, True], b"SAME")
    assert seen["members"].shape == (1,)


def run(function: Callable[..., tf.Tensor], arguments: object, *, columns: bool = False) -> tuple[tf.Tensor, set[str]]:
    looped: set[str] = set()
    traced = tf.function(lambda given: vectorized(function, given, looped, columns=columns), autograph=False)
    return traced(arguments), looped


def test_the_table_of_rules_is_as_before() -> None:
    before, rules = private._pfor_converter_registry, dict(private._pfor_converter_registry)
    run(lambda each: tf.nn.conv2d(*each, 1, "SAME"), (tensor(2, 1, 4, 4, 1), tensor(2, 3, 3, 1, 2)))
    assert private._pfor_converter_registry is before
    assert dict(before) == rules


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "VALID")])
def test_convolutions_of_which_each_member_has_its_own_filter(stride: int, padding: str, columns: bool) -> None:
    images, weights = tensor(3, 2, 7, 6, 2), tensor(3, 3, 2, 2, 4)

    def gradients(each: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(each)
            loss = tf.reduce_sum(tf.sin(tf.nn.conv2d(*each, stride, padding)))
        return tape.gradient(loss, each)

    found, looped = run(gradients, (images, weights), columns=columns)
    expected = [gradients(each) for each in zip(tf.unstack(images), tf.unstack(weights), strict=True)]
    for mine, theirs in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(mine, tf.stack(theirs), atol=1e-5)
    assert not looped


@pytest.mark.parametrize(("size", "strides", "padding"), [(2, 2, "VALID"), (3, 3, "VALID"), (3, 2, "SAME")])
def test_gradients_of_pools_go_to_the_first_of_equal_numbers(size: int, strides: int, padding: str) -> None:
    images = tf.nn.relu(tensor(3, 2, 7, 9, 2))

    def gradient(image: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(image)
            pooled = tf.nn.max_pool2d(image, size, strides, padding)
            scale = tf.reshape(tf.range(float(pooled.shape.num_elements())), pooled.shape)
            loss = tf.reduce_sum(tf.cos(pooled) * scale)
        return tape.gradient(loss, image)

    found, _ = run(gradient, images)
    np.testing.assert_allclose(found, tf.stack([gradient(image) for image in tf.unstack(images)]), atol=1e-6)


def test_random_numbers_are_each_members_own() -> None:
    seeds = tf.constant([[1, 2], [3, 4]])
    found, looped = run(lambda seed: tf.random.stateless_uniform([5], seed), seeds)
    expected = [tf.random.stateless_uniform([5], seed) for seed in tf.unstack(seeds)]
    np.testing.assert_array_equal(found, tf.stack(expected))
    assert not looped


def test_what_has_no_rule_is_noted() -> None:
    found, looped = run(lambda x: tf.nn.local_response_normalization(x), tensor(2, 1, 3, 3, 4))
    assert found.shape == (2, 1, 3, 3, 4)
    assert looped == {"LRN"}


def test_what_has_a_shape_of_its_own_for_each_member_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="the shape of what `Where` gives depends on the numbers in it"):
        run(lambda x: tf.where(x > 0), tensor(2, 3))


def test_rules_are_for_operations_that_there_are() -> None:
    for name in (*SIDE_BY_SIDE, *pfor._RULES, *pfor._COLUMNS):
        assert hasattr(tf.raw_ops, name), f"TensorFlow has no operation `{name}` any more"
