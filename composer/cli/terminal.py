"""What is shown where: results on stdout, everything else on stderr, colours where they are wanted."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO

from composer.cli.options import Settings
from composer.diagnostics import Diagnostic, render_text
from composer.errors import ComposerWarning

_STYLES = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;34m"}
_RESET = "\x1b[0m"


def open_missing_streams() -> None:
    """Give a process that was started with a standard stream closed an empty one.

    Else the next file to be opened takes its number, and what TensorFlow prints goes into that file.
    """
    for number, (name, flags, mode) in enumerate(
        (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w"))
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


class Terminal:
    """The two streams of the process, looked up at each use.

    Args:
        settings: what the shared options say; they may still change while the command line is read.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.start_messages = ""  # what TensorFlow said while it started, see `composer.cli.start`

    def result(self, text: str) -> None:
        """A result, on stdout."""
        _write(sys.stdout, f"{text}\n")

    def say(self, text: str) -> None:
        """A message, on stderr."""
        _write(sys.stderr, f"{text}\n")

    def label(self, kind: Literal["error", "warning", "note"], text: str) -> None:
        """A message behind `error:`, `warning:` or `note:`, on stderr."""
        self.say(f"{self.paint(kind)}: {text}")

    def paint(self, kind: Literal["error", "warning", "note"]) -> str:
        return f"{_STYLES[kind]}{kind}{_RESET}" if self.colors(sys.stderr) else kind

    def diagnostics(self, diagnostics: Sequence[Diagnostic], *, limit: int = 20) -> None:
        """Diagnostics with their places, on stderr."""
        if diagnostics:
            self.say(render_text(diagnostics, color=self.colors(sys.stderr), limit=limit))

    def colors(self, stream: TextIO) -> bool:
        """Whether a stream shows colours: https://no-color.org, and never into a file unless asked to."""
        if self.settings.color != "auto":
            return self.settings.color == "always"
        return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()

    def is_live(self, stream: TextIO) -> bool:
        """Whether a stream is a terminal on which lines can be drawn anew."""
        return stream.isatty() and os.environ.get("TERM") != "dumb"

    def flush(self) -> None:
        """Hand on what is still held back, so that a full disk or a closed pipe is met here."""
        sys.stdout.flush()
        sys.stderr.flush()


@contextmanager
def shown_warnings(terminal: Terminal) -> Iterator[None]:
    """Shows warnings as `warning: ...`, or with their places, each once, instead of the line of code they came from."""
    shown: set[object] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, ComposerWarning) and message.diagnostics:
            new = [each for each in message.diagnostics if (each.code, each.message) not in shown]
            shown.update((each.code, each.message) for each in new)
            terminal.diagnostics(new)
            return
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            terminal.label("warning", text)

    with warnings.catch_warnings():
        if not sys.warnoptions:  # `python -W` wins
            warnings.simplefilter("ignore")  # deprecations and the like are for developers
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("default", category)
        warnings.showwarning = show
        yield


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8: its characters are written as escapes
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
