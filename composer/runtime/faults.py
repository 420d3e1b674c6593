"""What stops one member and no other: a fault of its rows, or of one of its callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import keras
import tensorflow as tf

from composer.engine.programs import operation_fault
from composer.errors import ComposerError, DataError
from composer.runtime.settings import snake_case

ON_ERROR = ("continue", "raise")
"""What `fit` may do about a member that fails: stop it alone, or stop all."""


@dataclass(frozen=True)
class MemberFault:
    """Why a member was stopped.

    Args:
        epoch: in which, counted from 0; None before the first and after the last.
        error: what was raised.
        message: what happened, with the member's name.
    """

    epoch: int | None
    error: Exception
    message: str

    def __str__(self) -> str:
        return self.message


def rows_fault(name: str, error: Exception, where: str = "") -> DataError:
    """The fault of a member whose rows could not be read."""
    return DataError(f"the rows of `{name}` could not be read{where}: {_told(error)}", code="MG503", member=name)


def callback_fault(name: str, callbacks: Sequence[Any], error: Exception, where: str = "") -> Exception:
    """The fault of a member one of whose callbacks failed; of one of composer's own, the error as it is."""
    callback = _failed_callback(error.__traceback__, callbacks)
    which = "a callback" if callback is None else f"the callback `{snake_case(type(callback).__name__)}`"
    if type(callback).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return error
    text = " ".join(str(error).split()) or type(error).__name__
    return ComposerError(f"{which} of `{name}` failed{where}: {text.rstrip('.')}")


def _failed_callback(traceback: TracebackType | None, callbacks: Sequence[Any]) -> keras.callbacks.Callback | None:
    """The callback that an error came out of."""
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        found = next((callback for callback in callbacks if callback is owner), None)
        if found is not None:
            return found
        traceback = traceback.tb_next
    return None


def _told(error: Exception) -> str:
    text = operation_fault(error) if isinstance(error, tf.errors.OpError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:400].rstrip(".:")
