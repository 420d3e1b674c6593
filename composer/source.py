"""The text of a spec and places in it: `SourceText` and `Span`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of a source text: `start <= offset < end`.

    Offsets count characters from 0. Line and column are derived from the text when a place is shown, so a span stays two
    numbers and can be compared and joined.
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
    """A spec's text with the name it is shown under and the folder its relative paths start from."""

    text: str
    name: str = "<spec>"
    folder: Path = field(default_factory=Path)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, both counted from 1."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its line end."""
        return self.text.split("\n")[number - 1].rstrip("\r")
