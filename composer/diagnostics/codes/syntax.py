"""MG1xx: syntax, and files that hold no spec."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code("MG101", "unreadable-file", "a spec file cannot be read"),
    Code("MG102", "not-text", "a spec file holds no UTF-8 text"),
    Code("MG103", "empty-spec", "a spec says nothing"),
    Code("MG104", "unknown-statement", "a statement starts with a word that starts none"),
    Code("MG105", "unexpected-word", "something stands where something else was expected"),
    Code("MG106", "unexpected-end", "a statement or the file ends too early"),
    Code("MG107", "unclosed-bracket", "a bracket is never closed"),
    Code("MG108", "stray-bracket", "a closing bracket closes nothing, or the wrong bracket"),
    Code("MG109", "missing-comma", "two entries have no comma between them"),
    Code("MG110", "stray-comma", "a comma separates nothing"),
    Code("MG111", "replica-spelling", "a replica count is misspelt"),
    Code("MG112", "missing-equals", "an option or a statement lacks its `=`"),
    Code("MG113", "option-twice", "an option is given twice"),
    Code("MG114", "keyword-as-name", "a keyword is used as a name"),
    Code("MG115", "unknown-character", "a character belongs to nothing in the language"),
    Code("MG116", "unclosed-string", "a string is never closed"),
    Code("MG117", "unknown-escape", "a backslash in a string starts no known escape"),
    Code("MG118", "malformed-number", "a number is misspelt or too large"),
    Code("MG119", "nested-too-deep", "lists, maps and calls are nested too deep"),
    Code("MG120", "not-in-language-yet", "a construct belongs to a later version of the language"),
)
