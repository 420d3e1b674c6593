"""Keras callbacks that tell somebody outside how a joint `fit` goes, in plain Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import keras

from composer.runtime.callback_state import StatelessCallback
from composer.runtime.watching import BurstCallback


class FitListener(Protocol):
    """Who is told. `member` is a member's name; epochs count from 0; logs have the member's plain names.

    `wants_steps` says whether `step` is to be called: it costs a look at every member's logs for each batch.
    """

    wants_steps: bool

    def begin_member(self, member: str, epochs: int, steps: int | None) -> None:
        """A member is about to train for so many epochs, of so many batches each (None where that is not known)."""

    def begin_epoch(self, member: str, epoch: int) -> None:
        """A member begins an epoch."""

    def step(self, step: int, logs: Mapping[str, float]) -> None:
        """All members have gone through batch `step` of the epoch; the logs are by `member_metric`."""

    def end_epoch(self, member: str, epoch: int, logs: Mapping[str, float]) -> None:
        """A member has ended an epoch, its validation included."""

    def end_round(self, epoch: int) -> None:
        """Every member that takes part has ended this epoch."""

    def end_member(self, member: str) -> None:
        """A member is through, or has stopped early."""


def progress_callbacks(listener: FitListener, members: Mapping[str, Any]) -> dict[str, list[keras.callbacks.Callback]]:
    """The callbacks that feed a listener, by member and, under `"*"`, joint, as `joint.fit` takes them."""
    joint = _JointSteps(listener) if listener.wants_steps else _JointProgress(listener)
    return {**{name: [_MemberProgress(listener, name)] for name in members}, "*": [joint]}


class StopBetweenBatches(BurstCallback, StatelessCallback):
    """A joint callback that ends a `fit` where no batch is half done.

    Args:
        should_stop: asked before each batch.

    Raises:
        KeyboardInterrupt: from `fit`, once `should_stop` says so.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        super().__init__()
        self._should_stop = should_stop

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._should_stop():
            raise KeyboardInterrupt


class _MemberProgress(StatelessCallback):
    def __init__(self, listener: FitListener, member: str) -> None:
        super().__init__()
        self._listener = listener
        self._member = member

    def on_train_begin(self, logs: Any = None) -> None:
        self._listener.begin_member(self._member, self.params["epochs"], self.params["steps"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._listener.begin_epoch(self._member, epoch)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._listener.end_epoch(self._member, epoch, dict(logs or {}))

    def on_train_end(self, logs: Any = None) -> None:
        self._listener.end_member(self._member)


class _JointProgress(BurstCallback, StatelessCallback):
    def __init__(self, listener: FitListener) -> None:
        super().__init__()
        self._listener = listener

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._listener.end_round(epoch)


class _JointSteps(_JointProgress):
    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._listener.step(batch, logs or {})
