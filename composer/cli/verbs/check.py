"""`composer check`: every fault of every spec, without running anything that a spec names."""

from __future__ import annotations

from pathlib import Path

import click

from composer.cli.endings import FAULT
from composer.cli.options import graph_option, json_option, path_argument, shared_options
from composer.cli.specs import read_source, shown_name
from composer.cli.terminal import Terminal
from composer.diagnostics import Diagnostic, render_json
from composer.errors import SpecError
from composer.pipeline import check

_EXAMPLES = """\b
Examples:
  composer check fleet.mgpu
  composer check specs/*.mgpu --json
  cat fleet.mgpu | composer check -
"""


@click.command(epilog=_EXAMPLES, short_help="Report every fault of specs.")
@path_argument("specs", "SPEC...", nargs=-1, required=True)
@graph_option
@json_option
@shared_options(simulate=False)
@click.pass_obj
def command(terminal: Terminal, specs: tuple[Path, ...], graph: str | None, as_json: bool) -> int:
    """Report every fault of the specs. `-` reads from the standard input.

    Nothing that a spec names is imported or run, and TensorFlow is not started. Exits with 1 where there is an error;
    warnings alone are fine.
    """
    found = {spec: _check(spec, graph) for spec in specs}
    every = [fault for faults in found.values() for fault in faults]
    errors = sum(fault.severity == "error" for fault in every)
    if as_json:
        terminal.result(render_json(every))
    else:
        terminal.diagnostics(every, limit=len(every))
        terminal.result(_summary(found))
    return FAULT if errors else 0


def _check(spec: Path, graph: str | None) -> list[Diagnostic]:
    try:
        return check(read_source(spec), graph=graph)
    except SpecError as error:  # it cannot even be read
        return list(error.diagnostics)


def _summary(found: dict[Path, list[Diagnostic]]) -> str:
    """`fleet.mgpu: no faults`, `3 files: 2 errors, 1 warning`."""
    every = [fault for faults in found.values() for fault in faults]
    where = shown_name(next(iter(found))) if len(found) == 1 else f"{len(found)} files"
    return f"{where}: {count_faults(every)}"


def count_faults(faults: list[Diagnostic]) -> str:
    """`no faults`, `1 error`, `2 errors, 1 warning`."""
    counts = {kind: sum(fault.severity == kind for fault in faults) for kind in ("error", "warning")}
    told = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count]
    return ", ".join(told) or "no faults"
