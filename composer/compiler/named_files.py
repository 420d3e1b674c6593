"""The files that a composition names: which of them are not there. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.diagnostics import Severity, near_files, quoted_list
from composer.language import nodes
from composer.source import Span


def report_missing_files(
    composition: ir.Composition, folder: Path, faults: Faults, *, data: bool = True, severity: Severity = "error"
) -> None:
    """Reports each model file (MG403) and each file of rows (MG502) that is not there.

    Args:
        composition: the resolved spec.
        folder: the folder that relative paths start from.
        faults: takes them.
        data: whether the rows are looked for as well.
        severity: of the diagnostics; a file may be made between a check and a run.
    """
    for name, source in composition.models:
        if isinstance(source, nodes.PathSource) and not (folder / source.path).exists():
            _report("MG403", f"the file of model `{name}`", source.path, source.span, folder, faults, severity)
    for owner, path, span in _data_paths(composition) if data else ():
        if not (folder / path).exists():
            _report("MG502", f"the data of `{owner}`", path, span, folder, faults, severity)


def _data_paths(composition: ir.Composition) -> Iterator[tuple[str, str, Span | None]]:
    """Each path of a `data` statement once, with the first member it is for."""
    seen: set[int] = set()
    for member in composition.members:
        if member.data is None or id(member.data) in seen:
            continue
        seen.add(id(member.data))
        if isinstance(member.data.source, nodes.PathSource):
            yield member.name, member.data.source.path, member.data.source.span
        if isinstance(member.data.validation, str):
            yield member.name, member.data.validation, member.data.validation_span


def _report(
    code: str, what: str, written: str, span: Span | None, folder: Path, faults: Faults, severity: Severity
) -> None:
    path = folder / written
    near = near_files(path)
    if near:
        help = f"did you mean {quoted_list(near)}?"
    elif not path.parent.is_dir():
        help = f"the folder `{path.parent}` is missing as well"
    else:
        help = "correct the path, or make the file"
    faults.error(code, f"{what} is missing: {path}", span, label="no such file", help=(help,), severity=severity)
