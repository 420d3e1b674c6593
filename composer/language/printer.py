"""From syntax tree to canonical text: `print_spec`.

One statement a line. What does not fit, or has comments inside, takes a line an entry. Comments stay with what they
stand at, and groups of statements that blank lines kept apart stay apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from composer.language import nodes
from composer.language.values import print_branch, print_devices, print_option, print_source
from composer.source import Span

WIDTH = 100
_INDENT = "    "


def print_spec(spec: nodes.Spec) -> str:
    """The canonical text of a spec, with a line end behind each line.

    `parse` reads it back as an equal tree, and printing that tree gives the same text.

    Example:
        >>> from composer.language.parser import parse
        >>> from composer.source import SourceText
        >>> print_spec(parse(SourceText("parallel( a,b  x2 )on gpus = 2 # both")))
        'parallel(a, b x2) on gpus=2  # both\\n'
    """
    blocks = list(_blocks(spec))
    lines: list[str] = []
    end_before = 0
    for block in blocks:
        blank = bisect_left(spec.blank_lines, end_before)
        if lines and blank < len(spec.blank_lines) and spec.blank_lines[blank] < block.span.start:
            lines.append("")
        lines += block.lines
        end_before = block.span.end
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together: a statement, or a comment on a line of its own."""

    lines: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Part:
    """What takes one line where a statement is broken: `text` there, `joint` between it and the next on one line."""

    text: str
    span: Span
    joint: str = " "
    indented: bool = True
    comma: str = ""


def _blocks(spec: nodes.Spec) -> Iterator[_Block]:
    comments = list(spec.comments)
    for index, statement in enumerate(spec.statements):
        while comments and comments[0].span.end <= statement.span.start:
            yield _comment_block(comments.pop(0))
        following = spec.statements[index + 1].span.start if index + 1 < len(spec.statements) else None
        mine = [comment for comment in comments if following is None or comment.span.start < following]
        before, lines, left = _statement_lines(_parts(statement), mine)
        del comments[: len(mine) - len(left)]
        yield from map(_comment_block, before)
        yield _Block(lines, statement.span)
    yield from map(_comment_block, comments)


def _comment_block(comment: nodes.Comment) -> _Block:
    return _Block((comment.text,), comment.span)


def _statement_lines(
    parts: Sequence[_Part], comments: Sequence[nodes.Comment]
) -> tuple[list[nodes.Comment], tuple[str, ...], list[nodes.Comment]]:
    """The comments to print before a statement, its lines, and the comments to leave for what follows it.

    `comments` are those from its first character to the next statement.
    """
    before, trailing, left = _shared_out(parts, comments)
    flat = "".join(part.text + part.joint for part in parts[:-1]) + parts[-1].text
    inside = any(before[1:]) or any(trailing[:-1])
    if len(parts) == 1 or (len(flat) <= WIDTH and not inside):
        return before[0], (_with_trailing(flat, trailing[-1]),), left
    lines: list[str] = []
    for part, above, behind in zip(parts, before, trailing, strict=True):
        if part is not parts[0]:
            lines += [_INDENT + comment.text for comment in above]
        indent = _INDENT if part.indented else ""
        lines.append(_with_trailing(indent + part.text + part.comma, behind))
    return before[0], tuple(lines), left


def _shared_out(
    parts: Sequence[_Part], comments: Sequence[nodes.Comment]
) -> tuple[list[list[nodes.Comment]], list[nodes.Comment | None], list[nodes.Comment]]:
    """For each part the comments on lines above it and the one behind it, in the order of the text; then the rest."""
    before: list[list[nodes.Comment]] = [[]]
    trailing: list[nodes.Comment | None] = []
    queue = list(comments)
    for index, part in enumerate(parts):
        following = parts[index + 1].span.start if index + 1 < len(parts) else None
        mine = [comment for comment in queue if following is None or comment.span.start < following]
        del queue[: len(mine)]
        below = next((at for at, c in enumerate(mine) if c.own_line and c.span.start >= part.span.end), len(mine))
        at_part, below_part = mine[:below], mine[below:]
        trailing.append(at_part.pop() if at_part and not at_part[-1].own_line else None)
        before[-1] += at_part
        before.append(below_part)
    return before[:-1], trailing, before[-1]


def _with_trailing(line: str, comment: nodes.Comment | None) -> str:
    return f"{line}  {comment.text}" if comment else line


def _parts(statement: nodes.Statement) -> list[_Part]:
    if isinstance(statement, nodes.Parallel):
        return _composition_parts("", statement, statement.span.start)
    if isinstance(statement, nodes.Let):
        return _composition_parts(f"let {statement.name.text} = ", statement.composition, statement.span.start)
    if isinstance(statement, nodes.Train):
        head = f"train {statement.name.text if statement.name else '*'}"
        end = statement.name.span.end if statement.name else statement.span.start + 1
        options = statement.options
    else:
        keyword = "model" if isinstance(statement, nodes.Model) else "data"
        head = f"{keyword} {statement.name.text} = {print_source(statement.source)}"
        end = statement.source.span.end
        options = statement.options if isinstance(statement, nodes.Data) else ()
    first = _Part(head, Span(statement.span.start, max(end, statement.span.start)), indented=False)
    return [first, *(_Part(print_option(option), option.span) for option in options)]


def _composition_parts(prefix: str, parallel: nodes.Parallel, start: int) -> list[_Part]:
    head = _Part(f"{prefix}parallel(", Span(start, start + 1), joint="", indented=False)
    *others, last = parallel.branches
    branches = [_Part(print_branch(branch), branch.span, joint=", ", comma=",") for branch in others]
    branches.append(_Part(print_branch(last), last.span, joint=""))
    behind = [print_devices(parallel.devices)] if parallel.devices else []
    behind += map(print_option, parallel.options)
    spans = [part.span.start for part in (parallel.devices, *parallel.options) if part]
    close = Span(min([parallel.span.end, *spans]), parallel.span.end)
    return [head, *branches, _Part(" ".join([")", *behind]), close, indented=False)]
