"""`composer fit`: from a spec to trained members in a run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from composer import pipeline
from composer.cli.endings import FAULT
from composer.cli.fit_state import FitState, MemberState, more_metrics, shown_metrics, shown_number, shown_time
from composer.cli.interrupts import StopRequest, stop_requests
from composer.cli.options import allow_python_option, graph_option, out_option, path_argument, shared_options
from composer.cli.plain_progress import PlainProgress
from composer.cli.specs import STDIN, read_source
from composer.cli.start import start_tensorflow
from composer.cli.status import working
from composer.cli.terminal import Terminal
from composer.runs.file_hashes import check_unchanged
from composer.runs.requirements import (
    check_data_factories,
    check_has_data,
    check_has_files,
    check_has_models,
    check_has_optimizers,
    check_models,
)
from composer.runs.run_files import check_run_place, unfinished_run

if TYPE_CHECKING:
    from composer.runs.jobs import FitJob, FitResult
    from composer.runs.progress import FitListener
    from composer.runs.ranking import Ranking

MOST_METRICS = 6
MOST_RANKED = 10
_SAID = ("graph", "epochs", "batch_size", "seed", "checkpoint_every")
"""Of the arguments in `run.json`, what a resumed run takes over."""

_EXAMPLES = """\b
Examples:
  composer fit fleet.mgpu -o runs/first
  composer fit fleet.mgpu -o runs/quick --epochs 2 --seed 7
  composer fit sweep.mgpu -o runs/sweep --rank val_accuracy
  composer fit fleet.mgpu -o runs/first --force --simulate 4
  composer fit --resume runs/first
  composer compile runs/first -o export/fleet
