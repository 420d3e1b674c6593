"""A numbered folder that appears whole or not at all.

A version is written into `.tmp-<process>-<random>` beside its place, flushed to the disk and renamed to the next
number. Servers that watch the folder skip names that are no numbers. While a writer lives it holds a lock on its
temporary folder, which the system drops when the process dies, so what the dead left behind can be told apart and is
removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from composer.export.faults import export_error, not_written

PREFIX = ".tmp-"


def check_export_place(base: Path) -> None:
    """Refuse a folder that no version can be written into, before any work is done for it. Nothing is made.

    Raises:
        ExportError: MG605, it says which folder or file is in the way.
    """
    existing = next(place for place in (base, *base.absolute().parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise not_written(base, f"{existing} is no folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise not_written(base, f"{existing} may not be written to")


def versions(base: Path) -> list[int]:
    """The versions of a folder, ascending: every name in it that is a whole number."""
    return sorted({int(entry.name) for entry in base.iterdir() if entry.name.isascii() and entry.name.isdecimal()})


@contextmanager
def staged_version(base: Path, version: int | None = None) -> Iterator[tuple[Path, Callable[[], Path]]]:
    """A temporary folder to write a version into, and the function that publishes it.

    Leaving the block without publishing removes the temporary folder.

    Args:
        base: the folder of all versions; made where it is missing.
        version: the number to publish under; None takes the next.

    Raises:
        OSError: `base` cannot be written.
        ExportError: MG606, `version` is taken.
    """
    if version is not None:
        _refuse_taken(base, version)
    base.mkdir(parents=True, exist_ok=True)
    _remove_stale(base)
    folder, lock = _open_staging(base)
    try:
        yield folder, lambda: _publish(folder, base, version)
    finally:
        # After publishing there is nothing under the temporary name.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _open_staging(base: Path) -> tuple[Path, int]:
    while True:
        folder = base / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()  # not `mkdtemp`: its folders can be read by nobody else, a server among them
        lock = _lock(folder, wait=True)
        if lock is not None:
            return folder, lock
        # Another writer took the folder for stale in the moment before it was locked.


def _lock(folder: Path, *, wait: bool) -> int | None:
    """An open descriptor that holds the folder's lock; None where it is gone, or locked by a living writer."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(folder).st_ino == os.fstat(descriptor).st_ino:  # noqa: PTH116 - beside `fstat`
            return descriptor
    except OSError:  # locked, or gone, or on a file system without locks
        if wait and folder.exists():
            return descriptor
    os.close(descriptor)
    return None


def _remove_stale(base: Path) -> None:
    """Remove what writers left that died; folders of living ones are locked."""
    for folder in base.glob(PREFIX + "*"):
        with suppress(PermissionError):  # another user's
            lock = _lock(folder, wait=False)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _publish(folder: Path, base: Path, version: int | None) -> Path:
    flush(folder)
    while True:
        number = version if version is not None else max(versions(base), default=0) + 1
        if version is not None:
            _refuse_taken(base, version)
        try:
            # Renames a folder over nothing, or over an empty folder, never over one that holds something.
            folder.rename(base / str(number))
        except OSError as error:
            taken = error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
            if not taken or not os.path.lexists(base / str(number)):
                raise
            continue  # another writer was faster
        with suppress(OSError):  # the version is whole and there; at worst a power cut takes it away again
            _flush_entry(base)
        return base / str(number)


def _refuse_taken(base: Path, version: int) -> None:
    if version < 1:
        raise export_error("MG606", f"a version is a whole number from 1. Received: {version}")
    if os.path.lexists(base / str(version)):
        raise export_error(
            "MG606",
            f"version {version} is there already: {base / str(version)}",
            "leave the version out to get the next one, or give a number that is free",
        )


def flush(folder: Path) -> None:
    """Have a folder and everything in it on the disk before going on."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            _flush_entry(Path(parent, name))
        _flush_entry(Path(parent))


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush folders
            raise
    finally:
        os.close(descriptor)
