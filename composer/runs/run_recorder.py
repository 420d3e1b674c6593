"""Keeps a run folder up to date while its members train, so that a run which is cut off has what was trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import keras

from composer.errors import ComposerError
from composer.runs.run_folder import HasMembers, RunFolder, RunRecord, State
from composer.runtime.callback_state import StatelessCallback

SAVING_SHARE = 0.05
"""Saving models, and writing histories, may each take this share of the time between epochs at most."""
LONGEST_LOSS = 30.0
"""Seconds of training that are kept unsaved even where saving is cheap."""


class RunRecorder:
    """Collects each member's history and writes it with the models: now and then between epochs, and at the end.

    Use it as a context around `fit`. However that ends, the models are saved as they are, the histories and curves are
    written, and `run.json` says `finished`, `interrupted` (Ctrl-C) or `failed`.

    Args:
        folder: where to.
        joint: whose members are trained.
        record: the run's record at its start; it is written on entering.
        histories: what the members had logged before, of a run that is resumed.
        resumed: whether the folder holds what an earlier part of the run has saved: until training goes on that stays.
        clock: seconds that only grow.

    Example:
        >>> folder = RunFolder.create(Path("runs/first"))
        >>> data = {"a": (xa, ya), "b": (xb, yb)}
        >>> with RunRecorder(folder, joint, RunRecord.start({}, {})) as recorder:
        ...     history = joint.fit(data, epochs=2, callbacks=recorder.callbacks(), verbose=0)
        >>> recorder.record.state
        'finished'
    """

    def __init__(
        self,
        folder: RunFolder,
        joint: HasMembers,
        record: RunRecord,
        histories: Mapping[str, Mapping[str, list[float]]] | None = None,
        resumed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.record = record
        self.histories: dict[str, dict[str, list[float]]] = {name: {} for name in joint.members}
        for name, history in (histories or {}).items():
            self.histories[name] = {metric: list(values) for metric, values in history.items()}
        self._joint = joint
        self._clock = clock
        self._saved_at = clock()
        self._cost = 0.0
        self._written_at = clock()
        self._history_cost = 0.0
        self._began = not resumed

    def callbacks(self, others: Mapping[str, list[keras.callbacks.Callback]] | None = None) -> dict[str, list[Any]]:
        """Callbacks for the joint `fit`, by member and, under `"*"`, joint; after the `others`."""
        own: dict[str, list[Any]] = {name: [_Collector(self, name)] for name in self.histories}
        own["*"] = [_Flusher(self)]
        given = dict(others or {})
        return {name: [*given.pop(name, ()), *callbacks] for name, callbacks in own.items()} | given

    def begin(self) -> None:
        """Training begins, or goes on: from now on what is saved is newer than what the folder holds."""
        self._began = True

    def add_epoch(self, member: str, logs: Mapping[str, float]) -> None:
        """Takes what a member logged at the end of an epoch, under its plain names."""
        history = self.histories[member]
        for metric, value in logs.items():
            history.setdefault(metric, []).append(float(value))

    def epochs(self) -> dict[str, int]:
        """How many epochs each member has been through."""
        return {name: max(map(len, history.values()), default=0) for name, history in self.histories.items()}

    def update(self) -> bool:
        """Writes the histories and the models, each where that is due. Returns whether the models were saved."""
        start = self._clock()
        if (start - self._written_at) * SAVING_SHARE >= self._history_cost:  # it grows with every epoch
            self.folder.write_history(self.histories)
            self._written_at = self._clock()
            self._history_cost = self._written_at - start
        since = self._clock() - self._saved_at
        if since < LONGEST_LOSS or since * SAVING_SHARE < self._cost:
            return False
        self._save()
        return True

    def _save(self) -> None:
        start = self._clock()
        epochs = self.epochs()
        saved = self.folder.save_members(self._joint)
        self.record = self.record.with_epochs({name: epochs[name] for name in saved})
        self.folder.write_run_json(self.record)
        self._saved_at = self._clock()
        self._cost = self._saved_at - start

    def finish(self, state: State, message: str = "") -> None:
        """Writes everything as it is now, and why the run ended."""
        if self._began:
            self.folder.write_history(self.histories)
            self._save()
        self.record = self.record.end(state, message)
        self.folder.write_run_json(self.record)
        if self._began:
            self.folder.write_curves(self.histories)

    def __enter__(self) -> RunRecorder:
        self.folder.write_run_json(self.record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish("finished")
            return
        interrupted = issubclass(kind, KeyboardInterrupt)
        try:
            self.finish("interrupted" if interrupted else "failed", "" if interrupted else f"{kind.__name__}: {error}")
        except ComposerError as second:
            if interrupted:  # the user must learn that not all is kept
                raise ComposerError(f"the run was interrupted, and not all of it could be saved: {second}") from second


class _Collector(StatelessCallback):
    """A member's callback: hands its logs to the recorder."""

    def __init__(self, recorder: RunRecorder, member: str) -> None:
        super().__init__()
        self._recorder = recorder
        self._member = member

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._recorder.add_epoch(self._member, logs or {})


class _Flusher(StatelessCallback):
    """A joint callback: writes what the members have logged, after all of them have."""

    def __init__(self, recorder: RunRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        self._recorder.begin()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._recorder.update()
