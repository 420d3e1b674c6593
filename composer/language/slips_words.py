"""Slips in single words: strings, numbers, characters, replica counts, keywords, statement words."""

from __future__ import annotations

import re
import unicodedata

from composer.diagnostics import Diagnostic, did_you_mean, near_names
from composer.language.expected import STATEMENT_START, VALUE_START, expected_words
from composer.language.failure import Failure
from composer.language.scanner import STATEMENT_WORDS, Word

_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_REPLICAS_TURNED = re.compile(r"([0-9]+)[xX]")
_REPLICAS = re.compile(r"[xX]([0-9]+)")
_TIMES = "\N{MULTIPLICATION SIGN}"
_OPTION_WORDS_LATER = "a replica count stands once, directly behind the model's name: `wine x2 as cellar group=10`"

KEYWORD_LIST = "the keywords are `model`, `data`, `train`, `let`, `parallel`, `on` and `as`"


def unclosed_string(failure: Failure) -> Diagnostic | None:
    word = failure.word
    if word is None or word.kind != "unclosed":
        return None
    return failure.fault(
        "MG116",
        "a string is never closed",
        label=f"opened with {word.text[0]} and not closed on its line",
        help=(f"close it with {word.text[0]}",),
    )


def unquoted_source(failure: Failure) -> Diagnostic | None:
    """A path without quotes, or a factory spelled like a call, where a source is expected."""
    word = failure.word
    if word is None or not {"STRING", "FACTORY"} <= failure.accepts or word.kind == "string" or word.is_keyword:
        return None
    if word.kind == "mark" or (word.kind == "other" and word.text not in "./~\\"):
        return None
    if word.kind == "name" and failure.follower == "(" and "." in word.text:
        module, _, function = word.text.rpartition(".")
        return failure.fault(
            "MG105",
            f"unexpected `{word.text}`",
            label=expected_words(failure),
            help=(f"a factory has a colon before the function: `{module}:{function}(...)`",),
        )
    return failure.fault(
        "MG105", f"unexpected `{word.text}`", label=expected_words(failure), help=("put a path in quotes",)
    )


def later_language(failure: Failure) -> Diagnostic | None:
    """What the language is going to have."""
    word = failure.word
    if word is None:
        return None
    what = ""
    if word.text == ">" and failure.follower == ">":
        what = "chains (`a >> b`)"
    elif failure.context == "branches" and word.text == "parallel" and failure.follower == "(":
        what = "nested compositions"
    elif failure.context == "branches" and word.text == "(":
        what = "functions of branches"
    if not what:
        return None
    return failure.fault(
        "MG120",
        f"{what} are not in the language yet",
        label="not in this version",
        help=("list the models themselves: `parallel(a, b)`",),
    )


