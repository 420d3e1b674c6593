"""What composer raises.

Exception
├── ComposerError             something the caller can mend
│   ├── SpecError             faults of a spec; carries `diagnostics`
│   ├── DeviceError           the machine lacks what the spec asks for; carries `diagnostics` where a spec is at fault
│   ├── GraphError            a model cannot be placed, split or joined as asked
│   ├── DataError(ValueError) rows that do not fit their member
│   ├── ResumeError           a training that was cut off is not what it was; carries `diagnostics`
│   └── ExportError           an export cannot be written
├── InternalError             a bug of composer's own: it keeps its traceback and asks for a report
└── UserWarning
    └── ComposerWarning       something that works, but probably not as meant
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from composer.diagnostics import Diagnostic


class ComposerError(Exception):
    """The root of everything a caller can mend.

    Args:
        message: what happened, what was expected, what was received and how to mend it.
        diagnostics: the faults behind the message, each with its code and place; empty where no spec is at fault.
    """

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class SpecError(ComposerError):
    """A spec has faults; `diagnostics` lists all of them and the message shows them rendered."""


class DeviceError(ComposerError):
    """The devices a spec asks for are not there; the message lists what is."""


class GraphError(ComposerError):
    """A model cannot be placed, split, grouped or joined as asked; the message names the member and the layer."""


class DataError(ComposerError, ValueError):
    """Rows do not fit their member; the message names the member.

    Args:
        message: what happened.
        diagnostics: the faults behind it with their places, where a spec names the rows.
        code: the kind of fault, of family MG5: `composer explain` tells of it.
        member: the member's name; empty where that is not known here, or where there are several.
        mend: what to do, as a diagnostic's help has it; the message ends with it.
        option: what of the member's statements is at fault, where it is not the rows themselves: `validation`, `batch`,
            `class_weight`.
    """

    def __init__(
        self,
        message: str,
        diagnostics: tuple[Diagnostic, ...] = (),
        *,
        code: str = "MG500",
        member: str = "",
        mend: str = "",
        option: str = "",
    ) -> None:
        super().__init__(f"{message}. {mend[0].upper()}{mend[1:]}" if mend else message, diagnostics)
        self.fault = message
        self.code = code
        self.member = member
        self.mend = mend
        self.option = option


class ResumeError(ComposerError):
    """A training that was cut off cannot go on: its data, models or settings are not what they were. Nothing is lost.

    Args:
        message: what happened.
        diagnostics: the faults behind it.
        reason: what is not what it was, without where that was found or how to mend it.
    """

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = (), reason: str = "") -> None:
        super().__init__(message, diagnostics)
        self.reason = reason


class ExportError(ComposerError):
    """An export cannot be written; nothing half-written is left behind."""


class InternalError(Exception):
    """A bug of composer itself, outside the tree of errors a caller can mend."""


class ComposerWarning(UserWarning):
    """Something that works, but probably not as meant; the message names the member.

    Args:
        message: what it is.
        diagnostics: the findings behind the message, each with its code and place; empty where it has none.
    """

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)
