"""From a file to its text: `read_spec`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from composer.diagnostics import Diagnostic, did_you_mean, render_text
from composer.errors import SpecError
from composer.source import SourceText

_HEAD = 4096  # enough to know a model file or an archive without reading it whole
_LARGEST = 64 * 2**20  # bytes; ten thousand branches take less than one


def read_spec(path: str | os.PathLike[str]) -> SourceText:
    """The text of a spec file. Its folder is where the spec's relative paths start from.

    Args:
        path: the file; UTF-8, with or without a byte order mark.

    Raises:
        SpecError: the file is not there, cannot be read (MG101), or holds something else than UTF-8 text (MG102).
    """
    file = Path(path)
    place = SourceText("", str(file), file.parent)
    try:
        with file.open("rb") as stream:
            data = stream.read(_HEAD)
            _refuse_binary(data, place)
            data += stream.read(_LARGEST)
    except (OSError, ValueError) as error:
        _refuse_unreadable(file, error, place)
    return decode_spec(data, place)


def decode_spec(data: bytes, place: SourceText) -> SourceText:
    """The text of a spec that came as bytes, such as from the standard input.

    Args:
        data: UTF-8, with or without a byte order mark.
        place: the name and the folder of the spec; its text is not looked at.

    Raises:
        SpecError: it is something else than UTF-8 text (MG102).
    """
    _refuse_binary(data[:_HEAD], place)
    if len(data) >= _LARGEST:
        _fail(Diagnostic("MG102", f"the spec file is larger than {_LARGEST >> 20} MiB", source=place,
                         help=("a spec is a short text; give the path of the `.mgpu` file",)))  # fmt: skip
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _fail(
            Diagnostic(
                "MG102",
                f"the spec file is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line} fits no character",
                source=place,
                help=("save the file in the encoding UTF-8",),
            )
        )
    return SourceText(text, place.name, place.folder)


def _refuse_binary(head: bytes, place: SourceText) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        what, help = "is UTF-16 text, expected UTF-8", "save the file in the encoding UTF-8"
    elif head.startswith(b"PK\x03\x04"):
        what, help = "is an archive or a `.keras` model, not a text", 'name it in a spec: `model a = "file.keras"`'
    elif head.startswith(b"\x89HDF"):
        what, help = "is an HDF5 file, not a text", 'name it in a spec: `model a = "file.h5"`'
    elif b"\0" in head:
        what, help = "is binary, not a text", "give the path of a `.mgpu` file"
    else:
        return
    _fail(Diagnostic("MG102", f"the spec file {what}", source=place, help=(help,)))


def _refuse_unreadable(file: Path, error: Exception, place: SourceText) -> NoReturn:
    help: tuple[str, ...] = ()
    if isinstance(error, FileNotFoundError):
        reason = "it does not exist"
        help = _near_files(file)
    elif isinstance(error, IsADirectoryError):
        reason = "it is a folder"
        help = ("give the path of a `.mgpu` file",)
    else:
        reason = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    _fail(Diagnostic("MG101", f"the spec file cannot be read: {reason}", source=place, help=help))


def _near_files(file: Path) -> tuple[str, ...]:
    try:
        specs = sorted(entry.name for entry in file.parent.iterdir() if entry.suffix == ".mgpu")
    except OSError:
        return (f"there is no folder `{file.parent}`",)
    near = did_you_mean(file.name, specs)
    return near or ((f"specs in that folder: {', '.join(specs[:5])}",) if specs else ())


def _fail(fault: Diagnostic) -> NoReturn:
    raise SpecError(render_text([fault]), (fault,))