"""


@click.command(epilog=_EXAMPLES, short_help="Train all members of a spec.")
@path_argument("spec", "SPEC", required=False)
@out_option("RUN", "The run folder; new, empty, or with --force an earlier run.", required=False)
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(path_type=Path, readable=False),
    help="Go on with a run that was cut off, as if it had not been; instead of SPEC and -o. Its data and models must "
    "be what they were.",
)
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Steps after which a run can be resumed within an epoch too; else after each epoch. A resumed run keeps it.",
)
@graph_option
@allow_python_option
@click.option(
    "--epochs", type=click.IntRange(min=1), metavar="N", help="Epochs of every member, whatever the spec says."
)
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Rows a batch of every member.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="What all members' seeds are made from.")
@click.option(
    "--rank",
    metavar="METRIC",
    help="What the copies of a model are ranked by at the end, such as val_accuracy; val_loss if left out, or loss.",
)
@click.option("--force", is_flag=True, help="Replace an earlier run in the folder.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@shared_options()
@click.pass_obj
def command(
    terminal: Terminal,
    spec: Path | None,
    out: Path | None,
    resume: Path | None,
    checkpoint_every: int | None,
    graph: str | None,
    allow_python: bool,
    epochs: int | None,
    batch: int | None,
    seed: int | None,
    rank: str | None,
    force: bool,
    quiet: bool,
) -> int:
    """Train all members of a spec on the data it names, and write the run folder.

    The folder holds each member's model, the history as CSV and JSON, the learning curves, the plan and the spec.
    Ctrl-C stops between two batches and keeps what is trained. A run that was cut off, by Ctrl-C or by anything
    else, is resumed with --resume and ends as if it had not been.
    """
    began = time.monotonic()
    _check_usage(spec, out, resume, epochs, batch, seed, graph, force)
    before = None if resume is None else unfinished_run(resume)
    if before is not None:
        source, spec_path, out = before.source, before.spec_path, resume
        graph, epochs, batch, seed, every = (before.arguments.get(key) for key in _SAID)
        checkpoint_every = every if checkpoint_every is None else checkpoint_every
    else:
        assert spec is not None
        source, spec_path = read_source(spec), None if spec == STDIN else spec
    assert out is not None
    plan = pipeline.plan(source, graph=graph)  # what the text alone tells is told before TensorFlow starts
    check_has_models(plan)
    for check in (check_has_data, check_has_files, check_has_optimizers):
        check(plan, source)
    for check_sources in (check_models, check_data_factories):
        check_sources(plan, source, allow_python=allow_python)
    if before is None:
        check_run_place(out, force=force)
    else:
        check_unchanged(plan.composition, source, before.files)
        if not before.has_backup:
            terminal.label("note", f"{out} was cut off before its first backup: it begins anew")
    start_tensorflow(terminal)
    from composer.runs.faults import lost_members
    from composer.runs.jobs import FitOptions, prepare_fit

    options = FitOptions(graph, allow_python, epochs, batch, seed)
    with working(terminal, "loading models and data"), redirect_stdout(sys.stderr):
        job = prepare_fit(source, options)
    start = time.monotonic() - began
    with stop_requests(terminal) as request:
        how = {"force": force, "resume": resume is not None, "checkpoint_every": checkpoint_every, "rank": rank}
        result, seconds = _train(terminal, job, out, request, quiet=quiet, spec_path=spec_path, **how)
    if result.interrupted:
        terminal.label("note", f"interrupted; {_kept(result)}")
        return request.exit_code
    terminal.result("\n".join([_summary(result, seconds, start), *map(_ranked, result.rankings)]))
    if rank is not None and not result.rankings:
        terminal.label("note", f"nothing is ranked by {rank}: no copies of a model log it")
    lost = lost_members(result.histories, job.joint.members, job.source)
    terminal.diagnostics(lost)
    return FAULT if len(lost) == len(result.histories) else 0


def _check_usage(spec: Path | None, out: Path | None, resume: Path | None, *said: Any) -> None:
    if resume is None:
        missing = "SPEC" if spec is None else "-o" if out is None else None
        if missing:
            raise click.UsageError(f"Missing {missing}. Give SPEC and -o RUN, or --resume RUN.")
    elif spec is not None or out is not None or any(value not in (None, False) for value in said):
        raise click.UsageError(
            "--resume goes on with the spec and the settings of the run: leave out SPEC, -o, --force, --graph, "
            "--epochs, --batch and --seed."
        )


def _train(
    terminal: Terminal, job: FitJob, out: Path, request: StopRequest, *, quiet: bool, **options: Any
) -> tuple[FitResult, float]:
    from composer.runs.jobs import run_fit

    rows = {name: each.num_rows for name, each in job.rows.items()}
    state = FitState(rows)
    with _display(terminal, state, rows, request, quiet) as listener, redirect_stdout(sys.stderr):
        result = run_fit(job, out, listener=listener, should_stop=request, **options)
    return result, state.elapsed


@contextmanager
def _display(
    terminal: Terminal, state: FitState, rows: Mapping[str, int | None], request: StopRequest, quiet: bool
) -> Iterator[FitListener | None]:
    """Who is told how it goes: a live table on a terminal, plain lines elsewhere, nobody where it is to be quiet."""
    if quiet or not terminal.is_live(sys.stderr):
        yield None if quiet else PlainProgress(rows, terminal.say)
        return
    from rich.console import Console

    from composer.cli.live_display import live_display

    console = Console(file=sys.stderr, force_terminal=True, no_color=not terminal.colors(sys.stderr))
    with live_display(state, console, request, keep=not sys.stdout.isatty()):
        yield state


def _kept(result: FitResult) -> str:
    """What an interrupted run leaves, and where."""
    epochs = {name: result.epochs(name) for name in list(result.histories)[:8]}
    told = ", ".join(f"{name} after {count} epoch{'s' if count != 1 else ''}" for name, count in epochs.items())
    more = f" and {len(result.histories) - 8} more" if len(result.histories) > 8 else ""
    return (
        f"what was trained is kept in {result.folder} ({told}{more}); `composer fit --resume {result.folder}` goes on"
    )


def _summary(result: FitResult, seconds: float, start: float) -> str:
    """How long it took, and the last value of every member's losses and metrics."""
    states = {}
    for name, history in result.histories.items():
        last = {metric: values[-1] for metric, values in history.items() if values}
        states[name] = MemberState(0, None, None, epoch=result.epochs(name), logs=last)
    metrics = shown_metrics(states, MOST_METRICS)
    rows = [("member", "epochs", *metrics)]
    rows += [(name, str(s.epoch), *(shown_number(s.logs.get(m)) for m in metrics)) for name, s in states.items()]
    count = len(states)
    lines = [f"{result.folder}: {count} member{'s' if count != 1 else ''} trained in {shown_time(seconds)}"]
    lines[0] += f", after {shown_time(start)} of starting and loading"
    lines += _aligned(rows)
    if more := more_metrics(states, metrics):
        lines.append(f"  {more}")
    return "\n".join(lines)


def _ranked(ranking: Ranking) -> str:
    """The copies of a branch, the best first, with what sets them apart."""
    settings = list(ranking.members[0].settings)
    rows = [("member", ranking.metric, "epoch", *settings)]
    for each in ranking.members[:MOST_RANKED]:
        values = [str(each.settings[name]) for name in settings]
        rows.append((each.member, shown_number(each.value), str(each.epoch), *values))
    lines = [f"{ranking.branch}: the best of {len(ranking.members)} is kept as models/{ranking.branch}.best.keras"]
    lines += _aligned(rows)
    if rest := len(ranking.members) - MOST_RANKED:
        lines += [f"  and {rest} more in ranking.csv"] if rest > 0 else []
    return "\n".join(lines)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table, the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        aligned = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
        lines.append("  " + "  ".join(aligned).rstrip())
    return lines
