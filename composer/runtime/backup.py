"""Exact resume: everything that one `fit` has changed so far, in one file that appears whole or not at all.

A backup holds each member's weights, statistics and seed states, its optimizer, its progress, and what its callbacks
and the joint ones remember; within an epoch also the metrics, so that the epoch's logs are those of all of its batches.
The order of rows follows from the seeds and the epoch alone and is not kept.
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import keras
import numpy as np

from composer.diagnostics import Diagnostic, render_text
from composer.engine.programs import Logs
from composer.errors import ComposerError, DataError, ResumeError
from composer.graph.keyed import KeyedModel
from composer.graph.private import carried_states
from composer.runtime.atomic_files import make_folder, write_atomically, write_text_atomically
from composer.runtime.callback_state import StatelessCallback, callback_state, decoded, encoded, restore_callback
from composer.runtime.conditions import differences
from composer.runtime.session import Resumed, TrainingSession
from composer.runtime.watching import BurstCallback

FORMAT_VERSION = 3
FILE = "backup.npz"
_META = "meta"
MOST_TOLD = 8
"""Of what differs from then."""


@dataclass(frozen=True)
class Backup:
    """What a file holds: `meta` is plain data, `arrays` the rest."""

    meta: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @property
    def resumed(self) -> Resumed:
        """How far the `fit` had come."""
        progress: dict[str, Any] = decoded(self.meta["progress"], self.arrays)
        return Resumed(**progress)

    @property
    def histories(self) -> dict[str, dict[str, list[float]]]:
        """Each member's history so far."""
        histories = {}
        for key, state in self.meta["callbacks"].items():
            member, _, _ = key.rpartition("/")
            if member != "*" and {"history", "epoch"} <= set(state):
                histories[member] = decoded(state["history"], self.arrays)
        return histories


