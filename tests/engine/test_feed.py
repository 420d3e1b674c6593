"""The joint feed: every row of every member once an epoch, in an order of its own; nothing padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from composer.engine.feed import ArrayRows, Feed, epoch_order, joint_feed
from composer.engine.streams import Stream, StreamRows
from composer.graph.private import data_adapter


def numbers(num_rows: int, batch: int, *, shuffle: bool = False, seed: int = 0) -> ArrayRows:
    return ArrayRows((tf.range(num_rows, dtype=tf.float32)[:, None],), num_rows, batch, shuffle, seed)


def batches(feed: Feed, name: str) -> list[list[float]]:
    """A member's batches from the next one on, up to the first step without one."""
    found = []
    while bool((batch := feed.arrays[name].slices.at(len(found))).has_value()):
        (x,) = batch.get_value()
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
    feed.begin("a")
    got = batches(feed, "a")
    assert [len(rows) for rows in got] == sizes
    assert flat(got) == list(range(num_rows))
    assert feed.num_batches == {"a": len(sizes)}
    assert int(feed.steps.cardinality()) == len(sizes)
    assert feed.batch_specs["a"][0].shape.as_list() == [None, 1]  # one program for full and short batches


def test_members_of_unlike_lengths_side_by_side() -> None:
    feed = joint_feed({"long": numbers(10, 2), "short": numbers(3, 2)})
    assert int(feed.steps.cardinality()) == 5
    present: dict[str, list[bool]] = {"long": [], "short": []}
    for name in present:
        feed.begin(name)
    for _ in range(6):
        for name, slices in feed.slices.items():
            present[name].append(bool(slices.at(0).has_value()))
        feed.advance(1)
    assert present == {"long": [True] * 5 + [False], "short": [True] * 2 + [False] * 4}
    assert not feed.endless


def stream(dataset: tf.data.Dataset, steps: int | None = None) -> StreamRows:
    return StreamRows(data_adapter(dataset), dataset, steps)


def taken(source: Stream, epoch: int = 0) -> list[list[float]]:
    """One epoch of a stream's batches."""
    source.begin(epoch)
    found = []
    while source.has_step():
        batch = source.take()
        if bool(batch.has_value()):
            found.append(batch.get_value()[0].numpy()[:, 0].tolist())
    return found


def test_a_member_that_sits_an_epoch_out_has_no_batch() -> None:
    feed = joint_feed({"a": numbers(3, 2), "b": numbers(4, 2)})
    feed.begin("a", present=False)
    feed.begin("b")
    assert batches(feed, "a") == []
    assert batches(feed, "b") == [[0, 1], [2, 3]]
    feed.begin("a", present=True)
    assert batches(feed, "a") == [[0, 1], [2]]
    feed.begin("a")
    feed.skip("a", 1)
    assert batches(feed, "a") == [[2]]


def test_a_stream_that_sits_an_epoch_out_goes_on_with_its_next_order() -> None:
    def shuffling() -> Stream:
        dataset = tf.data.Dataset.range(6).shuffle(6, seed=1).map(lambda x: tf.cast(x, tf.float32)[None])
        return joint_feed({"a": stream(dataset.batch(2).map(lambda x: (x,)))}).streams["a"]

    alone, other = shuffling(), shuffling()
    want = [taken(alone) for _ in range(2)]
    got = [taken(other)]
    assert not other.has_step()
    assert not bool(other.take().has_value())
    assert [*got, taken(other)] == want
    assert want[0] != want[1]


def test_shuffled_orders_follow_from_seed_and_epoch_alone() -> None:
    feed = joint_feed({"a": numbers(9, 4, shuffle=True, seed=5), "b": numbers(30, 4, shuffle=True, seed=5)})
    other = joint_feed({"a": numbers(9, 2, shuffle=True, seed=5)})
    orders = []
    for epoch in (0, 1, 7):
        for each in (feed, other):
            each.begin("a", epoch)
        order = flat(batches(feed, "a"))
        assert order == epoch_order(9, 5, epoch).tolist()
        assert flat(batches(other, "a")) == order  # other members and batch sizes change nothing
        assert sorted(order) == list(range(9))
        orders.append(order)
    assert orders[0] != orders[1] != orders[2]


def test_an_order_is_the_same_on_every_machine() -> None:
    """What a run saw can be told from its seed, later and elsewhere."""
    assert epoch_order(8, 1, 0).tolist() == [5, 0, 1, 4, 2, 6, 3, 7]
    assert epoch_order(8, 1, 1).tolist() != epoch_order(8, 2, 1).tolist()


def test_a_length_that_is_not_known_leaves_the_steps_without_end() -> None:
    untold = tf.data.Dataset.range(5).filter(lambda x: x > 1).map(lambda x: (tf.cast(x, tf.float32)[None, None],))
    feed = joint_feed({"a": stream(untold), "b": numbers(2, 1)})
    assert feed.endless
    assert feed.num_batches == {"a": None, "b": 2}
    feed.begin("b")
    assert batches(feed, "b") == [[0], [1]]
    assert int(feed.steps.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert taken(feed.streams["a"]) == [[2], [3], [4]]
    assert int(feed.counted_steps.cardinality()) > 2**32


@pytest.mark.parametrize("packed", [True, False])
def test_structures_of_batches_are_kept(packed: bool) -> None:
    """Dicts and tuples go through as they are; so does a dataset whose elements are no tuples."""
    element: Any = {"x": tf.ones((4, 2)), "y": (tf.zeros((4, 1)), tf.range(4))}
    if packed:
        feed = joint_feed({"a": ArrayRows((element,), 4, 3)})
        feed.begin("a")
        step = feed.arrays["a"].slices.at(0).get_value()
    else:
        source = joint_feed({"a": stream(tf.data.Dataset.from_tensor_slices(element).batch(3))}).streams["a"]
        source.begin(0)
        step = source.take().get_value()
    (got,) = step if packed else (step,)
    assert {name: tf.nest.map_structure(lambda leaf: tuple(leaf.shape), value) for name, value in got.items()} == {
        "x": (3, 2),
        "y": ((3, 1), (3,)),
    }
    np.testing.assert_array_equal(got["y"][1], [0, 1, 2])
