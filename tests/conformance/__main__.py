"""The report of the conformance suite: every entry, trained alone and in company, and how far apart it ended.

python -m tests.conformance                       # all of it
python -m tests.conformance layers optimizers     # some kinds
python -m tests.conformance --markdown            # the summary alone, for the README
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import click
import keras
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

import composer
from tests.conformance.catalogue import KINDS
from tests.conformance.trials import BAR, Outcome, Outcomes, Trained

WIDTH = 160


def number(value: float) -> str:
    """A difference as text: `0` is equal to the bit."""
    return "0" if value == 0 else f"{value:.1e}"


@dataclass(frozen=True)
class Line:
    """What the report says of an entry. The trained models are let go."""

    kind: str
    name: str
    alone: str
    joint: str
    difference: float
    note: str
    passed: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Line:
        entry, note = outcome.entry, outcome.fault or outcome.where
        losses = (_last_loss(outcome.alone), _last_loss(outcome.joint))
        return cls(entry.kind, entry.name, *losses, outcome.difference, note, outcome.passed)


def _last_loss(trained: Trained | None) -> str:
    return "-" if trained is None else f"{trained.history['loss'][-1]:.7g}"


def _table(title: str) -> Table:
    return Table(title=title, box=None, title_justify="left", padding=(0, 2, 0, 0))


def line_table(lines: Iterable[Line]) -> Table:
    """One row an entry."""
    table = Table(
        title="Every entry, trained alone and in company", box=None, title_justify="left", padding=(0, 2, 0, 0)
    )
    for name in ("kind", "entry"):
        table.add_column(name, no_wrap=True)
    for name in ("alone", "in company", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("in", no_wrap=True)
    for line in lines:
        cells = (line.kind, line.name, line.alone, line.joint, number(line.difference), line.note)
        table.add_row(*map(escape, cells), style=None if line.passed else "red")
    return table


Row = tuple[str, str, str, str, str]
HEADINGS: Row = ("kind", "entries", "equal to the bit", "largest difference", "without an entry")


def summary(found: dict[str, list[Line]]) -> list[Row]:
    """One row a kind, and one of all."""
    rows = [_summed(kind, lines, len(KINDS[kind].reasons)) for kind, lines in found.items()]
    everything = [line for lines in found.values() for line in lines]
    return [*rows, _summed("all", everything, sum(len(KINDS[kind].reasons) for kind in found))]


def _summed(kind: str, lines: Sequence[Line], without: int) -> Row:
    equal = sum(line.difference == 0 for line in lines)
    largest = max((line.difference for line in lines), default=0.0)
    return kind, str(len(lines)), str(equal), number(largest), str(without)


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [HEADINGS, ("---", "---:", "---:", "---:", "---:"), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_table(rows: Sequence[Row]) -> Table:
    table = _table("Summary")
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def reason_table(kinds: Iterable[str]) -> Table:
    table = _table("Without an entry")
    for name in ("kind", "class", "why"):
        table.add_column(name)
    for kind in kinds:
        for name, reason in KINDS[kind].reasons.items():
            table.add_row(kind, name, reason)
    return table


def note_table(kinds: Iterable[str]) -> Table:
    """What was done for Keras' own `fit` to be right."""
    table = _table("Built before `fit` alone")
    table.add_column("entry")
    table.add_column("because")
    notes = {entry.name.split()[0]: entry.trial.built for kind in kinds for entry in KINDS[kind].entries()}
    for name, note in notes.items():
        if note:
            table.add_row(name, note)
    return table


@click.command(help=__doc__)
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)))
@click.option("--epochs", default=5, show_default=True, help="Epochs of each training.")
@click.option("--markdown", is_flag=True, help="Print the summary alone, as a Markdown table.")
def main(kinds: tuple[str, ...], epochs: int, markdown: bool) -> None:
    composer.simulate(4)
    console = Console(width=WIDTH if not sys.stdout.isatty() else None)
    found: dict[str, list[Line]] = {}
    for kind in kinds or KINDS:
        outcomes = Outcomes(list(KINDS[kind].entries()), epochs)
        progress = track(outcomes.entries, kind, console=Console(stderr=True), transient=True)
        found[kind] = [Line.of(outcomes.pop(entry)) for entry in progress]
        keras.backend.clear_session()
    if markdown:
        click.echo(as_markdown(summary(found)))
    else:
        console.print(line_table(line for lines in found.values() for line in lines))
        console.print(reason_table(found))
        console.print(note_table(found))
        console.print(as_table(summary(found)))
    failed = sum(not line.passed for lines in found.values() for line in lines)
    if failed:
        sys.exit(f"{failed} entries are more than {BAR:g} apart")


if __name__ == "__main__":
    main()
