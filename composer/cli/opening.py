"""A spec or a run folder, as the verbs take either, to a joint model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from composer import pipeline
from composer.cli.specs import STDIN, read_source
from composer.cli.start import start_tensorflow
from composer.cli.status import working
from composer.cli.terminal import Terminal
from composer.diagnostics import near_files, quoted_list
from composer.errors import ComposerError
from composer.pipeline import SPEC_SUFFIX
from composer.runs.requirements import check_has_files, check_has_models, check_models
from composer.runs.run_files import check_is_run

if TYPE_CHECKING:
    from composer.runs.run_folder import Run
    from composer.runtime.composed_model import ComposedModel


def open_joint(
    terminal: Terminal, path: Path, *, graph: str | None = None, allow_python: bool = False
) -> tuple[ComposedModel, Run | None]:
    """The joint model of a spec, or of a run with the weights it was trained to.

    Returns:
        The model, and the run where `path` is the folder of one.
    """
    if path.is_dir():
        return _open_run(terminal, path, graph, allow_python)
    if path not in (STDIN, path.with_suffix(SPEC_SUFFIX)) and not path.exists():
        near = near_files(path)
        raise ComposerError(
            f"{path} does not exist. Expected the folder of a run, or a spec, a `{SPEC_SUFFIX}` file"
            + (f". Did you mean {quoted_list(near)}?" if near else "")
        )
    source = read_source(path)
    plan = pipeline.plan(source, graph=graph)  # what the text alone tells is told before TensorFlow starts
    check_has_models(plan)
    check_has_files(plan, source, data=False)
    check_models(plan, source, allow_python=allow_python)
    start_tensorflow(terminal)
    with working(terminal, "loading models"):
        joint = pipeline.compile(source, graph=graph, allow_python=allow_python)
    return joint, None


def _open_run(terminal: Terminal, path: Path, graph: str | None, allow_python: bool) -> tuple[ComposedModel, Run]:
    check_is_run(path)
    start_tensorflow(terminal)
    from composer.runs.reopening import open_run
    from composer.runs.run_folder import read_run

    run = read_run(path)
    trained = run.record.arguments.get("graph")
    if graph is not None and graph != trained:
        told = f"`{trained}`" if trained else "the unnamed composition"
        raise ComposerError(f"the run {path} trained {told}, not `{graph}`. Leave `--graph` out")
    with working(terminal, "loading models"):
        return open_run(run, allow_python=allow_python), run
