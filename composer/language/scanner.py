"""A tolerant look at a text that the parser refused: its words, and where its statements begin.

The parser stops at its first fault. To report all of them, the text is cut where statements begin, and each piece is
parsed by itself. This scanner accepts every text; what it finds is only used to cut and to explain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from composer.diagnostics import near_names
from composer.source import SourceText, Span

STATEMENT_WORDS = ("model", "data", "train", "let", "parallel")
KEYWORDS = frozenset((*STATEMENT_WORDS, "on", "as"))

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}

_STRING = r""" "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' """
_WORD = re.compile(
    rf"""
    (?P<comment> \#[^\r\n]*)
  | (?P<string> {_STRING})
  | (?P<unclosed> "(?:[^"\\\r\n]|\\[^\r\n])*\\? | '(?:[^'\\\r\n]|\\[^\r\n])*\\?)
  | (?P<number> [+-]?\.?[0-9](?:[eE][+-]?[0-9]|[\w.])*)
  | (?P<name> [^\W\d]\w*(?:\.[^\W\d]\w*)*(?::[^\W\d]\w*(?:\.[^\W\d]\w*)*)?)
  | (?P<mark> [=,:*()\[\]{{}}])
  | (?P<space> [ \t\f\r\n]+)
  | (?P<other> .)
    """,
    re.VERBOSE | re.DOTALL,
)
_STRING_OR_COMMENT = re.compile(rf"(?P<string>{_STRING})|(?P<comment>\#[^\r\n]*)", re.VERBOSE)


@dataclass(frozen=True, slots=True)
class Word:
    """One word or mark of a text. `kind` is string, unclosed, number, name, mark or other."""

    kind: str
    text: str
    span: Span
    first_on_line: bool
    column: int

    @property
    def is_keyword(self) -> bool:
        return self.text in KEYWORDS


@dataclass(frozen=True, slots=True)
class Piece:
    """The words of one statement, or of what may have been meant as one. It has at least one word."""

    words: tuple[Word, ...]
    is_last: bool

    @property
    def span(self) -> Span:
        return self.words[0].span.join(self.words[-1].span)


def scan(source: SourceText) -> tuple[Word, ...]:
    """All words of a text, without white space and comments."""
    words: list[Word] = []
    line_before = 0
    for match in _WORD.finditer(source.text):
        kind = match.lastgroup or "other"
        if kind in ("space", "comment"):
            continue
        line, column = source.position(match.start())
        words.append(Word(kind, match[0], Span(match.start(), match.end()), line != line_before, column))
        line_before = line
    return tuple(words)


def comment_spans(text: str) -> list[Span]:
    """Where the comments of a text without faults are."""
    if "#" not in text:
        return []
    found = _STRING_OR_COMMENT.finditer(text)
    return [Span(match.start(), match.end()) for match in found if match.lastgroup == "comment"]


def pieces(words: Sequence[Word]) -> list[Piece]:
    """The words, cut where statements begin."""
    starts = [0] if words else []
    depth = 0
    for index, word in enumerate(words):
        if index and _begins_statement(words, index, words[starts[-1]], depth):
            starts.append(index)
            depth = 0
        if word.kind == "mark":
            depth = max(depth + (word.text in OPENERS) - (word.text in CLOSERS), 0)
    ends = [*starts[1:], len(words)]
    return [Piece(tuple(words[a:b]), b == len(words)) for a, b in zip(starts, ends, strict=True)]


def _begins_statement(words: Sequence[Word], index: int, statement: Word, depth: int) -> bool:
    """Whether a word begins a statement, judged by what is around it and by the statement before, which may be broken.

    A keyword does where its statement's next words follow; where something else should stand, only in the margin.
    Another word does where it looks like a misspelt keyword.
    """
    word = words[index]
    in_margin = word.first_on_line and word.column <= statement.column
    wants_more = _wants_more(words[index - 1])
    if word.text in STATEMENT_WORDS:
        if _looks_like_statement(words, index):
            return not wants_more or (in_margin and word.text != "parallel")
        return in_margin and not wants_more
    if word.kind != "name" or not word.first_on_line or wants_more or depth:
        return False
    follower = words[index + 1].text if index + 1 < len(words) else ""
    return follower != "=" and (in_margin or bool(near_names(word.text, STATEMENT_WORDS)))


def _wants_more(word: Word) -> bool:
    """Whether a name or a value must follow this word, so that the next one hardly begins a statement."""
    return word.is_keyword or (word.kind == "mark" and word.text in "=,:([{")


def _looks_like_statement(words: Sequence[Word], index: int) -> bool:
    """Whether a keyword is followed by what its statement wants next."""
    one, two = (words[place].text if place < len(words) else "" for place in (index + 1, index + 2))
    if words[index].text == "parallel":
        return one == "("
    if words[index].text == "train":
        return one == "*" or one[:1].isalpha()
    return two == "=" and one[:1] not in "=,()[]{}"
