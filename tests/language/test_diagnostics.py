"""Diagnostics: the registry, near names, and both renderers."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.diagnostics import (
    CODES,
    FAMILIES,
    Code,
    Diagnostic,
    did_you_mean,
    near_names,
    quoted_list,
    render_json,
    render_text,
)
from composer.diagnostics.near import edit_distance
from composer.errors import SpecError
from composer.language.parser import parse
from composer.source import SourceText, Span

CELLAR = SourceText(
    "# head\n" * 8 + "parallel(digits, wine_b x2) on gpus=4 merge=gpu\n",
    "cellar.mgpu",
)


def at(text: str, word: str, **fields: object) -> Diagnostic:
    start = text.index(word)
    return Diagnostic("MG105", "wrong", Span(start, start + len(word)), SourceText(text, "s"), **fields)  # type: ignore[arg-type]


def excerpt(diagnostic: Diagnostic) -> list[str]:
    return render_text([diagnostic]).split("\n")[2:]


# The registry


def test_every_code_says_what_why_how_to_trigger_and_to_mend() -> None:
    for code in CODES.values():
        assert code.code[:3] in FAMILIES
        for text in (code.summary, code.why, code.example, code.mend):
            assert text, code.code
        assert code.explain.startswith(f"{code.code} ({code.slug}): {code.summary}")
        assert f"Mend: {code.mend}" in code.explain
    assert len({code.slug for code in CODES.values()}) == len(CODES)
    assert list(CODES) == sorted(CODES)


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("MG1") and code not in ("MG101", "MG102")])
def test_example_of_a_syntax_code_triggers_it(code: str) -> None:
    with pytest.raises(SpecError, match=code) as caught:
        parse(SourceText(CODES[code].example))
    assert [fault.code for fault in caught.value.diagnostics] == [code]


def test_unregistered_code_is_refused() -> None:
    with pytest.raises(ValueError, match="`MG199` is not a registered code"):
        Diagnostic("MG199", "x")


@pytest.mark.parametrize(("code", "slug"), [("MG1", "a"), ("MG701", "a"), ("XX101", "a"), ("MG101", "A b")])
def test_malformed_code_is_refused(code: str, slug: str) -> None:
    with pytest.raises(ValueError, match="Received"):
        Code(code, slug, "x")


# Near names


@pytest.mark.parametrize(
    ("name", "candidates", "near"),
    [
        ("wine_b", ["digits", "wine"], ("wine",)),
        ("Adam", ["adam", "adamw", "sgd"], ("adam", "adamw")),
        ("reul", ["relu", "elu", "real"], ("real", "relu", "elu")),
        ("model_c", ["model_d", "model_b", "model_a", "model_e"], ("model_a", "model_b", "model_d")),
        ("a", ["b", "c"], ()),
        ("ab", ["cd"], ()),
        ("digits", ["wine"], ()),
        ("gpu", ["gpus", "cpus", "auto"], ("gpus", "cpus")),
    ],
)
def test_near_names(name: str, candidates: list[str], near: tuple[str, ...]) -> None:
    assert near_names(name, candidates) == near


def test_offer_of_near_names() -> None:
    assert did_you_mean("model_c", ["model_a", "model_b"]) == ("did you mean `model_a` or `model_b`?",)
    assert did_you_mean("zzz", ["model_a"]) == ()
    assert quoted_list(["a", "b", "c"], "and") == "`a`, `b` and `c`"


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_edit_distance_is_a_distance(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


@pytest.mark.parametrize(("a", "b", "edits"), [("kitten", "sitting", 3), ("abcd", "abdc", 1), ("", "abc", 3)])
def test_edit_distance_counts(a: str, b: str, edits: int) -> None:
    assert edit_distance(a, b) == edits


# Text


def test_text_has_the_shape_of_the_language_page() -> None:
    start = CELLAR.text.index("wine_b")
    unknown = Diagnostic(
        "MG203",
        "unknown model `wine_b`",
        Span(start, start + 6),
        CELLAR,
        "no `model` statement has this name",
        ("did you mean `wine`?",),
    )
    assert render_text([unknown]) == (
        "error[MG203]: unknown model `wine_b`\n"
        " --> cellar.mgpu:9:18\n"
        "  |\n"
        "9 | parallel(digits, wine_b x2) on gpus=4 merge=gpu\n"
        "  |                  ^^^^^^ no `model` statement has this name\n"
        "  = help: did you mean `wine`?"
    )


def test_gutter_is_as_wide_as_the_line_number() -> None:
    text = "\n" * 99 + "bad"
    assert render_text([at(text, "bad", help=("a\nb",), notes=("n",))]) == (
        "error[MG105]: wrong\n   --> s:100:1\n    |\n100 | bad\n    | ^^^\n    = help: a\n            b\n    = note: n"
    )


def test_tab_and_wide_characters_keep_the_carets_in_place() -> None:
    assert excerpt(at("\ta\tbad", "bad")) == ["  |", "1 |     a   bad", "  |         ^^^"]
    assert excerpt(at("日本 bad", "bad")) == ["  |", "1 | 日本 bad", "  |      ^^^"]
    assert excerpt(at("x 日本 y", "日本")) == ["  |", "1 | x 日本 y", "  |   ^^^^"]
    assert excerpt(at("e\u0301 bad", "bad")) == ["  |", "1 | e\u0301 bad", "  |   ^^^"]


def test_tab_inside_the_span_is_underlined_whole() -> None:
    assert excerpt(at("a\tb", "a\tb")) == ["  |", "1 | a   b", "  | ^^^^^"]


def test_nothing_in_a_text_steers_the_terminal() -> None:
    shown = render_text([at("a \x1b[31m\u202ebad", "bad", label="\x1b[0m\x07")])
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\x07" not in shown
    assert shown.split("\n")[3:5] == ["1 | a \ufffd[31m\ufffdbad", "  |         ^^^ \ufffd[0m\ufffd"]


def test_end_of_the_file_is_pointed_at_behind_the_last_character() -> None:
    text = "train a batch="
    end = Diagnostic("MG106", "early", Span(len(text), len(text)), SourceText(text), "expected a value")
    assert excerpt(end) == ["  |", "1 | train a batch=", "  |               ^ expected a value"]
    behind_line_end = Diagnostic("MG106", "early", Span(4, 4), SourceText("abc\n"))
    assert render_text([behind_line_end]).split("\n")[1:] == [" --> <spec>:2:1", "  |", "2 |", "  | ^"]


def test_span_over_two_lines_shows_both() -> None:
    assert excerpt(at("x {a:\r\n   b}\ny", "{a:\r\n   b}", label="here")) == [
        "  |", "1 | x {a:", "  |   ^^^", "2 |    b}", "  |    ^^ here",
    ]  # fmt: skip


def test_span_over_many_lines_shows_its_ends() -> None:
    text = "f(\n 1,\n 2,\n 3)"
    assert excerpt(at(text, text, label="here")) == ["  |", "1 | f(", "  | ^^", "...", "4 |  3)", "  |  ^^ here"]


def test_long_line_is_shown_around_the_fault() -> None:
    text = "parallel(" + ", ".join(f"m{index}" for index in range(10_000)) + ")"
    shown = excerpt(at(text, "m7000", label="here"))
    assert max(map(len, shown)) < 200
    assert shown[1][shown[2].index("^") :].startswith("m7000")
    assert shown[2].endswith("^^^^^ here")
    assert shown[1].startswith("1 | ...")
    assert shown[1].endswith("...")


def test_list_is_capped() -> None:
    faults = [Diagnostic("MG105", f"fault {index}") for index in range(25)]
    shown = render_text(faults)
    assert shown.count("error[") == 20
    assert shown.endswith("error[MG105]: fault 19\n\n... and 5 more")
    assert render_text(faults, limit=25).count("error[") == 25
    assert "more" not in render_text(faults, limit=25)


def test_fault_without_a_place() -> None:
    assert render_text([Diagnostic("MG103", "m", None, SourceText("", "a.mgpu"), help=("h",))]) == (
        "error[MG103]: m\n --> a.mgpu\n  = help: h"
    )
    assert render_text([Diagnostic("MG103", "m", severity="warning")]) == "warning[MG103]: m"
    assert render_text([]) == ""


def test_color_adds_nothing_but_color() -> None:
    faults = [at("a bad", "bad", label="l", help=("h",)), Diagnostic("MG103", "m", severity="warning")]
    colored = render_text(faults, color=True)
    assert "\x1b[1;31m" in colored
    assert "\x1b[1;33m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_text(faults)


# JSON


def test_json_has_every_field() -> None:
    fault = at("a\n bad", "bad", label="l", help=("h1", "h2"), notes=("n",))
    warning = Diagnostic("MG103", "größe", severity="warning")
    assert json.loads(render_json([fault, warning])) == {
        "format_version": 1,
        "valid": False,
        "error_count": 1,
        "warning_count": 1,
        "diagnostics": [
            {
                "code": "MG105",
                "severity": "error",
                "message": "wrong",
                "file": "s",
                "range": {"start": {"line": 2, "column": 2}, "end": {"line": 2, "column": 5}},
                "label": "l",
                "help": ["h1", "h2"],
                "notes": ["n"],
            },
            {
                "code": "MG103",
                "severity": "warning",
                "message": "größe",
                "file": None,
                "range": None,
                "label": "",
                "help": [],
                "notes": [],
            },
        ],
    }
    assert json.loads(render_json([warning]))["valid"] is True


# Places


@given(st.text("a\n\r\t日", max_size=20), st.data())
def test_position_and_line_agree_with_the_text(text: str, data: st.DataObject) -> None:
    source = SourceText(text)
    offset = data.draw(st.integers(0, len(text)))
    line, column = source.position(offset)
    before = re.split(r"\r\n|\n|\r", text[:offset])
    split_pair = text[offset - 1 : offset + 1] == "\r\n"
    if not split_pair:
        assert (line, column) == (len(before), len(before[-1]) + 1)
    assert source.line_start(line) + column - 1 == offset
    assert source.line(line) == re.split(r"\r\n|\n|\r", text)[line - 1]


def test_span_refuses_what_is_no_stretch() -> None:
    with pytest.raises(ValueError, match="start=2, end=1"):
        Span(2, 1)
    assert Span(3, 4).join(Span(1, 2)) == Span(1, 4)
