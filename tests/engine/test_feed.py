"""The joint dataset: every row of every member once an epoch, in an order of its own; nothing padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from composer.engine.feed import ArrayRows, DatasetRows, Feed, Rows, epoch_order, joint_feed


def numbers(num_rows: int, batch: int, *, shuffle: bool = False, seed: int = 0) -> ArrayRows:
    return ArrayRows((tf.range(num_rows, dtype=tf.float32)[:, None],), num_rows, batch, shuffle, seed)


def batches(feed: Feed, name: str, limit: int = 100) -> list[list[float]]:
    """One epoch of a member's batches, up to the first step without one."""
    found = []
    for step in feed.dataset.take(limit):
        if not bool(step[name].has_value()):
            break
        (x,) = step[name].get_value()
        found.append(x.numpy()[:, 0].tolist())
    return found


def flat(found: list[list[float]]) -> list[float]:
    return [number for batch in found for number in batch]


@pytest.mark.parametrize(
    ("num_rows", "batch", "sizes"),
    [(7, 3, [3, 3, 1]), (6, 3, [3, 3]), (2, 8, [2]), (1, 1, [1]), (8, 8, [8]), (9, 8, [8, 1])],
)
def test_every_row_once_in_batches_of_its_size_the_last_as_it_is(num_rows: int, batch: int, sizes: list[int]) -> None:
    feed = joint_feed({"a": numbers(num_rows, batch)})
    got = batches(feed, "a")
    assert [len(rows) for rows in got] == sizes
    assert flat(got) == list(range(num_rows))
    assert feed.num_batches == {"a": len(sizes)}
    assert int(feed.dataset.cardinality()) == len(sizes)
    assert feed.batch_specs["a"][0].shape.as_list() == [None, 1]  # one program for full and short batches


def test_members_of_unlike_lengths_side_by_side() -> None:
    feed = joint_feed({"long": numbers(10, 2), "short": numbers(3, 2)})
    present = [{name: bool(batch.has_value()) for name, batch in step.items()} for step in feed.dataset]
    assert [step["long"] for step in present] == [True] * 5
    assert [step["short"] for step in present] == [True, True, False, False, False]
    assert not feed.endless


def test_a_shut_gate_yields_no_batch_and_draws_no_order() -> None:
    """Gates are read when an epoch begins. A shuffling dataset that sits an epoch out goes on with its next order."""

    def shuffling() -> Rows:
        dataset = tf.data.Dataset.range(6).shuffle(6, seed=1).map(lambda x: tf.cast(x, tf.float32)[None])
        return DatasetRows(dataset.batch(2).map(lambda x: (x,)))

    alone = joint_feed({"a": shuffling()})
    want = [batches(alone, "a") for _ in range(2)]
    feed = joint_feed({"a": shuffling(), "b": numbers(4, 2)})
    assert batches(feed, "a") == want[0]
    feed.gates["a"].present.assign(False)
    assert batches(feed, "a") == []
    assert batches(feed, "b") == [[0, 1], [2, 3]]
    feed.gates["a"].present.assign(True)
    assert batches(feed, "a") == want[1]
    assert want[0] != want[1]


def test_shuffled_orders_follow_from_seed_and_epoch_alone() -> None:
    feed = joint_feed({"a": numbers(9, 4, shuffle=True, seed=5), "b": numbers(30, 4, shuffle=True, seed=5)})
    other = joint_feed({"a": numbers(9, 2, shuffle=True, seed=5)})
    orders = []
    for epoch in (0, 1, 7):
        for each in (feed, other):
            each.gates["a"].epoch.assign(epoch)
        order = flat(batches(feed, "a"))
        assert order == epoch_order(9, 5, epoch).numpy().tolist()
        assert flat(batches(other, "a")) == order  # other members and batch sizes change nothing
        assert sorted(order) == list(range(9))
        orders.append(order)
    assert orders[0] != orders[1] != orders[2]


def test_an_order_is_the_same_on_every_machine() -> None:
    """What a run saw can be told from its seed, later and elsewhere."""
    assert epoch_order(8, 1, 0).numpy().tolist() == [3, 0, 6, 1, 5, 2, 7, 4]
    assert epoch_order(8, 1, 1).numpy().tolist() != epoch_order(8, 2, 1).numpy().tolist()


def test_a_length_that_is_not_known_leaves_the_joint_dataset_without_end() -> None:
    untold = tf.data.Dataset.range(5).filter(lambda x: x > 1).map(lambda x: (tf.cast(x, tf.float32)[None, None],))
    feed = joint_feed({"a": DatasetRows(untold), "b": numbers(2, 1)})
    assert feed.endless
    assert feed.num_batches == {"a": None, "b": 2}
    present = [[bool(step[name].has_value()) for name in "ab"] for step in feed.dataset.take(5)]
    assert present == [[True, True], [True, True], [True, False], [False, False], [False, False]]


@pytest.mark.parametrize("packed", [True, False])
def test_structures_of_batches_are_kept(packed: bool) -> None:
    """Dicts and tuples go through as they are; so does a dataset whose elements are no tuples."""
    element: Any = {"x": tf.ones((4, 2)), "y": (tf.zeros((4, 1)), tf.range(4))}
    rows: Any = (
        ArrayRows((element,), 4, 3) if packed else DatasetRows(tf.data.Dataset.from_tensor_slices(element).batch(3))
    )
    step = next(iter(joint_feed({"a": rows}).dataset))["a"].get_value()
    (got,) = step if packed else (step,)
    assert {name: tf.nest.map_structure(lambda leaf: tuple(leaf.shape), value) for name, value in got.items()} == {
        "x": (3, 2),
        "y": ((3, 1), (3,)),
    }
    np.testing.assert_array_equal(got["y"][1], [0, 1, 2])
