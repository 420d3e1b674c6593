"""What the parser expected, in words for people: the one table from the grammar's terminals to the language's words."""

from __future__ import annotations

from composer.diagnostics.near import join_words
from composer.language.failure import Failure

STATEMENT_START = frozenset({"MODEL", "DATA", "TRAIN", "LET", "PARALLEL"})
_SCALARS = frozenset({"INT", "FLOAT", "STRING", "TRUE", "FALSE", "NONE", "NAME"})
VALUE_START = _SCALARS | {"ON", "DEVICE", "LSQB", "LBRACE"}

_GROUPS: tuple[tuple[frozenset[str], str], ...] = (  # looked for in this order; each takes its terminals away
    (VALUE_START, "a value"),
    (_SCALARS, "a key (a number, a text in quotes or a name)"),
    (frozenset({"STRING", "FACTORY"}), "a path in quotes or a factory `package.module:function(...)`"),
    (frozenset({"REPLICAS", "REPLICAS_AUTO"}), "a replica count such as `x2`"),
    (STATEMENT_START | {"$END"}, "the next statement"),
    (STATEMENT_START, "the next statement"),
)

WORDS: dict[str, str] = {
    "NAME": "a name",
    "REPLICAS": "a replica count such as `x2`",
    "REPLICAS_AUTO": "`x auto`",
    "DEVICE": "a device such as `gpu:1`",
    "FACTORY": "a factory `package.module:function(...)`",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a text in quotes",
    "TRUE": "`true`",
    "FALSE": "`false`",
    "NONE": "`none`",
    "MODEL": "`model`",
    "DATA": "`data`",
    "TRAIN": "`train`",
    "LET": "`let`",
    "PARALLEL": "`parallel(...)`",
    "ON": "`on`",
    "AS": "`as`",
    "GPUS": "`gpus`",
    "CPUS": "`cpus`",
    "AUTO": "`auto`",
    "EQUAL": "`=`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "STAR": "`*`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "$END": "the end of the file",
}


def expected_words(failure: Failure) -> str:
    """What would have fitted, as a sentence lists it: "expected `,`, `)` or an option `name=value`"."""
    left = set(failure.accepts)
    if len(left) > 1:
        left.discard("LPAR")  # any name may go on as a call, which is hardly what is missing
    if failure.index == 0:
        return "expected a statement"
    words: list[str] = []
    for group, phrase in _GROUPS:
        if group <= left:
            left -= group
            words.append(phrase)
    if "NAME" in left:
        left.discard("NAME")
        words.append(_name_words(failure))
    words = [WORDS[terminal] for terminal in WORDS if terminal in left] + words
    return f"expected {join_words(words)}"


def _name_words(failure: Failure) -> str:
    before = failure.before.text if failure.before else ""
    if failure.context == "arguments":
        return "an argument `name=value`"
    if failure.context == "branches" and before in ("(", ","):
        return "a model's name"
    if before in ("model", "data", "train", "let", "as"):
        return "a name"
    return "an option `name=value`"


def accepted_words(failure: Failure) -> tuple[str, ...]:
    """The words of the language, spelled as they are written, that would have fitted."""
    return tuple(terminal.lower() for terminal in WORDS if terminal in failure.accepts and terminal in _SPELLED)


_SPELLED = STATEMENT_START | {"ON", "AS", "GPUS", "CPUS", "AUTO", "TRUE", "FALSE", "NONE"}
