"""The live table of a `fit`: every member's epoch, losses, metrics and rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from composer.cli.fit_state import FitState, MemberState, more_metrics, shown_metrics, shown_number, shown_time
from composer.cli.interrupts import NOTICE

REFRESHES = 5  # a second
BAR_WIDTH = 16
METRIC_WIDTH = 14  # columns of the screen that one metric takes, about
NUMBER_WIDTH = 9  # of a number as it is shown, so that columns do not jump


@contextmanager
def live_display(state: FitState, console: Console, stopping: Callable[[], bool], *, keep: bool) -> Iterator[None]:
    """Draws the state anew a few times a second.

    What is written to `sys.stdout` and `sys.stderr` meanwhile appears above the table.

    Args:
        state: what is drawn.
        console: where to.
        stopping: whether the user has asked to stop.
        keep: whether the last table stays on the screen.
    """
    with Live(
        console=console,
        get_renderable=lambda: table_of(state, console, stopping()),
        refresh_per_second=REFRESHES,
        transient=not keep,
    ):
        yield


def table_of(state: FitState, console: Console, stopping: bool = False) -> RenderableType:
    """The table as it is now, cut to what fits on the screen."""
    names = list(state.members)
    fitting = max(console.height - 5, 3)
    if len(names) > fitting:  # those that are at work come first
        names = sorted(names, key=lambda name: state.members[name].ended)[: fitting - 1]
    room = console.width - max(map(len, names), default=0) - BAR_WIDTH - 36
    metrics = shown_metrics(state.members, max(room // METRIC_WIDTH, 1))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("member", "epoch", ""):
        table.add_column(title, no_wrap=True)
    for title in (*metrics, "rows/s"):
        table.add_column(title, justify="right", no_wrap=True, min_width=NUMBER_WIDTH)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_row(*_row(name, state.members[name], metrics))
    lines: list[RenderableType] = [_title(state), table]
    hidden = len(state.members) - len(names)
    if hidden:
        lines.append(Text(f"and {hidden} more", style="dim"))
    if more := more_metrics(state.members, metrics):
        lines.append(Text(more, style="dim"))
    if stopping:
        lines.append(Text(NOTICE, style="yellow"))
    return Group(*lines)


def _title(state: FitState) -> Text:
    count = len(state.members)
    ended = sum(member.ended for member in state.members.values())
    text = Text(f"{count} member{'s' if count != 1 else ''}", style="bold")
    text.append(f", {ended} done" if ended else "", style="bold")
    if not any(member.step or member.epoch for member in state.members.values()):
        text.append(", preparing the joint program")
    text.append(f"   {shown_time(state.elapsed)}", style="dim")
    remaining = state.remaining
    if remaining:
        text.append(f", about {shown_time(math.ceil(remaining))} left", style="dim")
    return text


def _row(name: str, state: MemberState, metrics: list[str]) -> Iterator[RenderableType]:
    yield Text(name, style="bold" if not state.ended else "")
    current = state.epoch if state.ended or state.epoch >= state.epochs else state.epoch + 1
    yield f"{current}/{state.epochs}" if state.epochs else ""
    yield ProgressBar(
        total=1.0, completed=state.fraction, width=BAR_WIDTH, complete_style="cyan", finished_style="green"
    )
    for metric in metrics:
        value = state.logs.get(metric)
        bad = isinstance(value, float) and not math.isfinite(value)
        yield Text(shown_number(value), style="bold red" if bad else "")
    yield f"{state.rate:,.0f}" if state.rate else ""
    yield Text("stopped early" if state.stopped_early else "done" if state.ended else "", style="green")
