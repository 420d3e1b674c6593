"""Whether the files of a run are still what they were when it began, told without a framework.

A file is known by the SHA-256 of its bytes. Its time says nothing (a copy or a checkout changes it, an edit may keep
it), nor does its size (another row of equal length keeps it); and reading a file through once is little beside training
on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.compiler.named_files import named_files
from composer.data_files.array_files import beside
from composer.diagnostics import render_text
from composer.errors import ResumeError
from composer.source import SourceText, Span

_BLOCK = 1 << 20
_SHOWN = 12  # digits of a hash that are shown


def file_hashes(composition: ir.Composition, folder: Path) -> dict[str, str]:
    """The hash of each model file and each file of rows that a composition names, by its path as it is written.

    Args:
        composition: the resolved spec.
        folder: the folder that relative paths start from.
    """
    return {written: file_hash(folder / written) for _, written, _ in _files(composition, folder)}


def check_unchanged(composition: ir.Composition, source: SourceText, known: Mapping[str, str]) -> None:
    """Refuse to go on with a run of which a file has changed since it began.

    Args:
        composition: the resolved spec.
        source: the spec.
        known: what `file_hashes` told when the run began; a file that it does not tell of is taken as it is.

    Raises:
        ResumeError: with a diagnostic for each file.
    """
    faults = Faults(source)
    for what, written, span in _files(composition, source.folder):
        was, now = known.get(written), file_hash(source.folder / written)
        if was not in (None, now):
            faults.error(
                "MG515",
                f"{what} has changed since the run began: {written}",
                span,
                label=f"was SHA-256 {was[:_SHOWN]}..., is {now[:_SHOWN]}..." if was else "",
                help=("put the file back as it was to go on, or train anew: `composer fit SPEC -o ANOTHER_RUN`",),
            )
    if errors := faults.errors:
        raise ResumeError(render_text(errors), errors)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, or of all files in a folder with their names, as hexadecimal digits."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        told = "".join(f"{each.relative_to(path).as_posix()}\n{file_hash(each)}\n" for each in files)
        return hashlib.sha256(told.encode()).hexdigest()
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _files(composition: ir.Composition, folder: Path) -> Iterator[tuple[str, str, Span | None]]:
    """What each file is in words, its path, and where the spec names it, or the file that it lies beside."""
    seen: set[str] = set()
    for what, written, span in named_files(composition):
        paths = [Path(written), *(each.relative_to(folder) for each in beside(folder / written))]
        for path in map(str, paths):
            if path not in seen and (folder / path).exists():
                seen.add(path)
                yield what, path, span
