"""Slips in what joins words: brackets, commas, equals signs."""

from __future__ import annotations

from composer.diagnostics import Diagnostic, near_names
from composer.language.expected import expected_words
from composer.language.failure import Failure
from composer.language.scanner import CLOSERS, OPENERS, Word
from composer.source import Span

_BRANCH_OPTIONS = ("at", "copies", "group", "per")
_CLOSER_TERMINALS = {"(": "RPAR", "[": "RSQB", "{": "RBRACE"}


def unclosed_bracket(failure: Failure) -> Diagnostic | None:
    unclosed = [place for place in failure.unclosed if place in failure.open_brackets]
    if not unclosed:
        return None
    opener = failure.words[unclosed[-1]]
    word = failure.word
    if word and (_CLOSER_TERMINALS[opener.text] not in failure.accepts or unclosed[-1] != failure.open_brackets[-1]):
        return None
    openers = {failure.words[place].text for place in failure.open_brackets}
    if word and word.text in CLOSERS and CLOSERS[word.text] not in openers:
        return None  # the wrong bracket
    closer = OPENERS[opener.text]
    return failure.fault(
        "MG107",
        f"`{opener.text}` is never closed",
        span=opener.span,
        label="opened here",
        help=(f"close it with `{closer}`" + (f" before `{word.text}`" if word else ""),),
    )


def stray_bracket(failure: Failure) -> Diagnostic | None:
    word = failure.word
    if word is None or word.text not in CLOSERS:
        return None
    if not failure.open_brackets:
        return failure.fault("MG108", f"`{word.text}` closes nothing", label="no bracket is open here")
    opener = failure.words[failure.open_brackets[-1]]
    if opener.text == CLOSERS[word.text]:
        return None
    line, column = failure.source.position(opener.span.start)
    return failure.fault(
        "MG108",
        f"`{word.text}` cannot close `{opener.text}`",
        label=f"expected `{OPENERS[opener.text]}`",
        notes=(f"`{opener.text}` was opened at line {line}, column {column}",),
    )


def stray_comma(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if word is None or before is None:
        return None
    if before.text == "," and before.kind == "mark" and word.text in CLOSERS:
        return _comma_fault(failure, f"the comma before `{word.text}` separates nothing", before)
    if word.text != "," or word.kind != "mark":
        return None
    if before.text in OPENERS or before.text == ",":
        return _comma_fault(failure, f"the comma behind `{before.text}` separates nothing", word)
    if failure.context == "statement" and "NAME" in failure.accepts:
        return _comma_fault(failure, "options are separated by spaces, not by commas", word)
    return None


def _comma_fault(failure: Failure, message: str, comma: Word) -> Diagnostic:
    return failure.fault("MG110", message, span=comma.span, label="remove this comma")


def missing_value(failure: Failure) -> Diagnostic | None:
    """`batch= epochs=3`: the next option's name was taken for the value."""
    word, before = failure.word, failure.before
    if word is None or before is None or word.text != "=" or before.kind != "name" or failure.index < 3:
        return None
    equals, name = failure.words[failure.index - 2], failure.words[failure.index - 3]
    if equals.text != "=":
        return None
    return failure.fault(
        "MG105", f"`{name.text}` has no value", span=Span(equals.span.end, equals.span.end), label="expected a value"
    )


def missing_equals(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if failure.accepts != {"EQUAL"} or before is None or _is_next_branch(failure):
        return None
    if word is None or word.text in CLOSERS or word.text == ",":
        names = failure.index == 2 and failure.words[0].text
        what = {"model": "a source", "data": "a source", "let": "a composition"}.get(names or "", "a value")
        label = f"expected `=` and {what}"
    else:
        label = "expected `=`" + (" instead" if word.kind in ("mark", "other") else " before this")
    return failure.fault("MG112", f"`=` is missing behind `{before.text}`", label=label)


def _is_next_branch(failure: Failure) -> bool:
    """Whether the name without `=` is the next branch's model, a comma being left out, and not an option."""
    word, before = failure.word, failure.before
    if failure.context != "branches" or word is None or before is None:
        return False
    takes_no_value = word.kind == "name" or word.text in (",", ")")
    return takes_no_value and not (before.text in _BRANCH_OPTIONS or near_names(before.text, _BRANCH_OPTIONS))


def missing_comma(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if word is None or before is None or failure.context == "statement":
        return None
    if failure.accepts == {"EQUAL"} and _is_next_branch(failure):
        return _missing_comma(failure, failure.words[failure.index - 2], before)
    starts_entry = word.kind in ("name", "number", "string") or word.text in ("[", "{")
    if "COMMA" not in failure.accepts or not starts_entry or failure.context == "branches":
        return None
    return _missing_comma(failure, before, word)


def _missing_comma(failure: Failure, one: Word, two: Word) -> Diagnostic:
    return failure.fault(
        "MG109",
        f"a comma is missing between `{one.text}` and `{two.text}`",
        span=two.span,
        label="expected `,` before this",
    )


def unnamed_argument(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if word is None or before is None or failure.context != "arguments" or before.text not in ("(", ","):
        return None
    if "NAME" not in failure.accepts or word.text in CLOSERS or word.text == "=":
        return None
    return failure.fault(
        "MG105",
        f"the argument `{word.text}` has no name",
        label=expected_words(failure),
        help=("arguments are given by name: `adam(learning_rate=1e-3)`",),
    )
