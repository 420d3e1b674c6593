"""Specs as the command line names them: a path, or `-` for the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from composer.language.reader import decode_spec
from composer.pipeline import read
from composer.source import SourceText

STDIN = Path("-")


def read_source(spec: Path) -> SourceText:
    """The text of a spec.

    Raises:
        SpecError: it cannot be read, or is no text.
    """
    if spec == STDIN:
        return decode_spec(sys.stdin.buffer.read(), SourceText("", "<stdin>"))
    return read(spec)


def shown_name(spec: Path) -> str:
    """What a spec is called in messages."""
    return "<stdin>" if spec == STDIN else str(spec)