def read_backup(folder: Path) -> Backup | None:
    """The backup in a folder; None where there is none.

    Raises:
        ComposerError: if it cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes().decode())
        version = meta["format_version"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ComposerError(
            f"the backup {path} cannot be read: {error}. Remove it to train from the beginning"
        ) from error
    if version != FORMAT_VERSION:
        raise ComposerError(
            f"the backup {path} has format {version}; this version of composer reads {FORMAT_VERSION}. Go on with the "
            "version that wrote it, or remove it to train from the beginning"
        )
    return Backup(meta, arrays)


def remove_backup(folder: Path) -> None:
    """Remove a backup, if there is one, and the folder, if it held nothing else."""
    (folder / FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


class BackupWriter(BurstCallback):
    """The last joint callback of a `fit` that is backed up: brings back what there is, then writes at each epoch's end.

    Args:
        folder: where the backup is, made if need be.
        session: the `fit`.
        joint_callbacks: the caller's joint callbacks and the joint history.
        conditions: what must be as it was for the backup to go on: see `conditions`.

    Raises:
        ComposerError: if the folder cannot be made, or (`ResumeError`) holds a backup of another training.
    """

    def __init__(
        self,
        folder: Path,
        session: TrainingSession,
        joint_callbacks: Sequence[keras.callbacks.Callback],
        conditions: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.folder = folder
        self.session = session
        self.joint_callbacks = tuple(joint_callbacks)
        self.conditions = conditions
        self.backup = read_backup(folder)
        make_folder(folder)
        if self.backup is not None:
            self._check(self.backup)
            session.resume(self.backup.resumed)
            for callback in self._callbacks().values():
                if isinstance(callback, keras.callbacks.CSVLogger):
                    _go_on_in_csv(callback, self.backup.resumed.epoch)

    @property
    def first_epoch(self) -> int | None:
        """The epoch to go on with; None where there is nothing to go on from."""
        return None if self.backup is None else self.backup.resumed.epoch

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if self.backup is not None:
            self._restore(self.backup)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self.backup is not None and self.backup.resumed.joint_steps:
            self._restore(self.backup)  # again: what the beginning of the epoch changes had been changed before
        self.backup = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._write(epoch + 1)

    def on_train_end(self, logs: Logs | None = None) -> None:
        remove_backup(self.folder)

    def _write(self, epoch: int, *, within: bool = False) -> None:
        self.session.write_members()
        arrays = {f"state/{index}": np.array(variable) for index, variable in enumerate(self._variables())}
        if within:
            arrays |= {f"metrics/{index}": np.array(variable) for index, variable in enumerate(self._metrics())}
        training = self.session.training
        progress = {
            "epoch": epoch,
            "joint_steps": training.joint_steps if within else 0,
            "steps": dict(training.steps) if within else {},
            "members": {name: run.progress for name, run in self.session.runs.items()},
            "faults": {name: [fault.epoch, fault.message] for name, fault in self.session.faults.items()},
        }
        callbacks = self._callbacks().items()
        meta = {
            "format_version": FORMAT_VERSION,
            "progress": encoded(progress, arrays, "progress"),
            "conditions": self.conditions,
            "callbacks": {key: callback_state(callback, arrays, f"{key}/") for key, callback in callbacks},
        }
        arrays[_META] = np.frombuffer(json.dumps(meta).encode(), np.uint8)

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]

        write_atomically(self.folder / FILE, write)

    def _restore(self, backup: Backup) -> None:
        self.session.write_members()  # of what is not written nothing would be read again
        kept = [("state", self._variables())]
        if backup.resumed.joint_steps:
            kept.append(("metrics", self._metrics()))
        for kind, variables in kept:
            for index, variable in enumerate(variables):
                value = backup.arrays[f"{kind}/{index}"]
                dtype = np.array(variable).dtype
                variable.assign(value.view(dtype) if value.dtype.kind == "V" else value)  # NumPy knows no bfloat16
        self.session.read_members(changed=True)
        for key, callback in self._callbacks().items():
            restore_callback(callback, backup.meta["callbacks"][key], backup.arrays)

    def _variables(self) -> list[Any]:
        """Everything that training changes, each once, in an order that follows from the members."""
        found: dict[int, Any] = {}
        for run in self.session.runs.values():
            trainer = run.member.trainer
            optimizer = [] if trainer.optimizer is None else trainer.optimizer.variables
            kept = (*trainer.variables, *optimizer, *carried_states(trainer))
            found |= {id(variable): variable for variable in kept}
        return list(found.values())

    def _metrics(self) -> list[Any]:
        return [variable for run in self.session.runs.values() for variable in run.member.trainer.metrics_variables]

    def _callbacks(self) -> dict[str, keras.callbacks.Callback]:
        """The callbacks whose memory is kept, by a name for each."""
        given = {
            "*": self.joint_callbacks,
            **{name: run.callbacks.callbacks for name, run in self.session.runs.items()},
        }
        named: dict[str, keras.callbacks.Callback] = {}
        for whose, callbacks in given.items():
            kept = (callback for callback in callbacks if not isinstance(callback, StatelessCallback))
            named |= {f"{whose}/{index}": callback for index, callback in enumerate(kept)}
        return named

    def _check(self, backup: Backup) -> None:
        told = differences(backup.meta["conditions"], self.conditions)
        if not told and set(backup.meta["callbacks"]) != set(self._callbacks()):
            told = ["the number of callbacks"]
        if told:
            fault = Diagnostic(
                "MG515",
                f"the backup in {self.folder} is of another training: {told[0]}",
                help=(
                    "call `fit` as it was called then, choose another `backup_dir`, or remove the backup to train from "
                    "the beginning",
                ),
                notes=tuple(told[1:MOST_TOLD]),
            )
            raise ResumeError(render_text([fault]), (fault,), told[0])


class StepBackupWriter(BackupWriter):
    """A `BackupWriter` that writes within an epoch too, whenever the session has halted."""

    def __init__(self, every: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.every = every

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        training = self.session.training
        if not (training.ahead or training.through or training.joint_steps % self.every):
            assert self.session.epoch is not None
            self._write(self.session.epoch, within=True)


def backup_writer(
    folder: Path,
    every: int | None,
    session: TrainingSession,
    joint_callbacks: Sequence[keras.callbacks.Callback],
    conditions: Mapping[str, Any],
) -> BackupWriter:
    """The callback that backs a `fit` up.

    Args:
        folder: where.
        every: joint steps after which to write within an epoch too; None: at the ends of epochs only.
        session, joint_callbacks, conditions: see `BackupWriter`.

    Raises:
        ComposerError: if the folder cannot be made, or (`ResumeError`) holds a backup of another training.
        DataError: for a number of steps beside a member that runs eagerly, whose metrics are not known before, or has
            a model for each key.
    """
    arguments = (folder, session, joint_callbacks, conditions)
    if every is None:
        return BackupWriter(*arguments)
    if session.training.program.eager:
        raise DataError("`checkpoint_every` needs members that are not run eagerly: leave out `run_eagerly=True`")
    keyed = [name for name, run in session.runs.items() if isinstance(run.member.model, KeyedModel)]
    if keyed:
        raise DataError(
            f"`checkpoint_every` does not work with `{keyed[0]}`, which has a model for each key: leave it out, and "
            "the backup is written at the ends of epochs"
        )
    return StepBackupWriter(every, *arguments)


def _go_on_in_csv(logger: keras.callbacks.CSVLogger, epoch: int) -> None:
    """Let a logger go on behind the epochs that are kept; what it wrote of later ones is written again."""
    logger.append = True
    path = Path(logger.filename)
    if not path.is_file():
        return
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = list(csv.reader(file, delimiter=logger.sep)) or [[]]
    if "epoch" in header:
        place = header.index("epoch")
        kept = [line for line in lines if len(line) == len(header) and int(line[place]) < epoch]
        rows = StringIO(newline="")
        csv.writer(rows, delimiter=logger.sep, lineterminator="\n").writerows([header, *kept])
        write_text_atomically(path, rows.getvalue())
