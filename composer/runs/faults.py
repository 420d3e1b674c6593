"""What goes wrong in the middle of a run, in words that name the member, and where what was trained is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import keras
import tensorflow as tf

from composer.engine.programs import operation_fault
from composer.errors import ComposerError, DataError, GraphError
from composer.runtime.settings import snake_case

Callbacks = Mapping[str, Sequence[keras.callbacks.Callback]]


@contextmanager
def faults_told(path: Path, callbacks: Callbacks) -> Iterator[None]:
    """Turn what the spec or the machine is at fault for into a `ComposerError`; a bug of our own stays what it is.

    Args:
        path: the run folder.
        callbacks: those that the spec asks for, by member.

    Raises:
        ComposerError: a device's memory is full, a batch cannot be computed, or a callback of the spec fails.
    """
    kept = f"What was trained until then is kept in {path}"
    try:
        with _whole_tracebacks():
            yield
    except ComposerError as error:
        if isinstance(error.__cause__, tf.errors.OpError):
            raise DataError(f"{error}. {kept}") from error
        raise
    except Exception as error:
        failed = _failed_callback(error.__traceback__, callbacks)
        if failed is not None:
            raise ComposerError(f"{failed} failed: {' '.join(str(error).split()).rstrip('.')}. {kept}") from error
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
    """Keras takes its own frames out of tracebacks, and with them the callback that failed."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


def _failed_callback(traceback: TracebackType | None, callbacks: Callbacks) -> str | None:
    """The callback of the spec that an error came out of, if any."""
    owners = {id(callback): (name, callback) for name, held in callbacks.items() for callback in held}
    while traceback is not None:
        name, callback = owners.get(id(traceback.tb_frame.f_locals.get("self")), (None, None))
        if callback is not None:
            return f"the callback `{snake_case(type(callback).__name__)}` of `{name}`"
        traceback = traceback.tb_next
    return None
