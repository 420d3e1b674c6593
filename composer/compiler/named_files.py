"""The files that a composition names, and what of them is not there. Nothing is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from composer.compiler import ir
from composer.compiler.checks import is_trained
from composer.compiler.faults import Faults
from composer.diagnostics import Severity, near_files, quoted_list
from composer.language import nodes
from composer.source import Span, located


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
    for what, path, span in _model_files(composition):
        if not (folder / path).exists():
            _report("MG403", what, path, span, folder, faults, severity)
    for what, path, span in _data_files(composition) if data else ():
        if not (folder / path).exists():
            _report("MG502", what, path, span, folder, faults, severity)


def report_missing_data(composition: ir.Composition, faults: Faults) -> None:
    """Warns of each branch that the spec loads and trains, but names no rows for (MG501)."""
    loaded = {name for name, source in composition.models if source is not None}
    for branch, members in branches_without_data(composition).items():
        if members[0].model in loaded and is_trained(members[0]):
            faults.warning(
                "MG501",
                f"no data for `{branch}`, and `fit` trains all members",
                members[0].span,
                help=(f'add to the spec: data {branch} = "{branch}.npz"',),
            )


def branches_without_data(composition: ir.Composition) -> dict[str, list[ir.Member]]:
    """The members that have no rows, by branch."""
    missing: dict[str, list[ir.Member]] = {}
    for member in composition.members:
        if member.data is None:
            missing.setdefault(member.branch, []).append(member)
    return missing


def named_files(composition: ir.Composition) -> Iterator[tuple[str, str, Span | None]]:
    """Each file of a model, then each of rows: what it is in words, its path as it is written, and where."""
    yield from _model_files(composition)
    yield from _data_files(composition)


def _model_files(composition: ir.Composition) -> Iterator[tuple[str, str, Span | None]]:
    for name, source in composition.models:
        if isinstance(source, nodes.PathSource):
            yield f"the file of model `{name}`", source.path, source.span


def _data_files(composition: ir.Composition) -> Iterator[tuple[str, str, Span | None]]:
    """Each path of a `data` statement once, with the first member it is for."""
    seen: set[int] = set()
    for member in composition.members:
        if member.data is None or id(member.data) in seen:
            continue
        seen.add(id(member.data))
        if isinstance(member.data.source, nodes.PathSource):
            yield f"the data of `{member.name}`", member.data.source.path, member.data.source.span
        if isinstance(member.data.validation, str):
            yield f"the data of `{member.name}`", member.data.validation, member.data.validation_span


def _report(
    code: str, what: str, written: str, span: Span | None, folder: Path, faults: Faults, severity: Severity
) -> None:
    path = located(folder, written)
    near = near_files(path)
    if near:
        help = f"did you mean {quoted_list(near)}?"
    elif not path.parent.is_dir():
        help = f"the folder `{path.parent}` is missing as well"
    else:
        help = "correct the path, or make the file"
    faults.error(code, f"{what} is missing: {path}", span, label="no such file", help=(help,), severity=severity)
