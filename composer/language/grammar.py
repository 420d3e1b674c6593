"""The grammar: where it lies, and the one parser that is made from it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from lark import Lark

from composer.errors import InternalError
from composer.language.builder import NodeBuilder
from composer.language.grammar_table import load_parser

_FILE = "mgpu.lark"


def read_grammar() -> str:
    """The text of the grammar: packaged inside `composer` where it is installed, in `grammar/` beside it in a checkout.

    Raises:
        InternalError: it is in neither place; the installation is broken.
    """
    package = resources.files("composer")
    packaged = package / "_grammar" / _FILE
    checkout = Path(str(package)).parent / "grammar" / _FILE
    for place in (packaged, checkout):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise InternalError(
        f"the grammar of the language is missing: expected `{packaged}` (installed) or `{checkout}` (checkout). "
        "Install composer again."
    )


@cache
def lark_parser() -> Lark:
    """The parser of the language, made once a process. It holds no state between two texts."""
    grammar = read_grammar()
    return load_parser(grammar, NodeBuilder()) or make_parser(grammar)


def make_parser(grammar: str) -> Lark:
    """The parser of a grammar.

    Nodes are built while the text is parsed, without a tree in between, which takes half the time. Every token is kept
    for that, so that a node's span runs from its first token to its last; Lark's own positions are for trees only.
    """
    return Lark(
        grammar,
        start="spec",
        parser="lalr",
        lexer="contextual",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=NodeBuilder(),
    )
