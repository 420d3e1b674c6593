"""The folder of one run of `composer fit`: what it holds, how it is written and read.

    RUN/spec.mgpu            the spec as given
        plan.txt plan.json   what ran where
        run.json             arguments, seeds, versions, times, state, and what is saved of each member
        models/<member>.keras
        models/<branch>.best.keras, ranking.csv   of a branch with copies the best, and all of them in order
        models/<member>.keys.csv   of a member with a model for each key what each logged at last
        history.csv history.json
        curves.svg curves.png
        callbacks/<member>/  what the members' own callbacks write
        backup/              until the run ends, what it is resumed from

Every file appears whole or not at all, so a run that is cut off leaves the last complete state.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import keras
import tensorflow as tf

from composer.compiler.plan import Plan
from composer.errors import ComposerError
from composer.graph.hints import listed, near
from composer.graph.saved_models import is_servable_only
from composer.runs.curves import draw_curves
from composer.runs.histories import Histories, histories_from_json, histories_to_csv, histories_to_json, keys_to_csv
from composer.runs.ranking import Ranking, rankings_to_csv
from composer.runs.run_files import BACKUP, FILES, HISTORY, RANKING, RUN, SPEC, check_is_run, check_run_place
from composer.runtime.atomic_files import make_folder, write_atomically, write_text_atomically
from composer.runtime.settings import CALLBACK_FOLDER
from composer.version import __version__

FORMAT_VERSION = 1
State: TypeAlias = Literal["running", "finished", "interrupted", "failed"]

_FOLDERS = ("models", CALLBACK_FOLDER, BACKUP)


@dataclass(frozen=True)
class MemberRecord:
    """What `run.json` says of a member.

    Args:
        seed: the member's seed.
        epochs: epochs that the saved model has been trained for; None where no model is saved.
        features: the columns its x was made of, in their order; empty where x came from no table.
        classes: target column -> the strings that class indices stand for.
    """

    seed: int = 0
    epochs: int | None = None
    features: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """What `run.json` says of a run.

    Args:
        arguments: what the run was started with, as JSON can hold it.
        spec_path: where the spec was, for the relative paths in it; None where it was given as text.
        members: by name.
        files: the SHA-256 of each model file and each file of rows, by its path as the spec has it.
        state: `running` until the end is known.
        message: why it ended, where it did not finish.
        started, ended: ISO 8601 in UTC.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    spec_path: str | None = None
    members: Mapping[str, MemberRecord] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    state: State = "running"
    message: str = ""
    started: str = ""
    ended: str = ""

    @classmethod
    def start(
        cls,
        arguments: Mapping[str, Any],
        members: Mapping[str, MemberRecord],
        spec_path: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> RunRecord:
        """The record of a run that starts now."""
        return cls(dict(arguments), spec_path, dict(members), dict(files or {}), started=now())

    def resume(self, arguments: Mapping[str, Any]) -> RunRecord:
        """The record of the same run, going on."""
        return replace(self, arguments=dict(arguments), state="running", message="", ended="")

    def end(self, state: State, message: str = "") -> RunRecord:
        """The record of the same run, ended now."""
        return replace(self, state=state, message=message, ended=now())

    def with_epochs(self, epochs: Mapping[str, int]) -> RunRecord:
        """The record with the number of epochs that each saved model has been trained for."""
        members = dict(self.members)
        for name, count in epochs.items():
            members[name] = replace(members.get(name, MemberRecord()), epochs=count)
        return replace(self, members=members)


class HasModel(Protocol):
    """What a run saves of a member."""

    @property
    def model(self) -> keras.Model: ...


class HasMembers(Protocol):
    """What a run saves of a joint model."""

    @property
    def members(self) -> Mapping[str, HasModel]: ...


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run that is being written.

    Example:
        >>> folder = RunFolder.create(Path("runs/first"))
        >>> folder.write_spec(joint.spec_text)
        >>> folder.save_members(joint)
        ('a', 'b')
    """

    path: Path

    @classmethod
    def create(cls, path: Path, *, force: bool = False) -> RunFolder:
        """Makes the folder of a new run.

        Args:
            path: the folder; it may exist if it is empty.
            force: whether an earlier run in it may be replaced. Its files are removed, others stay; a folder that is
                no run is refused all the same.

        Raises:
            ComposerError: the folder holds something, or cannot be made.
        """
        check_run_place(path, force=force)
        if path.is_dir() and any(path.iterdir()):
            _clear(path)
        make_folder(path)
        return cls(path)

    @property
    def backup(self) -> Path:
        """The folder of the backup that a run which was cut off is resumed from."""
        return self.path / BACKUP

    def model_path(self, member: str) -> Path:
        """Where a member's model is saved."""
        return self.path / "models" / f"{member}.keras"

    def write_spec(self, text: str) -> None:
        """Writes the spec as it was given."""
        write_text_atomically(self.path / SPEC, text)

    def write_plan(self, plan: Plan) -> None:
        """Writes the plan as text and as JSON."""
        write_text_atomically(self.path / "plan.txt", plan.to_text().rstrip("\n") + "\n")
        write_text_atomically(self.path / "plan.json", plan.to_json().rstrip("\n") + "\n")

    def write_run_json(self, record: RunRecord) -> None:
        """Writes `run.json`, with the versions of composer, TensorFlow, Keras and Python."""
        members = {
            name: {
                "model": str(self.model_path(name).relative_to(self.path)) if member.epochs is not None else None,
                "epochs": member.epochs,
                "seed": member.seed,
                "features": list(member.features),
                "classes": {column: list(labels) for column, labels in member.classes.items()},
            }
            for name, member in record.members.items()
        }
        document = {
            "format_version": FORMAT_VERSION,
            "state": record.state,
            "message": record.message,
            "started": record.started,
            "ended": record.ended or None,
            "spec_path": record.spec_path,
            "arguments": dict(record.arguments),
            "versions": versions(),
            "files": dict(record.files),
            "members": members,
        }
        write_text_atomically(self.path / RUN, json.dumps(document, indent=1, default=str) + "\n")

    def write_history(self, histories: Histories) -> None:
        """Writes `history.csv` (member, epoch, metric, value) and `history.json` (by member)."""
        write_text_atomically(self.path / "history.csv", histories_to_csv(histories))
        write_text_atomically(self.path / HISTORY, histories_to_json(histories))

    def keep_best(self, ranked: Sequence[Ranking]) -> None:
        """Writes `ranking.csv`, and the best copy of each branch once more as `models/<branch>.best.keras`."""
        for ranking in ranked:
            best = self.path / "models" / f"{ranking.members[0].member}.keras"
            if best.exists():
                write_atomically(best.with_name(f"{ranking.branch}.best.keras"), partial(shutil.copyfile, best))
        if ranked:
            write_text_atomically(self.path / RANKING, rankings_to_csv(ranked))

    def write_keys(self, member: str, column: str, keys: Sequence[str], metrics: Mapping[str, Any]) -> None:
        """Writes `models/<member>.keys.csv`: for each key what its model logged in the last epoch."""
        make_folder(self.path / "models")
        write_text_atomically(self.path / "models" / f"{member}.keys.csv", keys_to_csv(column, keys, metrics))

    def write_curves(self, histories: Histories) -> None:
        """Draws the learning curves as `curves.svg` and `curves.png`."""
        for name in ("curves.svg", "curves.png"):
            write_atomically(self.path / name, lambda temporary: draw_curves(histories, temporary))

    def save_members(self, joint: HasMembers) -> tuple[str, ...]:
        """Saves each member as `models/<member>.keras`, with its optimizer's state; what ran before stays until then.

        A member whose model came from a SavedModel folder is left out: nothing of it changes.

        Returns:
            The names of the members that were saved.

        Raises:
            ComposerError: some could not be saved; the message names them, says why, and which are saved.
        """
        make_folder(self.path / "models")
        saved: list[str] = []
        failed: dict[str, Exception] = {}
        for name, member in joint.members.items():
            if is_servable_only(member.model):
                continue
            try:
                write_atomically(self.model_path(name), member.model.save)
                saved.append(name)
            except Exception as error:  # a model that Keras cannot serialise, a full disk: the others are saved still
                failed[name] = error
        if failed:
            name, first = next(iter(failed.items()))
            kept = f"Saved in {self.path / 'models'}: {listed(saved)}" if saved else "No model was saved"
            raise ComposerError(
                f"{len(failed)} model(s) could not be saved: {listed(failed)}. `{name}`: {first}. {kept}"
            )
        return tuple(saved)


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it.

    Args:
        path: the folder.
        record: what `run.json` says.
        spec: the text of the spec.
        histories: by member; NaN where a value was not finite.
        models: member -> the file of its model, for the members that are saved.
    """

    path: Path
    record: RunRecord
    spec: str
    histories: dict[str, dict[str, list[float]]]
    models: dict[str, Path]

    def model(self, member: str) -> Path:
        """The file of a member's model.

        Raises:
            ComposerError: the run has no such member, or nothing of it was saved.
        """
        if member in self.models:
            return self.models[member]
        known = list(self.record.members) or list(self.models)
        if member in known:
            cut_off = self.record.state != "finished" and (self.path / BACKUP).is_dir()
            raise ComposerError(
                f"the run {self.path} has no saved model of `{member}` (its state: {self.record.state})"
                + (f". Let it go on with `composer fit --resume {self.path}`" if cut_off else "")
            )
        raise ComposerError(
            f"the run {self.path} has no member `{member}`; it has {listed(known)}{near(member, known)}"
        )


def read_run(path: Path) -> Run:
    """Reads the folder of a run, finished or not.

    Args:
        path: the folder.

    Raises:
        ComposerError: it is missing, is no run folder, or is damaged.
    """
    check_is_run(path)
    try:
        record = _record(json.loads((path / RUN).read_text(encoding="utf-8")))
        history = path / HISTORY
        histories = histories_from_json(history.read_text(encoding="utf-8")) if history.is_file() else {}
        spec = path / SPEC
        text = spec.read_text(encoding="utf-8") if spec.is_file() else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ComposerError(f"the run folder {path} is damaged: {type(error).__name__}: {error}") from error
    models = {file.stem: file for file in sorted((path / "models").glob("*.keras")) if not file.name.startswith(".")}
    order = [name for name in record.members if name in models]
    return Run(path, record, text, histories, {name: models[name] for name in dict.fromkeys([*order, *models])})


def versions() -> dict[str, str]:
    """The versions a run depends on."""
    return {
        "composer": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _clear(path: Path) -> None:
    try:
        for name in _FOLDERS:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
        for name in reversed(FILES):  # `run.json` last: until then it is still a run
            (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise ComposerError(f"the earlier run in {path} cannot be removed: {error.strerror}") from error


def _record(document: Mapping[str, Any]) -> RunRecord:
    members = {
        name: MemberRecord(
            member["seed"],
            member["epochs"],
            tuple(member["features"]),
            {column: tuple(labels) for column, labels in member["classes"].items()},
        )
        for name, member in document["members"].items()
    }
    return RunRecord(
        document["arguments"],
        document["spec_path"],
        members,
        document.get("files", {}),
        document["state"],
        document["message"],
        document["started"],
        document["ended"] or "",
    )
