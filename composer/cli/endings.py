"""How a command ends that did not go through: the message for each kind of error, and the exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from composer.diagnostics import Diagnostic
from composer.errors import ComposerError, DataError, DeviceError, InternalError

if TYPE_CHECKING:
    from composer.cli.terminal import Terminal

FAULT, USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 1, 2, 70, 130, 141

_FULL = (errno.ENOSPC, errno.EDQUOT)
_BUG = (
    "this is a bug in composer, not in your spec. Please report it with the lines above, the spec and the versions "
    "that `composer --version` and `python -m pip list` tell"
)


class PipeClosed(Exception):  # noqa: N818 - not an error
    """Nobody reads the results any more: the other end of the pipe is closed."""


def end(error: BaseException, terminal: Terminal) -> int:
    """Say what happened, on stderr.

    Returns:
        The exit code.
    """
    try:
        return _end(error, terminal)
    except BrokenPipeError:  # nobody reads stderr either
        return _pipe_closed()


def _end(error: BaseException, terminal: Terminal) -> int:
    if isinstance(error, click.Abort) and error.__cause__ is not None:  # click's name for Ctrl-C, and for EOFError
        error = error.__cause__
    if isinstance(error, BrokenPipeError | PipeClosed):
        return _pipe_closed()
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAULT
    if terminal.settings.traceback and not isinstance(error, InternalError):
        terminal.say(_traceback(error))
    if isinstance(error, KeyboardInterrupt | click.Abort):
        terminal.label("error", "interrupted; no file is half-written")
        return INTERRUPTED
    if isinstance(error, ComposerError):
        _show_fault(error, terminal)
        return FAULT
    if isinstance(error, OSError) and error.errno in _FULL:
        terminal.label("error", f"cannot write the results: {error.strerror}. Free some space or write elsewhere")
        _discard_output()
        return FAULT
    if isinstance(error, MemoryError):
        terminal.label("error", "the machine has no memory left. Take a smaller batch, or fewer members at once")
        return FAULT
    terminal.say(_traceback(error))
    terminal.label("error", _BUG)
    return BUG


def _show_fault(error: ComposerError, terminal: Terminal) -> None:
    if error.diagnostics:
        terminal.diagnostics(error.diagnostics)
    elif isinstance(error, DataError):  # of rows that no spec names
        terminal.diagnostics([Diagnostic(error.code, error.fault, help=(error.mend,) if error.mend else ())])
    else:
        terminal.label("error", str(error))
    if isinstance(error, DeviceError) and "GPU" in str(error) and terminal.start_messages:
        terminal.label("note", f"while it started, TensorFlow said:\n{terminal.start_messages}")


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n")


def _pipe_closed() -> int:
    _discard_output()
    return BROKEN_PIPE


def _discard_output() -> None:
    """Let Python find nothing to flush when it exits: it would complain of the closed pipe or the full disk again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # stdout is no file of the system
        pass
