"""The text of a spec and places in it: `SourceText` and `Span`."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\n|\r")


def located(folder: Path, written: str) -> Path:
    """The file that a spec in a folder names, without the detours of `sp/../x`.

    Behind a link to a folder `..` leads elsewhere than it seems; such a path stays as it is.
    """
    path = folder / written
    direct = Path(os.path.normpath(path))
    return direct if direct.resolve() == path.resolve() else path


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of a source text: `start <= offset < end`.

    Offsets count characters from 0. Line and column are derived from the text when a place is shown, so a span stays
    two numbers and can be compared and joined.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a span needs 0 <= start <= end. Received: start={self.start}, end={self.end}")

    def join(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class SourceText:
    """A spec's text with the name it is shown under and the folder its relative paths start from.

    Lines end with a line feed, a carriage return or both.
    """

    text: str
    name: str = "<spec>"
    folder: Path = field(default_factory=Path)
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)  # the offset of each line's first character

    def __post_init__(self) -> None:
        starts = (0, *(end.end() for end in _LINE_END.finditer(self.text)))
        object.__setattr__(self, "_starts", starts)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, both counted from 1."""
        number = bisect_right(self._starts, offset)
        return number, offset - self._starts[number - 1] + 1

    def line_start(self, number: int) -> int:
        """The offset of the first character of a line, counted from 1."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its line end."""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")
