"""Files that appear whole or not at all: written beside their place, flushed to the disk, renamed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from composer.errors import ComposerError

_IN_TEXT = re.compile(r"errno = (\d+)")  # HDF5 says it in words only


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill a temporary file beside `path`, with its suffix, and puts it in its place.

    An earlier file stays as it was until the new one is complete on the disk, whatever happens in between.

    Args:
        path: the file to appear; its folder must exist.
        write: fills the file whose path it is given.

    Raises:
        ComposerError: it cannot be written; the message says why and what to do.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        try:
            write(temporary)
            _flush(temporary)
            temporary.replace(path)
            _flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ComposerError(f"{path} cannot be written: {reason(error)}") from error


def write_text_atomically(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, as `write_atomically` does."""
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def make_folder(path: Path) -> None:
    """Makes a folder and its parents.

    Raises:
        ComposerError: it cannot be made; the message says why and what to do.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ComposerError(f"the folder {path} cannot be made: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Why the system refused, and the mend."""
    found = _IN_TEXT.search(str(error))
    number = error.errno if error.errno is not None else int(found[1]) if found else None
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{os.strerror(number)}. Free some space, or choose a folder on another disk"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{os.strerror(number)}. Choose a folder that you may write to"
    return error.strerror or str(error)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
