"""`Failure`: where and why the parser stopped in one statement, with what is needed to explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lark import UnexpectedInput, UnexpectedToken

from composer.diagnostics import Diagnostic
from composer.language.scanner import CLOSERS, OPENERS, Piece, Word
from composer.source import SourceText, Span

Context = Literal["statement", "branches", "arguments", "list", "map"]


@dataclass(frozen=True, slots=True)
class Failure:
    """The parser stopped at `words[index]`, or behind the last word, where one of `accepts` was expected.

    Args:
        source: the text.
        words: the words of the statement.
        index: the word that does not fit; the number of words where the end does not fit.
        accepts: the terminals that would have fitted, by the grammar's names.
        is_last: whether the statement is the last of the file.
    """

    source: SourceText
    words: tuple[Word, ...]
    index: int
    accepts: frozenset[str]
    is_last: bool

    @property
    def word(self) -> Word | None:
        """The word that does not fit; None where the end does not."""
        return self.words[self.index] if self.index < len(self.words) else None

    @property
    def before(self) -> Word | None:
        return self.words[self.index - 1] if self.index else None

    @property
    def follower(self) -> str:
        """The text of the word behind the one that does not fit."""
        return self.words[self.index + 1].text if self.index + 1 < len(self.words) else ""

    @property
    def span(self) -> Span:
        """Where to point: the word that does not fit, or the place behind the last one."""
        if self.word:
            return self.word.span
        end = self.words[-1].span.end
        return Span(end, end)

    @property
    def open_brackets(self) -> tuple[int, ...]:
        """The places of the brackets that are open before the word, the innermost last."""
        return match_brackets(self.words[: self.index])[0]

    @property
    def unclosed(self) -> tuple[int, ...]:
        """The places of the brackets that nothing in the whole statement closes."""
        left_open, skipped = match_brackets(self.words)
        return tuple(sorted((*left_open, *skipped)))

    @property
    def context(self) -> Context:
        """What the innermost open bracket encloses."""
        if not self.open_brackets:
            return "statement"
        place = self.open_brackets[-1]
        opener = self.words[place].text
        if opener == "(":
            return "branches" if place and self.words[place - 1].text == "parallel" else "arguments"
        return "list" if opener == "[" else "map"

    def fault(self, code: str, message: str, *, span: Span | None = None, label: str = "", help: Sequence[str] = (),
              notes: Sequence[str] = ()) -> Diagnostic:  # fmt: skip
        """A diagnostic at the word that does not fit, or at `span`."""
        return Diagnostic(code, message, span or self.span, self.source, label, tuple(help), tuple(notes))


def match_brackets(words: Sequence[Word]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places of brackets still open at the end, and of those that a bracket further out was closed over."""
    stack: list[int] = []
    skipped: list[int] = []
    for place, word in enumerate(words):
        if word.kind != "mark":
            continue
        if word.text in OPENERS:
            stack.append(place)
        elif word.text in CLOSERS and any(words[opener].text == CLOSERS[word.text] for opener in stack):
            while words[stack[-1]].text != CLOSERS[word.text]:
                skipped.append(stack.pop())
            stack.pop()
    return tuple(stack), tuple(skipped)


def failure_of(error: UnexpectedInput, source: SourceText, piece: Piece) -> Failure:
    """What an exception of the parser means in the words of its statement."""
    words = piece.words
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    offset = words[-1].span.end if at_end else error.pos_in_stream or 0
    index = next((place for place, word in enumerate(words) if word.span.end > offset), len(words))
    if index < len(words) and offset > words[index].span.start:
        words = (*words[:index], *_split(words[index], offset), *words[index + 1 :])
        index += 1
    accepts = frozenset(error.interactive_parser.accepts())  # type: ignore[no-untyped-call]
    return Failure(source, words, index, accepts, piece.is_last)


def _split(word: Word, offset: int) -> tuple[Word, ...]:
    """A word in the middle of which the parser stopped (a dotted name where none may stand), in its parts."""
    cut = offset - word.span.start
    head = replace(word, text=word.text[:cut], span=Span(word.span.start, offset))
    middle = _part(word, cut, cut + 1, "mark" if word.text[cut] in "=,:*" else "other")
    tail = _part(word, cut + 1, len(word.text), word.kind)
    return (head, middle, tail) if tail.text else (head, middle)


def _part(word: Word, start: int, end: int, kind: str) -> Word:
    base = word.span.start
    return Word(kind, word.text[start:end], Span(base + start, base + end), False, word.column + start)
