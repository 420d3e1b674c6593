"""`composer predict`: one file of predictions a member."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from composer.cli.opening import open_joint
from composer.cli.options import allow_python_option, graph_option, out_option, path_argument, shared_options
from composer.cli.status import working
from composer.cli.terminal import Terminal
from composer.runs.requirements import check_given_files
from composer.runs.run_files import check_prediction_files

_EXAMPLES = """\b
Examples:
  composer predict runs/first --data wine=new.csv -o predictions
  composer predict fleet.mgpu --data a=a.npz --data b=b.npz -o predictions --batch 256
"""


class MemberFile(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """`member=path`."""

    name = "MEMBER=FILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        member, equals, path = str(value).partition("=")
        if not (member.isidentifier() and equals and path):
            self.fail(f"{str(value)!r} is not `MEMBER=FILE`, as in `wine=rows.npz`.", param, ctx)
        return member, Path(path)


@click.command(epilog=_EXAMPLES, short_help="Predict, one file a member.")
@path_argument("spec", "RUN_OR_SPEC")
@click.option(
    "--data",
    type=MemberFile(),
    multiple=True,
    required=True,
    help="The rows of a member, or under a branch's name of all its members; once for each. "
    "`.npz` (`x`, or `x_<input>` of several), `.npy`, `.csv` or `.parquet`.",
)
@out_option("DIR", "The folder to write to: `<member>.npy`, or `<member>.npz` where the member has several outputs.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Rows a batch; 32 if left out.")
@click.option("--force", is_flag=True, help="Replace predictions that are there already.")
@graph_option
@allow_python_option
@shared_options()
@click.pass_obj
def command(
    terminal: Terminal,
    spec: Path,
    data: tuple[tuple[str, Path], ...],
    out: Path,
    batch: int | None,
    force: bool,
    graph: str | None,
    allow_python: bool,
) -> int:
    """Predict with the members of a run, or of a spec as it is, and write one file a member.

    Only the members that `--data` gives rows for run. Row i of the file is what the member predicts for row i.
    """
    files = dict(data)
    if len(files) < len(data):
        twice = next(name for name, _ in data if [key for key, _ in data].count(name) > 1)
        raise click.BadParameter(f"`{twice}` is given twice.", param_hint="--data")
    check_given_files(files)
    check_prediction_files(out, list(files), force=force)
    joint, run = open_joint(terminal, spec, graph=graph, allow_python=allow_python)
    from composer.runs.job_rows import given_rows
    from composer.runs.predictions import write_predictions

    rows = given_rows(joint, files, run.record.members if run is not None else None)
    with working(terminal, "predicting"), redirect_stdout(sys.stderr):
        predictions = joint.predict(rows, batch_size=batch, verbose=0)
    for member, path in write_predictions(out, predictions, force=force).items():
        terminal.result(f"{path}: {_shapes(predictions[member])}")
    return 0


def _shapes(predictions: object) -> str:
    """The shape of each array: `(60, 3)`, or `mean (60, 1), spread (60, 1)`."""
    if isinstance(predictions, dict):
        return ", ".join(f"{name} {_shapes(value)}" for name, value in predictions.items())
    if isinstance(predictions, list | tuple):
        return ", ".join(map(_shapes, predictions))
    return str(tuple(getattr(predictions, "shape", ())))
