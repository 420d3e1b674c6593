"""`Diagnostic`: one fault of a spec, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from composer.diagnostics.codes import CODES
from composer.source import SourceText, Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault of a spec.

    Args:
        code: a registered code such as `MG203`.
        message: what is wrong, lower case, no full stop, complete in itself.
        span: where, in `source`; None where no place is at fault.
        source: the text that the span points into; None where there is none.
        label: what stands under the carets: the reason, in a few words.
        help: how to mend it; several where there is a choice.
        notes: further facts.
        severity: `error` or `warning`.

    Raises:
        ValueError: the code is not registered.
    """

    code: str
    message: str
    span: Span | None = None
    source: SourceText | None = None
    label: str = ""
    help: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    severity: Severity = "error"

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"`{self.code}` is not a registered code: add a row for it in composer/diagnostics/codes/")
