"""Diagnostics for people: the source line with the fault underlined."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from composer.diagnostics.diagnostic import Diagnostic
from composer.source import SourceText, Span

TAB_WIDTH = 4
LINE_WIDTH = 160  # longer source lines are shown in part, around the fault

_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "gutter": "\x1b[1;34m"}


def render_text(diagnostics: Sequence[Diagnostic], *, color: bool = False, limit: int = 20) -> str:
    """All diagnostics as text, a blank line between two of them, without a line end behind the last.

        error[MG203]: unknown model `wine_b`
         --> cellar.mgpu:9:18
          |
        9 | parallel(digits, wine_b x2) on gpus=4 merge=gpu
          |                  ^^^^^^ no `model` statement has this name
          = help: did you mean `wine`?

    Args:
        diagnostics: what to show, in this order.
        color: mark severities, carets and gutter with ANSI colours.
        limit: show this many and count the rest.
    """
    paint = _Paint(color)
    shown = ["\n".join(_lines(diagnostic, paint)) for diagnostic in diagnostics[:limit]]
    rest = len(diagnostics) - limit
    if rest > 0:
        shown.append(f"... and {rest} more")
    return "\n\n".join(shown)


@dataclass(frozen=True, slots=True)
class _Paint:
    color: bool

    def __call__(self, text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if self.color and text else text

    def gutter(self, text: str) -> str:
        return self(text, _COLORS["gutter"])


def _lines(diagnostic: Diagnostic, paint: _Paint) -> Iterator[str]:
    style = _COLORS[diagnostic.severity]
    message = visible(diagnostic.message)
    yield paint(f"{diagnostic.severity}[{diagnostic.code}]", style) + paint(f": {message}", _BOLD)
    width = 1
    if diagnostic.source is not None and diagnostic.span is not None:
        last = _last_offset(diagnostic.span)
        width = len(str(diagnostic.source.position(last)[0]))
        yield from _excerpt(diagnostic, diagnostic.source, diagnostic.span, width, paint)
    elif diagnostic.source is not None:
        yield paint.gutter(" " * width + "-->") + f" {visible(diagnostic.source.name)}"
    for kind, texts in (("help", diagnostic.help), ("note", diagnostic.notes)):
        for text in texts:
            yield from _remark(kind, text, width, paint)


def _remark(kind: str, text: str, width: int, paint: _Paint) -> Iterator[str]:
    first, *rest = text.splitlines() or [""]
    yield f"{paint.gutter(' ' * width + ' =')} {paint(kind + ':', _BOLD)} {visible(first)}"
    for line in rest:
        yield f"{' ' * (width + 5 + len(kind))}{visible(line)}".rstrip()


def _excerpt(diagnostic: Diagnostic, source: SourceText, span: Span, width: int, paint: _Paint) -> Iterator[str]:
    """The arrow with the place, then each shown line of the span with its carets; a long span shows its ends."""
    style = _COLORS[diagnostic.severity]
    first, column = source.position(span.start)
    last, _ = source.position(_last_offset(span))
    yield f"{paint.gutter(' ' * width + '-->')} {visible(source.name)}:{first}:{column}"
    yield paint.gutter(" " * width + " |")
    for number in sorted({first, last}):
        if number == last and last > first + 1:
            yield paint.gutter("...")
        line, indent, carets = _underlined(source, span, number)
        yield f"{paint.gutter(f'{number:>{width}} |')} {line}".rstrip()
        label = f" {visible(diagnostic.label)}" if number == last and diagnostic.label else ""
        yield f"{paint.gutter(' ' * width + ' |')} {' ' * indent}{paint('^' * carets + label, style)}"


def _last_offset(span: Span) -> int:
    return max(span.start, span.end - 1)


def _underlined(source: SourceText, span: Span, number: int) -> tuple[str, int, int]:
    """A line as it is shown, the columns before its carets, and the number of carets."""
    text = source.line(number)
    begin = source.line_start(number)
    start = min(max(span.start - begin, 0), len(text))
    if start == 0 and span.start < begin:  # a later line of a long span: leave its indent alone
        start = len(text) - len(text.lstrip())
    end = min(max(span.end - begin, start), len(text))
    shown = shown_line(text[:start]), shown_line(text[:end]), shown_line(text)
    indent, until = _columns(shown[0]), _columns(shown[1])
    return _cropped(shown[2], indent, max(until - indent, 1))


def _cropped(line: str, indent: int, carets: int) -> tuple[str, int, int]:
    if _columns(line) <= LINE_WIDTH:
        return line, indent, carets
    left = max(indent - LINE_WIDTH // 3, 0)
    start, skipped = _cut(line, left)
    length, _ = _cut(line[start:], LINE_WIDTH)
    ahead = "..." if start else ""
    behind = "..." if start + length < len(line) else ""
    indent = indent - skipped + len(ahead)
    return ahead + line[start : start + length] + behind, indent, min(carets, LINE_WIDTH + len(ahead) - indent)


def _cut(line: str, columns: int) -> tuple[int, int]:
    """How many characters fill at least so many columns, and how many columns they fill."""
    filled = 0
    for index, character in enumerate(line):
        if filled >= columns:
            return index, filled
        filled += _width(character)
    return len(line), filled


def shown_line(text: str) -> str:
    """A source line as a terminal shows it: tabs as spaces to the next stop, nothing that would steer the terminal."""
    shown: list[str] = []
    filled = 0
    for character in text:
        piece = " " * (TAB_WIDTH - filled % TAB_WIDTH) if character == "\t" else _visible(character)
        shown.append(piece)
        filled += _columns(piece)
    return "".join(shown)


def visible(text: str) -> str:
    """Text without characters that would steer a terminal: each is shown as a replacement character."""
    return "".join(map(_visible, text)) if not text.isprintable() else text


def _visible(character: str) -> str:
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
