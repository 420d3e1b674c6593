"""The order of a `PyDataset`'s batches where they are shuffled."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


class BatchOrder(keras.utils.PyDataset):
    """Another `PyDataset`, its batches in its own order until `shuffle` is called, then in a new one each epoch.

    Keras shuffles batches by Python's global random state, which all members would draw from by turns. These orders
    depend on nothing but a seed and the epoch.

    Args:
        batches: where the batches come from, and the workers that fetch them.
    """

    def __init__(self, batches: keras.utils.PyDataset) -> None:
        super().__init__(
            workers=batches.workers,
            use_multiprocessing=batches.use_multiprocessing,
            max_queue_size=batches.max_queue_size,
        )
        self.batches = batches
        self._seed: int | None = None
        self._by_pass = False
        self._number = -1
        self._order: list[int] | None = None

    def shuffle(self, seed: int, *, by_pass: bool) -> None:
        """Take each epoch in an order of its own.

        Args:
            seed: with the epoch, all that the order depends on.
            by_pass: epochs take only some of the batches each, so the order changes when a pass over all of them
                begins.
        """
        self._seed = seed
        in_turn = self.workers <= 1 and not (self.workers and self.use_multiprocessing)
        self._by_pass = by_pass and in_turn  # workers begin with the first batch in every epoch

    def begin(self, epoch: int) -> None:
        """An epoch is about to begin."""
        if not self._by_pass:
            self._draw(epoch)

    def _draw(self, number: int) -> None:
        self._number = number
        if self._seed is not None and self.num_batches is not None:
            self._order = np.random.default_rng([self._seed, number]).permutation(self.num_batches).tolist()

    @property
    def num_batches(self) -> int | None:
        return self.batches.num_batches

    def __getitem__(self, index: int) -> Any:
        if self._by_pass and index == 0:
            self._draw(self._number + 1)
        return self.batches[index if self._order is None else self._order[index]]

    def on_epoch_begin(self) -> None:
        self.batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self.batches.on_epoch_end()
