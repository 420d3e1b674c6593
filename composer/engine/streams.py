"""Rows that come batch by batch: from a `tf.data.Dataset`, a `PyDataset` or a Python generator.

Keras' own `fit` takes them through an epoch iterator, which knows how many steps an epoch has, when a new pass over the
data begins and what to do where they run out. Each such member keeps one of its own here and is asked for one batch a
joint step, so its rows, their order and the number of its steps are those of its model alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from composer.engine.batch_order import BatchOrder
from composer.graph.private import EpochIterator


@dataclass(frozen=True)
class StreamRows:
    """Rows that something yields in batches.

    Args:
        adapter: Keras' own adapter of it.
        dataset: the batches.
        steps: batches an epoch; None for all there are.
        order: where the batches are shuffled, what is to be told of each epoch.
    """

    adapter: Any
    dataset: tf.data.Dataset
    steps: int | None = None
    order: BatchOrder | None = None

    @property
    def num_batches(self) -> int | None:
        """Of one epoch; None where that is not known."""
        return self.steps or self.adapter.num_batches

    @property
    def never_ends(self) -> bool:
        """Whether an epoch would go on for ever."""
        if self.steps is not None:
            return False
        return int(self.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY or (
            hasattr(self.adapter, "py_dataset") and self.adapter.num_batches is None
        )

    @property
    def yields_once(self) -> bool:
        """Whether the batches are gone once they have been taken."""
        return hasattr(self.adapter, "generator")

    @property
    def batch_spec(self) -> Any:
        """The structure of one batch."""
        return self.dataset.element_spec


class Stream:
    """The batches of one member in one `fit`, `evaluate` or `predict`.

    Args:
        rows: where they come from.
    """

    def __init__(self, rows: StreamRows) -> None:
        self.rows = rows
        self.nothing = tf.experimental.Optional.empty(rows.batch_spec)
        self._epochs: Any = EpochIterator(rows.adapter, rows.dataset, rows.steps)
        self._iterator: Any = None  # what the next batch is to be taken from
        self._open = False

    def reset(self) -> None:
        """Begin with the first batch; Keras does so before a `fit` and before every evaluation."""
        self._epochs.reset()

    def begin(self, epoch: int) -> None:
        """Begin an epoch."""
        if self.rows.order is not None:
            self.rows.order.begin(epoch)
        iter(self._epochs)
        self._iterator, self._open = None, True

    def has_step(self) -> bool:
        """Whether the epoch has another step. Of rows that cannot tell their number, only `take` knows for sure."""
        if self._open and self._iterator is None:
            try:
                _, _, self._iterator = next(self._epochs)
            except StopIteration:
                self._open = False
        return self._open

    def fetch(self) -> tf.experimental.Optional:
        """The next batch of the epoch, or none. Where rows cannot tell their number, whoever finds none calls `end`."""
        if not self.has_step():
            return self.nothing
        iterator, self._iterator = self._iterator, None
        return iterator.get_next_as_optional()

    @property
    def fetched(self) -> bool:
        """Whether `fetch` has asked the data for a batch, and nobody has asked for the next step since."""
        return self._open and self._iterator is None

    def end(self) -> None:
        """What was fetched was none: the epoch has come to its end."""
        self._open = False
        self._epochs.end_of_data()

    def take(self) -> tf.experimental.Optional:
        """The next batch of the epoch, or none where it has no more."""
        batch = self.fetch()
        if self.fetched and not batch.has_value():
            self.end()
        return batch

    def pause(self) -> None:
        """Take nothing more until the next epoch."""
        self._open = False

    def close(self) -> None:
        """Let go of the data, and of the workers that fetch it."""
        self._open, self._epochs, self._iterator = False, None, None

    @property
    def ran_out(self) -> bool:
        """Whether there was less than the steps asked for, since this was asked last."""
        if self._epochs is None:
            return False
        found, self._epochs.ran_out = self._epochs.ran_out, False
        return bool(found)
