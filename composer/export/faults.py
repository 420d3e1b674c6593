"""`ExportError`s with their code, in one shape."""

from __future__ import annotations

import re
from pathlib import Path

from composer.diagnostics import Diagnostic, render_text
from composer.errors import ExportError


def export_error(code: str, message: str, *help: str, notes: tuple[str, ...] = ()) -> ExportError:
    """An `ExportError` for one fault, ready to be raised.

    Args:
        code: a registered MG6xx code.
        message: what happened, what was expected and what was received; lower case, no full stop.
        help: how to mend it, one sentence each.
        notes: further facts.
    """
    return export_errors([Diagnostic(code, message, help=help, notes=notes)])


def not_written(base: Path, why: str) -> ExportError:
    """An `ExportError` for a version that cannot be written into `base`."""
    return export_error(
        "MG605",
        f"cannot write a version into {base}: {why}",
        "give a folder that can be written, on a disk with room for all weights",
        notes=("nothing was written, and earlier versions are as they were",),
    )


def export_errors(diagnostics: list[Diagnostic]) -> ExportError:
    """An `ExportError` that reports several faults together."""
    return ExportError(render_text(diagnostics), tuple(diagnostics))


def reason(error: BaseException) -> str:
    """What an exception of TensorFlow's or Keras' says, on one line, without colours and the list of arguments."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("Arguments received by")[0]
    return f"{type(error).__name__}: {' '.join(text.split())[:400]}"
