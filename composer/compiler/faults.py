"""The faults a pass finds, collected so that all of them are reported together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from composer.diagnostics import Diagnostic, Severity, did_you_mean, render_text
from composer.errors import SpecError
from composer.source import SourceText, Span

_MOST_COMPARED = 200_000  # looking for near names among thousands costs, and nobody reads hundreds of faults


class Faults:
    """Collects diagnostics of one spec. The same fault at the same place counts once."""

    def __init__(self, source: SourceText | None) -> None:
        self._source = source
        self._found: dict[tuple[str, str, Span | None], Diagnostic] = {}
        self._compared = 0

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        label: str = "",
        help: Iterable[str] = (),
        notes: Iterable[str] = (),
        severity: Severity = "error",
    ) -> None:
        """Adds a diagnostic; empty strings in `help` and `notes` say nothing and are dropped."""
        texts = tuple(text for text in help if text), tuple(text for text in notes if text)
        diagnostic = Diagnostic(code, message, span, self._source, label, *texts, severity)
        self._found.setdefault((code, message, span), diagnostic)

    def warning(self, code: str, message: str, span: Span | None, *, label: str = "", help: Iterable[str] = ()) -> None:
        """Adds a warning: a finding that stops nothing."""
        self.error(code, message, span, label=label, help=help, severity="warning")

    def near(self, name: str, names: Collection[str]) -> str:
        """`did you mean ...?` for a name that is not among `names`, or an empty string."""
        self._compared += len(names)
        return next(iter(did_you_mean(name, names)), "") if self._compared <= _MOST_COMPARED else ""

    def raise_errors(self) -> None:
        """Ends the pass where there are errors.

        Raises:
            SpecError: with all errors; its message shows them rendered.
        """
        if errors := self.errors:
            raise SpecError(render_text(errors), errors)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors in the order of the text."""
        return tuple(diagnostic for diagnostic in self.all if diagnostic.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings in the order of the text."""
        return tuple(diagnostic for diagnostic in self.all if diagnostic.severity == "warning")

    @property
    def all(self) -> tuple[Diagnostic, ...]:
        """Everything found, in the order of the text; what has no place comes last."""
        return tuple(sorted(self._found.values(), key=lambda d: (d.span is None, d.span or Span(0, 0))))
