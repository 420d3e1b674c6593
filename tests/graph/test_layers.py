"""Each layer of a joint graph: what it computes, its config, and a round trip through a file in safe mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from composer.graph.layers import BatchGroup, BatchMerge, BatchSplit, BatchUngroup, BranchOutput, PlacedReplicas
from composer.graph.slicing import join_rows, slice_sizes, split_rows
from tests.helpers import net

DEVICES = ["/device:CPU:1", "/device:CPU:2", "/device:CPU:3"]


def split_and_merge(rows: Any) -> Any:
    return BatchMerge(DEVICES[0])(BatchSplit(3)(rows))


def replicated(rows: Any) -> Any:
    return BatchMerge(DEVICES[0])(PlacedReplicas(net(), DEVICES)(BatchSplit(3)(rows)))


GRAPHS = {
    "split and merge": split_and_merge,
    "one placed replica": lambda rows: PlacedReplicas(net(), DEVICES[:1])(rows),
    "three placed replicas": replicated,
    "output": lambda rows: BranchOutput()(rows),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_round_trip_through_a_file_in_safe_mode(name: str, count: int, tmp_path: Path) -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, GRAPHS[name](inputs))
    rows = np.random.default_rng(0).normal(size=(count, 3)).astype("float32")
    want = model(rows).numpy()
    assert want.shape == (count, *model.output.shape[1:])
    model.save(tmp_path / "graph.keras")
    again = keras.saving.load_model(tmp_path / "graph.keras", safe_mode=True)
    np.testing.assert_array_equal(again(rows).numpy(), want)
    for mine, theirs in zip(again.layers, model.layers, strict=True):
        got, config = mine.get_config(), theirs.get_config()
        assert {key: got[key] for key in got if key != "model"} == {key: config[key] for key in got if key != "model"}


@pytest.mark.parametrize("group", [4, None])
def test_group_and_ungroup_keep_rows_in_order_c43(group: int | None, tmp_path: Path) -> None:
    """C43: `(n, k, f) -> (n*k, f) -> member -> (n, k, ...)`, by registered layers."""
    inputs = keras.Input((group, 2))
    model = keras.Model(inputs, BatchUngroup()(layers.Dense(1)(BatchGroup()(inputs)), inputs))
    rows = np.random.default_rng(0).normal(size=(5, 4, 2)).astype("float32")
    got = model.predict(rows, batch_size=2, verbose=0)
    assert got.shape == (5, 4, 1)
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(got, rows @ kernel + bias, atol=1e-6)
    model.save(tmp_path / "grouped.keras")
    np.testing.assert_array_equal(keras.saving.load_model(tmp_path / "grouped.keras").predict(rows, verbose=0), got)


@pytest.mark.parametrize(
    ("num_rows", "num_slices", "sizes"),
    [
        (5, 4, [2, 1, 1, 1]), (3, 4, [1, 1, 1, 0]), (1, 2, [1, 0]), (10, 4, [3, 3, 2, 2]), (7, 3, [3, 2, 2]),
        (0, 3, [0, 0, 0]), (35, 2, [18, 17]), (64, 3, [22, 21, 21]), (64, 5, [13, 13, 13, 13, 12]),
        (256, 6, [43, 43, 43, 43, 42, 42]),
    ],
)  # fmt: skip
def test_slices_differ_by_at_most_one_larger_first(num_rows: int, num_slices: int, sizes: list[int]) -> None:
    assert slice_sizes(num_rows, num_slices).numpy().tolist() == sizes


def test_split_and_join_of_structures_is_the_identity() -> None:
    rows = {"x": np.arange(14).reshape(7, 2), "names": np.array([f"r{i}" for i in range(7)])}
    structure = {key: tf.constant(value) for key, value in rows.items()}
    parts = split_rows(structure, 3)
    assert [len(part["x"]) for part in parts] == [3, 2, 2]
    joined = join_rows(parts)
    np.testing.assert_array_equal(joined["x"], rows["x"])
    assert [name.decode() for name in joined["names"].numpy()] == rows["names"].tolist()


@keras.saving.register_keras_serializable("tests")
class NoEmptyBatch(layers.Layer):
    """Fails as convolutions do when no row reaches it."""

    def call(self, inputs: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_positive(tf.shape(inputs)[0], "an empty slice")]):
            return tf.identity(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return inputs


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_an_empty_slice_never_reaches_a_layer(count: int) -> None:
    model = keras.Sequential([layers.Input((3,)), NoEmptyBatch(), layers.Dense(2)])
    inputs = keras.Input((3,))
    graph = keras.Model(
        inputs, BatchMerge(DEVICES[0])(PlacedReplicas(model, ["/device:CPU:0", *DEVICES])(BatchSplit(4)(inputs)))
    )
    rows = np.ones((count, 3), "float32")
    np.testing.assert_allclose(tf.function(graph)(rows), model(rows), atol=1e-6)


def test_numbers_of_slices_and_devices_are_checked() -> None:
    with pytest.raises(ValueError, match=r"at least 1\. Received: num_slices=0"):
        BatchSplit(0)
    with pytest.raises(ValueError, match=r"at least one device\. Received"):
        PlacedReplicas(net(), [])