def dotted_name(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if word is None or before is None or word.text != "." or before.kind != "name":
        return None
    return failure.fault(
        "MG105",
        f"unexpected `.` behind `{before.text}`",
        label=expected_words(failure),
        help=(
            "names have no dots: optimizers, losses, metrics and callbacks go by their Keras names alone, "
            "`adam(learning_rate=1e-3)`",
        ),
    )


def unknown_character(failure: Failure) -> Diagnostic | None:
    word = failure.word
    if word is None or not (word.kind == "other" or (word.kind == "name" and not word.text.isascii())):
        return None
    if failure.context == "branches" and word.text == _TIMES:
        return None  # a replica count
    place = next(index for index, letter in enumerate(word.text) if word.kind == "other" or not letter.isascii())
    character = word.text[place]
    span = type(word.span)(word.span.start + place, word.span.start + place + 1)
    return failure.fault(
        "MG115",
        f"{_shown(character)} belongs to nothing in the language",
        span=span,
        label="names are made of a-z, A-Z, 0-9 and _" if character.isalpha() else expected_words(failure),
        help=_character_help(character, failure),
    )


def _shown(character: str) -> str:
    name = unicodedata.name(character, "")
    point = f"U+{ord(character):04X}"
    if character.isprintable() and not character.isspace():
        return f"`{character}`" if character.isascii() else f"`{character}` ({point})"
    return f"the character {point}" + (f" ({name.lower()})" if name else "")


def _character_help(character: str, failure: Failure) -> tuple[str, ...]:
    if character == "`" or "QUOTATION MARK" in unicodedata.name(character, ""):
        return ("strings are quoted with \" or '",)
    if character.isspace() or unicodedata.category(character) == "Cf":
        return ("use plain spaces, tabs and line ends only",)
    if character == ";":
        at_statement = failure.context == "statement"
        return ("statements need no mark between them" if at_statement else "entries are separated by commas",)
    if character == "/":
        return ("comments start with `#`; paths stand in quotes",)
    return ()


def malformed_number(failure: Failure) -> Diagnostic | None:
    word = failure.word
    if word is None or word.kind != "number" or _NUMBER.fullmatch(word.text):
        return None
    if failure.context == "branches" and _REPLICAS_TURNED.fullmatch(word.text):
        return None
    return failure.fault(
        "MG118",
        f"`{word.text}` is no number",
        label="numbers look like `3`, `-3`, `0.5` or `1e-3`",
        help=_number_help(word.text),
    )


def _number_help(text: str) -> tuple[str, ...]:
    plain = text.lstrip("+").replace("_", "")
    if _NUMBER.fullmatch(plain):
        return (f"write `{plain}`",)
    return ("a name starts with a letter or `_`",) if re.fullmatch(r"[0-9]+[A-Za-z_]\w*", text) else ()


def replica_spelling(failure: Failure) -> Diagnostic | None:
    """`2x`, `x 2`, `*2`, `X2` and `xauto` for `x2` and `x auto`, or `x2` in the wrong place."""
    word, before = failure.word, failure.before
    if failure.context != "branches" or before is None:
        return None
    if word and (turned := _REPLICAS_TURNED.fullmatch(word.text)):
        return _replica_fault(failure, word.text, f"x{turned[1]}", word)
    if word and word.text in ("*", _TIMES) and failure.follower.isdecimal():
        number = failure.words[failure.index + 1]
        return _replica_fault(failure, f"{word.text} {number.text}", f"x{number.text}", word, number)
    if word and word.kind == "number" and word.text.isdecimal():
        if before.text in ("x", "X"):
            return _replica_fault(failure, f"{before.text} {word.text}", f"x{word.text}", before, word)
        if "REPLICAS" in failure.accepts:
            return _replica_fault(failure, word.text, f"x{word.text}", word)
    if word and word.text == "=" and _REPLICAS.fullmatch(before.text):
        return failure.fault("MG111", f"the replica count `{before.text}` takes no value", label="unexpected `=`")
    if failure.accepts == {"EQUAL"}:
        if before.text.lower() == "xauto":
            return _replica_fault(failure, before.text, "x auto", before)
        if count := _REPLICAS.fullmatch(before.text):
            if before.text[0] == "X":
                return _replica_fault(failure, before.text, f"x{count[1]}", before)
            return failure.fault(
                "MG111",
                f"the replica count `{before.text}` stands in the wrong place",
                span=before.span,
                label="expected an option `name=value`",
                help=(_OPTION_WORDS_LATER,),
            )
    return None


def _replica_fault(failure: Failure, written: str, meant: str, first: Word, last: Word | None = None) -> Diagnostic:
    return failure.fault(
        "MG111",
        f"`{written}` is no replica count",
        span=first.span.join((last or first).span),
        label=f"write `{meant}`",
        help=("a replica count stands directly behind the model's name: `wine x2`, or `wine x auto`",),
    )


def keyword_as_name(failure: Failure) -> Diagnostic | None:
    word, before = failure.word, failure.before
    if word is None or before is None:
        return None
    is_option = failure.follower == "=" and not before.is_keyword
    in_place_of_name = "NAME" in failure.accepts and (is_option or _wants_name(before))
    if word.text == "=" and before.text in STATEMENT_WORDS and failure.index > 1:
        word, is_option = before, True
    elif not (word.is_keyword and in_place_of_name):
        return None
    kind = "value" if failure.accepts >= VALUE_START else "option" if is_option else "name"
    return failure.fault(
        "MG114",
        f"`{word.text}` is a keyword and cannot be a name",
        span=word.span,
        label="no option has this name" if is_option else f"expected a {kind}",
        help=("choose another name", KEYWORD_LIST) if kind == "name" else (KEYWORD_LIST,),
    )


def _wants_name(word: Word) -> bool:
    return word.is_keyword or word.text in ("=", ",", ":", "(", "[", "{")


def unknown_statement(failure: Failure) -> Diagnostic | None:
    """A word where a statement begins, or one like a keyword behind a statement that was complete."""
    word, before = failure.word, failure.before
    if failure.index == 0 and word:
        return _unknown_statement(failure, word)
    if failure.context != "statement":
        return None
    if word and failure.accepts >= STATEMENT_START and _is_misspelt(word):
        return _unknown_statement(failure, word)
    if before and failure.index > 3 and failure.accepts == {"EQUAL"} and _is_misspelt(before):
        return _unknown_statement(failure, before)
    return None


def _is_misspelt(word: Word) -> bool:
    return word.kind == "name" and bool(near_names(word.text, STATEMENT_WORDS))


def _unknown_statement(failure: Failure, word: Word) -> Diagnostic:
    starts = "a statement starts with `model`, `data`, `train` or `let`, or is a `parallel(...)`"
    if word.kind != "name":
        return failure.fault(
            "MG104", f"a statement cannot start with `{word.text}`", label="expected a statement", help=(starts,)
        )
    return failure.fault(
        "MG104",
        f"unknown statement `{word.text}`",
        span=word.span,
        label="no statement starts with this word",
        help=did_you_mean(word.text, STATEMENT_WORDS) or (starts,),
    )
