"""The parser that is read from its tables is the one that the grammar makes."""

from __future__ import annotations

import json
from pathlib import Path

import lark
import pytest

from composer.errors import SpecError
from composer.language import grammar, grammar_table, parser
from composer.language.builder import NodeBuilder
from composer.language.reader import read_spec
from composer.source import SourceText
from tests.make_grammar_table import TABLE

SPECS = Path(__file__).parents[1] / "specs"
FILES = [*(SPECS / "valid").glob("*.mgpu"), *(SPECS / "invalid").glob("MG10[3-9]*.mgpu"), SPECS / "identity.mgpu"]
TEXTS = [read_spec(path) for path in sorted(FILES)]

needs_its_lark = pytest.mark.skipif(
    json.loads(TABLE.read_text(encoding="utf-8"))["lark"] != lark.__version__,
    reason="the tables are of another Lark: run `python -m tests.make_grammar_table`",
)


def judged(source: SourceText) -> object:
    try:
        return parser.parse(source)
    except SpecError as error:
        return error.diagnostics


@needs_its_lark
def test_the_tables_are_of_this_grammar() -> None:
    """Fails when the grammar was changed: run `python -m tests.make_grammar_table`."""
    assert grammar_table.load_parser(grammar.read_grammar(), NodeBuilder()) is not None


@needs_its_lark
def test_both_parsers_give_the_same_trees_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [judged(source) for source in TEXTS]
    made = grammar.make_parser(grammar.read_grammar())
    monkeypatch.setattr(parser, "lark_parser", lambda: made)
    assert len(TEXTS) > 30
    assert loaded == [judged(source) for source in TEXTS]


@pytest.mark.parametrize("change", ["lark", "grammar", None])
def test_tables_of_another_grammar_or_lark_do_not_count(change: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {**json.loads(TABLE.read_text(encoding="utf-8")), "lark": lark.__version__}

    def read_table() -> str:
        if change is None:
            raise FileNotFoundError
        return json.dumps({**table, change: "another"})

    monkeypatch.setattr(grammar_table, "_read_table", read_table)
    assert grammar_table.load_parser(grammar.read_grammar(), NodeBuilder()) is None
