"""From where the parser stopped to a diagnostic: the common slips, each with words of its own, and what is left."""

from __future__ import annotations

from collections.abc import Callable

from composer.diagnostics import Diagnostic, did_you_mean
from composer.language import slips_marks, slips_words
from composer.language.expected import accepted_words, expected_words
from composer.language.failure import Failure

_Slip = Callable[[Failure], "Diagnostic | None"]

_SLIPS: tuple[_Slip, ...] = (  # the first that recognises the failure explains it
    slips_words.unclosed_string,
    slips_words.unquoted_source,
    slips_words.later_language,
    slips_words.dotted_name,
    slips_words.unknown_character,
    slips_words.malformed_number,
    slips_words.replica_spelling,
    slips_marks.unclosed_bracket,
    slips_marks.stray_comma,
    slips_marks.stray_bracket,
    slips_words.keyword_as_name,
    slips_words.unknown_statement,
    slips_marks.missing_value,
    slips_marks.missing_equals,
    slips_marks.missing_comma,
    slips_marks.unnamed_argument,
)


def explain(failure: Failure) -> Diagnostic:
    """The diagnostic of a failure."""
    for slip in _SLIPS:
        diagnostic = slip(failure)
        if diagnostic:
            return diagnostic
    return _unexpected(failure) if failure.word else _early_end(failure)


def _unexpected(failure: Failure) -> Diagnostic:
    word = failure.word
    assert word is not None  # the caller looked
    help: tuple[str, ...] = did_you_mean(word.text, accepted_words(failure)) if word.kind == "name" else ()
    if word.text == "on" and failure.context == "statement":
        help = ("`on` stands directly behind the closing parenthesis of `parallel(...)`, before its options",)
    elif word.text == "as" and failure.context == "branches":
        help = ("`as` stands behind the model's name and its replica count, before the options",)
    elif failure.context == "branches" and word.kind == "string":
        help = ('name the file in a statement, `model a = "..."`, and list the name',)
    return failure.fault("MG105", f"unexpected `{word.text}`", label=expected_words(failure), help=help)


def _early_end(failure: Failure) -> Diagnostic:
    statement = failure.words[0].text
    message = (
        f"the file ends in the middle of a `{statement}` statement"
        if failure.is_last
        else f"a `{statement}` statement ends too early"
    )
    return failure.fault("MG106", message, label=expected_words(failure))
