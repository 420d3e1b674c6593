"""From a plan to one functional graph: names, structures, shapes, masks; the members' own models are only called."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from composer.graph.layers import BatchGroup, BatchMerge, BatchSplit, BatchUngroup, BranchOutput, PlacedReplicas
from tests.helpers import net, rows


@pytest.mark.parametrize(
    ("branch", "chain"),
    [
        ("m", [PlacedReplicas, BranchOutput]),
        ("m x3", [BatchSplit, PlacedReplicas, BatchMerge, BranchOutput]),
        ("m group=2", [BatchGroup, PlacedReplicas, BatchUngroup, BranchOutput]),
        ("m x2 group=auto", [BatchGroup, BatchSplit, PlacedReplicas, BatchMerge, BatchUngroup, BranchOutput]),
    ],
)
def test_a_branch_is_made_of_the_layers_it_needs(branch: str, chain: list[type]) -> None:
    joint = composer.compile(f"parallel({branch}, other) on gpus=4", m=net(), other=net())
    assert [type(layer) for layer in joint.layers if layer.name.startswith("m.")] == chain
    placed = next(layer for layer in joint.layers if isinstance(layer, PlacedReplicas) and layer.name == "m.replicas")
    assert placed.model is joint.members["m"].model


def test_devices_are_those_of_the_plan() -> None:
    spec = "parallel(m x2 at=[gpu:3, gpu:1], n) on gpus=4 merge=gpu:2"
    joint = composer.compile(spec, m=net(), n=net())
    assert joint.members["m"].layer.devices == ("/device:CPU:3", "/device:CPU:1")
    merge = next(layer for layer in joint.layers if isinstance(layer, BatchMerge))
    assert merge.device == joint.members["m"].merge == "/device:CPU:2"


def test_inputs_and_outputs_are_by_member_with_an_open_batch() -> None:
    left, right = keras.Input((2,), name="left"), keras.Input((3, 1), dtype="int32", name="right")
    h = layers.Concatenate()([left, layers.Flatten()(layers.Embedding(5, 2)(layers.Flatten()(right)))])
    model = keras.Model({"left": left, "right": right}, [layers.Dense(1)(h), layers.Dense(2)(h)])
    joint = composer.compile("parallel(m x2, n group=4) on gpus=2", m=model, n=net())
    shapes = keras.tree.map_structure(lambda tensor: (tensor.shape, tensor.dtype), joint.input)
    assert shapes == {
        "m": {"left": ((None, 2), "float32"), "right": ((None, 3, 1), "int32")},
        "n": ((None, 4, 3), "float32"),
    }
    outputs = keras.tree.map_structure(lambda tensor: tensor.shape, joint.output)
    assert outputs == {"m": [(None, 1), (None, 2)], "n": (None, 4, 1)}


def test_a_model_of_a_fixed_batch_keeps_it() -> None:
    model = keras.Sequential([layers.Input((3,), batch_size=4), layers.Dense(1)])
    joint = composer.compile("parallel(m)", m=model)
    assert joint.input["m"].shape == (4, 3)
    assert joint.output["m"].shape == (4, 1)


@pytest.mark.parametrize("branch", ["m", "m x3", "m x2 group=2"])
def test_masks_pass_through_the_graph_without_a_warning(branch: str) -> None:
    """A mask that a model leaves on its output is on the joint output too, cut, joined and grouped with the rows."""
    words = keras.Input((4,), dtype="int32")
    model = keras.Model(words, layers.Dense(2)(layers.Embedding(9, 3, mask_zero=True)(words)))
    joint = composer.compile(f"parallel({branch}) on gpus=4", m=model)
    x = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 7], [8, 8, 0, 0]])
    grouped = x.reshape(2, 2, 4) if "group" in branch else x
    out = joint({"m": grouped})["m"]
    np.testing.assert_allclose(np.reshape(out, (4, 4, 2)), model(x), atol=1e-6)
    np.testing.assert_array_equal(out._keras_mask, grouped != 0)


def test_the_graph_trains_nothing_of_its_own() -> None:
    a, b = net(), net(5)
    joint = composer.compile("parallel(a x2, b group=3) on gpus=4", a=a, b=b)
    assert {id(weight) for weight in joint.weights} == {id(weight) for weight in (*a.weights, *b.weights)}
    assert joint.count_params() == a.count_params() + b.count_params()


@pytest.mark.parametrize("replicas", [1, 4])
def test_the_joint_model_is_called_as_any_keras_model(replicas: int) -> None:
    """With any number of rows, eagerly, in training and out of it."""
    model = keras.Sequential([layers.Input((3,)), layers.Dense(2), layers.Dropout(0.5)])
    joint = composer.compile(f"parallel(m x{replicas}, n) on gpus=4", m=model, n=net())
    for size in (1, 3, 5):
        x: Any = {"m": rows(size)[0], "n": rows(2)[0]}
        np.testing.assert_allclose(joint(x)["m"], model(x["m"]), atol=1e-6)
        dropped = joint(x, training=True)["m"]
        assert dropped.shape == (size, 2)
    many = joint({"m": rows(60)[0], "n": rows(2)[0]}, training=True)["m"]
    assert 0.3 < float(np.mean(np.array(many) == 0.0)) < 0.7
