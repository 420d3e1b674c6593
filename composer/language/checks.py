"""What the grammar cannot say of a text: long names, options given twice, escapes, numbers, depth, `gpus=` without
`on`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from composer.diagnostics import Diagnostic
from composer.language import nodes
from composer.source import SourceText, Span

MOST_NESTED = 32
LONGEST_NAME = 100
"""Characters. Names become file names, with a few characters around them; file systems take 255."""

_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_KNOWN_ESCAPE = re.compile(r"""\\(?:u(?![dD][89A-Fa-f])[0-9A-Fa-f]{4}|[nrt\\"'])""")


def check_statements(statements: Sequence[nodes.Statement], source: SourceText) -> list[Diagnostic]:
    """All faults of statements that the parser accepted, in the order of the text within a statement."""
    return [fault for statement in statements for fault in _statement_faults(statement, source)]


def _statement_faults(statement: nodes.Statement, source: SourceText) -> Iterator[Diagnostic]:
    if not isinstance(statement, nodes.Parallel) and statement.name is not None:
        yield from _name_faults(statement.name, source)
    if isinstance(statement, nodes.Let):
        yield from _statement_faults(statement.composition, source)
    elif isinstance(statement, nodes.Parallel):
        yield from _composition_faults(statement, source)
    else:
        if not isinstance(statement, nodes.Train):
            yield from _source_faults(statement.source, source)
        if not isinstance(statement, nodes.Model):
            yield from _option_faults(statement.options, source, "option")


def _composition_faults(parallel: nodes.Parallel, source: SourceText) -> Iterator[Diagnostic]:
    for branch in parallel.branches:
        for name in (branch.model, branch.alias):
            if name is not None:
                yield from _name_faults(name, source)
        if branch.replicas and branch.replicas.count == math.inf:
            yield _too_large(branch.replicas.span, source)
        if branch.options:
            yield from _option_faults(branch.options, source, "option")
    if parallel.devices and math.inf in (parallel.devices.count, *(parallel.devices.indices or ())):
        yield _too_large(parallel.devices.span, source)
    for option in parallel.options:
        if option.name.text in ("gpus", "cpus"):
            yield _without_on(option, source)
    yield from _option_faults(parallel.options, source, "option")


def _name_faults(name: nodes.Name, source: SourceText) -> Iterator[Diagnostic]:
    if len(name.text) > LONGEST_NAME:
        yield Diagnostic(
            "MG121",
            f"a name of {len(name.text)} characters is too long: at most {LONGEST_NAME} are taken",
            name.span,
            source,
            "names become file names",
            ("choose a shorter name",),
        )


def _source_faults(value: nodes.Source, source: SourceText) -> Iterator[Diagnostic]:
    if isinstance(value, nodes.PathSource):
        yield from _escape_faults(value.span, source)
    else:
        yield from _option_faults(value.arguments, source, "argument")


def _option_faults(options: Sequence[nodes.Option], source: SourceText, kind: str) -> Iterator[Diagnostic]:
    if len(options) > 1:
        yield from _repeated(options, source, kind)
    for option in options:
        yield from _value_faults(option.value, source)


def _repeated(options: Sequence[nodes.Option], source: SourceText, kind: str) -> Iterator[Diagnostic]:
    first: dict[str, nodes.Option] = {}
    for option in options:
        earlier = first.setdefault(option.name.text, option)
        if earlier is option:
            continue
        line, column = source.position(earlier.span.start)
        yield Diagnostic(
            "MG113",
            f"{kind} `{option.name.text}` is given twice",
            option.name.span,
            source,
            "given again here",
            ("keep one of the two",),
            (f"it was first given at line {line}, column {column}",),
        )


def _value_faults(value: nodes.Value, source: SourceText) -> Iterator[Diagnostic]:
    """The faults inside a value, found without recursion: a hostile text may nest as deep as it is long."""
    stack: list[tuple[nodes.Value, int]] = [(value, 0)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, nodes.Identifier):
            continue
        if isinstance(value, nodes.Literal):
            yield from _literal_faults(value, source)
            continue
        if isinstance(value, nodes.DeviceName):
            if value.index == math.inf:
                yield _too_large(value.span, source)
            continue
        if depth == MOST_NESTED:
            yield _too_deep(value.span, source)
            return
        if isinstance(value, nodes.Call) and len(value.arguments) > 1:
            yield from _repeated(value.arguments, source, "argument")
        stack.extend((inner, depth + 1) for inner in reversed(_inner_values(value)))


def _inner_values(value: nodes.ListValue | nodes.MapValue | nodes.Call) -> tuple[nodes.Value, ...]:
    if isinstance(value, nodes.ListValue):
        return value.items
    if isinstance(value, nodes.MapValue):
        return tuple(part for entry in value.items for part in entry)
    return tuple(argument.value for argument in value.arguments)


def _literal_faults(literal: nodes.Literal, source: SourceText) -> Iterator[Diagnostic]:
    if isinstance(literal.value, str):
        yield from _escape_faults(literal.span, source)
    elif isinstance(literal.value, float) and math.isinf(literal.value):
        yield _too_large(literal.span, source)


def _escape_faults(span: Span, source: SourceText) -> Iterator[Diagnostic]:
    """The first unknown escape of a string: a path with backslashes is one slip, not many."""
    text = source.text[span.start : span.end]
    if "\\" not in text:
        return
    for match in _ESCAPE.finditer(text):
        if _KNOWN_ESCAPE.fullmatch(match[0]):
            continue
        place = span.start + match.start()
        yield Diagnostic(
            "MG117",
            f"unknown escape `{match[0]}` in a string",
            Span(place, place + len(match[0])),
            source,
            "a backslash starts an escape",
            ("write `\\\\` for a backslash; in a path, `/` works everywhere",),
            ("the escapes are `\\\\`, `\\\"`, `\\'`, `\\n`, `\\r`, `\\t` and `\\u` with four hexadecimal digits",),
        )
        return


def _too_large(span: Span, source: SourceText) -> Diagnostic:
    return Diagnostic("MG118", "a number is too large", span, source, "beyond what a number can hold")


def _too_deep(span: Span, source: SourceText) -> Diagnostic:
    return Diagnostic(
        "MG119",
        f"a value is nested more than {MOST_NESTED} levels deep",
        Span(span.start, span.start + 1),
        source,
        f"level {MOST_NESTED + 1} begins here",
        ("flatten the lists, maps and calls around it",),
    )


def _without_on(option: nodes.Option, source: SourceText) -> Diagnostic:
    return Diagnostic(
        "MG105",
        f"unexpected `{option.name.text}`",
        option.name.span,
        source,
        "devices are given behind `on`",
        (f"write `on {source.text[option.span.start : option.span.end]}` directly behind the closing parenthesis",),
    )
