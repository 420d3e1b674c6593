"""Where Keras' loop drives a `fit`: the first joint callback, which lets every member begin and end its epochs."""

from __future__ import annotations

from typing import Any

import keras

from composer.engine.programs import Logs
from composer.runtime.session import TrainingSession


class FitController(keras.callbacks.Callback):
    """The first joint callback of a `fit`: lets every member begin and end its epochs when Keras does."""

    def __init__(self, session: TrainingSession) -> None:
        super().__init__()
        self.session = session

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.session.begin()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.session.begin_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        changed = self.session.training.close()
        if logs is not None:
            logs.update(changed)  # the other callbacks get the same dict
        if not self.session.end_epoch(epoch):
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.session.end()

    def set_params(self, params: dict[str, Any]) -> None:
        """Where there are streams, Keras was given more steps than any epoch has; it is to show how many there are."""
        params["steps"] = self.session.training.feed.num_steps
        super().set_params(params)
