"""From text to syntax tree: `parse`. All faults of the text are reported together.

What explains faults is imported where there is one: most texts have none, and `composer check` is to be quick.
"""

from __future__ import annotations

import re
from typing import cast

from lark import TextSlice, UnexpectedInput

from composer.diagnostics import Diagnostic, render_text
from composer.errors import SpecError
from composer.language import nodes
from composer.language.checks import check_statements
from composer.language.grammar import lark_parser
from composer.language.scanner import Piece, comment_spans, pieces, scan
from composer.source import SourceText, Span

_BLANK_LINE = re.compile(r"(?:\r\n|\n|\r)[ \t\f]*(?=\r\n|\n|\r)")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(source: SourceText) -> nodes.Spec:
    """The syntax tree of a spec.

    A text without faults is parsed once. Otherwise it is cut where statements begin and each piece is parsed by itself,
    so that every faulty statement gives one diagnostic of its own.

    Args:
        source: the text, with the name it is shown under.

    Returns:
        The tree, with every comment.

    Raises:
        SpecError: the text has faults; `diagnostics` holds all of them in the order of the text, all of family MG1.

    Example:
        >>> from composer.source import SourceText
        >>> spec = parse(SourceText("parallel(a, b x2) on gpus=2"))
        >>> spec.statements[0].branches[1].replicas.count
        2
    """
    faults = _encoding_faults(source)
    if not faults:
        try:
            spec = _parse(source.text)
        except UnexpectedInput as error:
            faults = _faults_by_statement(source) or [_unsplit_fault(source, error)]
        else:
            faults = check_statements(spec.statements, source) if spec.statements else [_empty(source)]
    if faults:
        faults.sort(key=lambda fault: fault.span or Span(0, 0))
        raise SpecError(render_text(faults), tuple(faults))
    return _with_layout(spec, source.text)


def _parse(text: str | TextSlice[str]) -> nodes.Spec:
    return cast("nodes.Spec", lark_parser().parse(text))


def _faults_by_statement(source: SourceText) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for piece in pieces(scan(source)):
        try:
            spec = _parse(TextSlice(source.text, piece.span.start, piece.span.end))
        except UnexpectedInput as error:
            faults.append(_explained(error, source, piece))
        else:
            faults += check_statements(spec.statements, source)
    return faults


def _unsplit_fault(source: SourceText, error: UnexpectedInput) -> Diagnostic:
    """The first fault, where each piece is well formed and only the whole is not."""
    return _explained(error, source, Piece(scan(source), is_last=True))


def _explained(error: UnexpectedInput, source: SourceText, piece: Piece) -> Diagnostic:
    from composer.language.failure import failure_of
    from composer.language.slips import explain

    return explain(failure_of(error, source, piece))


def _encoding_faults(source: SourceText) -> list[Diagnostic]:
    if source.text.isascii():
        return []
    return [
        Diagnostic(
            "MG115",
            f"the character U+{ord(match[0]):04X} is half a character and belongs to nothing",
            Span(match.start(), match.end()),
            source,
            "no text in any encoding has this",
        )
        for match in _SURROGATE.finditer(source.text)
    ]


def _empty(source: SourceText) -> Diagnostic:
    return Diagnostic(
        "MG103",
        "the spec says nothing",
        None,
        source,
        help=("write a composition of models, such as `parallel(a, b)`",),
        notes=("there are only comments in it",) if "#" in source.text else (),
    )


def _with_layout(spec: nodes.Spec, text: str) -> nodes.Spec:
    """The tree with what printing needs beside it: comments and blank lines."""
    comments = tuple(
        nodes.Comment(text[span.start : span.end].rstrip(), _on_own_line(text, span.start), span)
        for span in comment_spans(text)
    )
    blank_lines = tuple(match.start() for match in _BLANK_LINE.finditer(text))
    return nodes.Spec(spec.statements, comments, Span(0, len(text)), blank_lines)


def _on_own_line(text: str, offset: int) -> bool:
    before = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    return not text[before + 1 : offset].strip()
