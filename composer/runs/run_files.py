"""The files of a run folder, and whether a folder may become one: told without a framework, before any work is done."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer.errors import ComposerError
from composer.source import SourceText

RUN, SPEC, HISTORY = "run.json", "spec.mgpu", "history.json"
BACKUP, RANKING = "backup", "ranking.csv"
FILES = (RUN, SPEC, "plan.txt", "plan.json", "history.csv", HISTORY, "curves.svg", "curves.png", RANKING)


def check_run_place(path: Path, *, force: bool = False) -> None:
    """Refuses a folder that cannot become that of a new run. Nothing is made or removed.

    Args:
        path: the folder.
        force: whether an earlier run in it may be replaced.

    Raises:
        ComposerError: the folder holds something, or cannot be written.
    """
    if path.exists() and not path.is_dir():
        raise ComposerError(f"{path} is a file. Choose a folder for the run with `-o`")
    check_writable(path)
    if path.is_dir() and any(path.iterdir()):
        _check_replaceable(path, force)


def check_writable(path: Path) -> None:
    """Refuses a folder that cannot be made or written.

    Raises:
        ComposerError: it names the folder that is in the way.
    """
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise ComposerError(f"{existing} is a file. Choose a folder to write to with `-o`")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ComposerError(f"{existing} cannot be written. Choose a folder that you may write to with `-o`")


def check_is_run(path: Path) -> None:
    """Refuses what is no run folder.

    Raises:
        ComposerError: it is missing, a file, or another folder.
    """
    if not (path / RUN).is_file():
        what = "holds no `run.json`" if path.is_dir() else "is a file" if path.exists() else "does not exist"
        raise ComposerError(f"{path} is no run folder: it {what}. Expected the folder that `composer fit -o` wrote")


@dataclass(frozen=True)
class UnfinishedRun:
    """What a run that was cut off had set out to do.

    Args:
        source: its spec.
        arguments: what it was started with.
        spec_path: where the spec was; None where it was given as text.
        files: the SHA-256 of its model files and files of rows.
        has_backup: whether there is something to go on from.
    """

    source: SourceText
    arguments: Mapping[str, Any]
    spec_path: Path | None
    files: Mapping[str, str]
    has_backup: bool


def unfinished_run(path: Path) -> UnfinishedRun:
    """Read what a run that was cut off had set out to do.

    Raises:
        ComposerError: it is no run folder, is damaged, or has finished.
    """
    check_is_run(path)
    try:
        document = json.loads((path / RUN).read_text(encoding="utf-8"))
        text = (path / SPEC).read_text(encoding="utf-8")
        state, arguments, there = document["state"], dict(document["arguments"]), document["spec_path"]
        files = dict(document.get("files", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ComposerError(f"the run folder {path} is damaged: {type(error).__name__}: {error}") from error
    if state == "finished":
        raise ComposerError(f"the run {path} has finished: there is nothing left to resume")
    spec_path = Path(there) if there else None
    source = SourceText(text, str(path / SPEC), spec_path.parent if spec_path else Path())
    return UnfinishedRun(source, arguments, spec_path, files, (path / BACKUP / "backup.npz").is_file())


def check_prediction_files(folder: Path, members: list[str], *, force: bool = False) -> None:
    """Refuses a folder that predictions cannot be written to, or that holds those of an earlier time.

    Args:
        folder: where to.
        members: whose predictions.
        force: whether files may be replaced.

    Raises:
        ComposerError: it names the file or the folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ComposerError(f"{folder} is a file. Choose a folder for the predictions with `-o`")
    check_writable(folder)
    there = [path for name in members for path in prediction_files(folder, name) if path.exists()]
    if there and not force:
        raise ComposerError(
            f"{there[0]} exists already. Choose another folder with `-o`, or replace the file with `--force`"
        )


def prediction_files(folder: Path, member: str) -> tuple[Path, Path]:
    """The files a member's predictions may go to: one array, or several."""
    return folder / f"{member}.npy", folder / f"{member}.npz"


def _check_replaceable(path: Path, force: bool) -> None:
    if not (path / RUN).is_file():
        entry = sorted(entry.name for entry in path.iterdir())[0]
        raise ComposerError(
            f"the folder {path} holds files that are no run (`{entry}`). Choose a new or an empty folder with `-o`"
            + ("; `--force` replaces only an earlier run" if force else "")
        )
    if not force:
        raise ComposerError(
            f"the folder {path} holds an earlier run. Choose another with `-o`, or replace that run with `--force`"
        )
