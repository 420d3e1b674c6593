"""What is wrong with the rows of members, as diagnostics: each with its code and its place in the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.diagnostics import render_text
from composer.errors import DataError
from composer.runtime.members import Member
from composer.source import SourceText, Span


class RowFaults:
    """Collects the faults of several members, so that all of them are reported together.

    Args:
        members: by name.
        source: the spec.
    """

    def __init__(self, members: Mapping[str, Member], source: SourceText) -> None:
        self._members = members
        self._faults = Faults(source)
        self._told: set[Span | None] = set()

    @contextmanager
    def of(self, member: str, option: str = "") -> Iterator[None]:
        """Takes the fault of one member's rows; copies that share a statement are told of once.

        Args:
            member: whose rows are looked at.
            option: the option that gives them, where it is not the source of the `data` statement.
        """
        try:
            yield
        except DataError as error:
            span = place_of(self._members[member].plan.member, error.option or option)
            if span is None or span not in self._told:
                self._faults.error(error.code, error.fault, span, help=(error.mend,))
            self._told.add(span)

    def raise_errors(self) -> None:
        """Ends the stage where there are faults.

        Raises:
            DataError: with all of them; its message shows them rendered.
        """
        if errors := self._faults.errors:
            raise DataError(render_text(errors), errors, code=errors[0].code)


def place_of(member: ir.Member, option: str = "") -> Span | None:
    """Where a spec gives a member's rows, or one of its options; its branch, where neither is written."""
    if not option:
        return member.data.source.span if member.data is not None else member.span
    if option == "validation" and member.data is not None:
        return member.data.validation_span
    return dict(member.train.spans).get(option, member.span)
