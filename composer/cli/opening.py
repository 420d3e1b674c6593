"""A spec or a run folder, as the verbs take either, to a joint model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from composer import pipeline
from composer.cli.specs import read_source
from composer.cli.start import start_tensorflow
from composer.cli.terminal import Terminal

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel
    from composer.runtime.run_folder import Run


def open_joint(
    terminal: Terminal, path: Path, *, graph: str | None = None, allow_python: bool = False
) -> tuple[ComposedModel, Run | None]:
    """The joint model of a spec, or of a run with the weights it was trained to.

    Returns:
        The model, and the run where `path` is the folder of one.
    """
    if path.is_dir():
        return _open_run(terminal, path, graph, allow_python)
    source = read_source(path)
    pipeline.plan(source, graph=graph)  # what the text alone tells is told before TensorFlow starts
    with working(terminal, "starting TensorFlow"):
        start_tensorflow(terminal)
    with working(terminal, "loading models"):
        joint = pipeline.compile(source, graph=graph, allow_python=allow_python)
    terminal.diagnostics(joint.plan.warnings)
    return joint, None


def _open_run(terminal: Terminal, path: Path, graph: str | None, allow_python: bool) -> tuple[ComposedModel, Run]:
    with working(terminal, "starting TensorFlow"):
        start_tensorflow(terminal)
    from composer.errors import ComposerError
    from composer.runtime.reopening import open_run
    from composer.runtime.run_folder import read_run

    run = read_run(path)
    trained = run.record.arguments.get("graph")
    if graph is not None and graph != trained:
        told = f"`{trained}`" if trained else "the unnamed composition"
        raise ComposerError(f"the run {path} trained {told}, not `{graph}`. Leave `--graph` out")
    with working(terminal, "loading models"):
        return open_run(run, allow_python=allow_python), run


@contextmanager
def working(terminal: Terminal, what: str) -> Iterator[None]:
    """Says what takes a while, on a terminal; it is gone afterwards."""
    if not terminal.is_live:
        yield
        return
    from rich.console import Console

    console = Console(file=sys.stderr, force_terminal=True, no_color=not terminal.colors(sys.stderr))
    with console.status(f"{what} ..."):
        yield
