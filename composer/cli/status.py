"""A line that says what takes a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from composer.cli.terminal import Terminal


@contextmanager
def working(terminal: Terminal, what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Says what takes a while, on a terminal; it is gone afterwards. Elsewhere nothing is said.

    Args:
        terminal: whose colours are used.
        what: as in `loading models`.
        stream: the terminal's stream, where `sys.stderr` leads elsewhere for the moment.
    """
    stream = stream or sys.stderr
    if not terminal.is_live(stream):
        yield
        return
    from rich.console import Console  # costs a tenth of a second, and only people need it

    console = Console(file=stream, force_terminal=True, no_color=not terminal.colors(stream))
    with console.status(f"{what} ..."):
        yield
