"""Printing: the inverse of parsing, stable, and careful with comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import composer
from composer.errors import SpecError
from composer.language import nodes
from composer.language.parser import parse
from composer.language.printer import WIDTH, print_spec
from composer.language.values import print_float, print_value
from composer.source import SourceText
from tests.language.strategies import specs, word_soup

IDENTITY = Path(__file__).parents[1] / "specs" / "identity.mgpu"
CANONICAL = [line for line in IDENTITY.read_text(encoding="utf-8").splitlines() if line and not line.startswith("##")]


def reprint(text: str) -> str:
    return print_spec(parse(SourceText(text)))


def test_identity_file_has_specs() -> None:
    assert len(CANONICAL) >= 60


@pytest.mark.parametrize("line", CANONICAL)
def test_canonical_line_is_printed_as_it_is(line: str) -> None:
    assert reprint(line) == line + "\n"


@settings(max_examples=60, deadline=None)
@given(specs)
def test_parse_reads_back_what_was_printed(spec: nodes.Spec) -> None:
    text = print_spec(spec)
    again = parse(SourceText(text))
    assert again == spec
    assert print_spec(again) == text


@settings(max_examples=40, deadline=None)
@given(specs, st.data())
def test_comments_survive_anywhere_and_printing_twice_changes_nothing(spec: nodes.Spec, data: st.DataObject) -> None:
    """Comments, blank lines and line ends are strewn over a printed spec wherever a space or a line end is."""
    text = print_spec(spec)
    tokens = _separable(text)
    number = 0
    strewn: list[str] = []
    for token in tokens:
        strewn.append(token)
        match data.draw(st.integers(0, 6)):
            case 0:
                strewn.append(f" # c{number}\n")
                number += 1
            case 1:
                strewn.append(f"\n\n  # c{number}\n")
                number += 1
            case 2:
                strewn.append("\n\n")
            case _:
                strewn.append(" ")
    first = parse(SourceText("".join(strewn)))
    assert first == spec
    assert [comment.text for comment in first.comments] == [f"# c{index}" for index in range(number)]
    printed = print_spec(first)
    second = parse(SourceText(printed))
    assert second == spec
    assert [comment.text for comment in second.comments] == [comment.text for comment in first.comments]
    assert print_spec(second) == printed


def _separable(text: str) -> list[str]:
    """A printed spec cut where white space may stand: `x auto` stays whole, and so do strings."""
    from composer.language.scanner import scan

    words = scan(SourceText(text))
    cuts = [word.span.start for word in words]
    pieces = [text[start:end].rstrip("\n") for start, end in zip([0, *cuts[1:]], [*cuts[1:], len(text)], strict=True)]
    merged: list[str] = []
    for piece in pieces:
        before = merged[-1].rstrip() if merged else ""
        glued = before == "x" and piece.strip() == "auto"
        device = piece.strip().isdecimal() and before.endswith((":",)) and not merged[-1].endswith(" ")
        colon = piece.strip() == ":" and not merged[-1].endswith(" ")
        if glued or device or colon:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


@settings(max_examples=200, deadline=None)
@given(word_soup)
def test_any_text_that_parses_prints_and_parses_again(text: str) -> None:
    try:
        spec = parse(SourceText(text))
    except SpecError:
        return
    printed = print_spec(spec)
    again = parse(SourceText(printed))
    assert again == spec
    assert print_spec(again) == printed


def test_long_composition_takes_a_line_a_branch() -> None:
    branches = ", ".join(f"model_number_{index} x2 as member_{index}" for index in range(4))
    assert reprint(f"let fleet = parallel({branches}) on gpus=4 merge=gpu") == (
        "let fleet = parallel(\n"
        "    model_number_0 x2 as member_0,\n"
        "    model_number_1 x2 as member_1,\n"
        "    model_number_2 x2 as member_2,\n"
        "    model_number_3 x2 as member_3\n"
        ") on gpus=4 merge=gpu\n"
    )


def test_long_train_takes_a_line_an_option() -> None:
    options = "optimizer=adam(learning_rate=0.001) loss=sparse_categorical_crossentropy metrics=[accuracy] batch=32"
    assert reprint(f"train digits {options}") == (
        "train digits\n"
        "    optimizer=adam(learning_rate=0.001)\n"
        "    loss=sparse_categorical_crossentropy\n"
        "    metrics=[accuracy]\n"
        "    batch=32\n"
    )


def test_statement_of_just_the_width_stays_on_one_line() -> None:
    fits = "train " + "a" * (WIDTH - len("train  batch=32")) + " batch=32"
    assert reprint(fits) == fits + "\n"
    assert reprint(fits.replace("train a", "train aa")).count("\n") == 2


def test_comments_stay_at_what_they_explain() -> None:
    text = (
        "# head\n\n# about a\n"
        "model a = 'a.keras'   # the first\n\n\n"
        "parallel( # all\n  a x2, # two\n  # before b\n  b # last\n  # end\n) on gpus=2 # done\n# tail\n"
    )
    assert reprint(text) == (
        "# head\n\n# about a\n"
        'model a = "a.keras"  # the first\n\n'
        "parallel(  # all\n    a x2,  # two\n    # before b\n    b  # last\n    # end\n) on gpus=2  # done\n# tail\n"
    )


def test_hash_in_a_string_is_no_comment() -> None:
    assert reprint("model a = 'a#1.keras' # real") == 'model a = "a#1.keras"  # real\n'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "1e-3"), (0.01, "0.01"), (0.5, "0.5"), (1.0, "1.0"), (100.0, "100.0"), (1e6, "1e6"), (2.5e-5, "2.5e-5"),
        (-0.00025, "-2.5e-4"), (0.00123456789, "0.00123456789"), (1e16, "1e16"), (5e-324, "5e-324"), (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ],
)  # fmt: skip
def test_float_is_short_and_exact(value: float, text: str) -> None:
    assert print_float(value) == text
    assert float(text) == value


@pytest.mark.parametrize("number", ["0.003", "3e-3", "1e3", "1000.0", "0.10", "007", "-.5", "1E-4", "100000000"])
def test_numbers_stay_as_they_are_written(number: str) -> None:
    text = f"train a optimizer=adam(learning_rate={number})\n"
    assert reprint(text) == text


def test_number_without_spelling_is_refused() -> None:
    with pytest.raises(ValueError, match="a spec cannot write the number inf"):
        print_value(nodes.Literal(float("inf")))


def test_public_format_is_the_printer() -> None:
    assert composer.format("parallel( a,b   x2 )") == "parallel(a, b x2)\n"
