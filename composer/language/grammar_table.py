"""The parser's tables, made ahead: making them anew takes a fifth of the time of `composer check`.

`grammar_table.json` is written by `python -m tests.make_grammar_table`. It counts for the grammar and the Lark it was
made from alone; where either is another, the parser is made from the grammar.
"""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

_FILE = "grammar_table.json"


def dump_parser(parser: Lark, grammar: str) -> str:
    """The tables of a parser as JSON, with what they were made from."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    options = {name: value for name, value in data["options"].items() if name != "transformer"}
    table = {"lark": lark.__version__, "grammar": _digest(grammar), "memo": memo, "data": {**data, "options": options}}
    return json.dumps(table, separators=(",", ":")) + "\n"


def load_parser(grammar: str, transformer: object) -> Lark | None:
    """The parser of the grammar from its tables; None where they were made from another grammar or by another Lark."""
    try:
        table = json.loads(_read_table())
    except FileNotFoundError:
        return None
    if table["lark"] != lark.__version__ or table["grammar"] != _digest(grammar):
        return None
    data, states = table["data"], table["data"]["parser"]["parser"]
    data["options"]["transformer"] = transformer
    states["tokens"] = _by_number(states["tokens"])
    states["states"] = {int(state): _by_number(actions) for state, actions in states["states"].items()}
    return Lark.load({"data": data, "memo": _by_number(table["memo"])})


def _read_table() -> str:
    return (resources.files("composer") / "language" / _FILE).read_text(encoding="utf-8")


def _by_number(items: dict[str, Any]) -> dict[int, Any]:
    """JSON holds no numbers as keys."""
    return {int(key): value for key, value in items.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
