"""What goes wrong in the middle of a run, in words that name the member, and where what was trained is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import keras
import tensorflow as tf

from composer.diagnostics import Diagnostic, render_text
from composer.engine.programs import operation_fault
from composer.errors import ComposerError, DataError, GraphError, ResumeError
from composer.runs.row_faults import place_of
from composer.runtime.faults import MemberFault
from composer.runtime.members import Member
from composer.source import SourceText


@contextmanager
def faults_told(path: Path, members: Mapping[str, Member], source: SourceText) -> Iterator[None]:
    """Turn what the spec or the machine is at fault for into a `ComposerError`; a bug of our own stays what it is.

    Args:
        path: the run folder.
        members: by name.
        source: the spec.

    Raises:
        ComposerError: a device's memory is full, a batch cannot be computed, or a callback of the spec fails.
    """
    kept = f"What was trained until then is kept in {path}"
    try:
        with _whole_tracebacks():
            yield
    except ComposerError as error:
        if error.__cause__ is None or isinstance(error.__cause__, OSError):
            raise  # what could not be written is not kept
        if not isinstance(error, DataError):
            raise ComposerError(f"{error}. {kept}") from error
        span = place_of(members[error.member].plan.member) if error.member in members else None
        told = Diagnostic(error.code, error.fault, span, source, notes=(f"{kept[0].lower()}{kept[1:]}",))
        raise DataError(f"{error}. {kept}", (told,), code=error.code, member=error.member) from error
    except Exception as error:
        if isinstance(error, tf.errors.ResourceExhaustedError):
            raise GraphError(
                f"the memory of a device is full. Take smaller batches or fewer members at once; {kept[0].lower()}"
                f"{kept[1:]}: {operation_fault(error)}"
            ) from error
        if isinstance(error, tf.errors.OpError):
            raise DataError(f"TensorFlow refuses a batch: {operation_fault(error)}. {kept}") from error
        raise


@contextmanager
def _whole_tracebacks() -> Iterator[None]:
    """Keras takes its own frames out of tracebacks, and with them the cause of an error."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


def resumed_otherwise(path: Path, error: ResumeError) -> ResumeError:
    """What a `fit` says of a backup that is of another training, in words for who resumes a run."""
    (fault,) = error.diagnostics
    told = replace(
        fault,
        message=f"the run {path} cannot go on as it began: {error.reason}",
        help=("put it back as it was, or train anew: `composer fit SPEC -o ANOTHER_RUN`",),
    )
    return ResumeError(render_text([told]), (told,), error.reason)


def lost_members(
    histories: Mapping[str, Mapping[str, Sequence[float]]], members: Mapping[str, Member], source: SourceText
) -> list[Diagnostic]:
    """A warning for each member whose loss is no finite number in its last epoch.

    Args:
        histories: by member.
        members: by name.
        source: the spec.
    """
    told = []
    for name, history in histories.items():
        losses = history.get("loss", ())
        if losses and not math.isfinite(losses[-1]):
            first = 1 + max((epoch for epoch, loss in enumerate(losses, 1) if math.isfinite(loss)), default=0)
            told.append(
                Diagnostic(
                    "MG516",
                    f"the loss of `{name}` is {losses[-1]} from epoch {first} on: what it has learnt is lost",
                    members[name].plan.member.span,
                    source,
                    help=(
                        "look for NaN or infinity in its rows, or train it with a lower learning rate or `clipnorm=`",
                    ),
                    severity="warning",
                )
            )
    return told


def raise_faults(faults: Mapping[str, MemberFault]) -> None:
    """Tell at the end of a run which members were stopped.

    Raises:
        ComposerError: if there are any.
    """
    if faults:
        told = "; ".join(map(str, faults.values()))
        raise ComposerError(told) from next(iter(faults.values())).error
