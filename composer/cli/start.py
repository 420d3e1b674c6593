"""TensorFlow's start, with its noise kept off the screen."""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from composer.cli.haste import HASTE
from composer.cli.status import working
from composer.cli.terminal import Terminal
from composer.compiler.plan import DeviceTopology

_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",  # errors only, for as long as the process lives
    "ABSL_MIN_LOG_LEVEL": "2",
    "GRPC_VERBOSITY": "ERROR",
}
"""Environment variables that are set unless the user has. They do not silence the import, so its stderr is caught."""


_PREAMBLE = "WARNING: All log messages before absl::InitializeLog()"
_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ")


def start_tensorflow(terminal: Terminal) -> DeviceTopology:
    """Import TensorFlow and find its devices, simulated ones where `--simulate` says so.

    What it prints meanwhile goes to `terminal.start_messages`, and is shown if the start fails: then it holds the
    reason.

    Raises:
        DeviceError: the devices cannot be simulated.
    """
    HASTE.end()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    with caught_stderr() as caught, working(terminal, "starting TensorFlow", caught.real):
        try:
            from composer.graph import devices

            logging.getLogger("tensorflow").setLevel(logging.ERROR)
            if terminal.settings.simulate is not None:
                devices.simulate(terminal.settings.simulate)
            return devices.topology()
        except BaseException:
            caught.show()
            raise
        finally:
            terminal.start_messages = told(caught.text())


def told(log: str) -> str:
    """The messages of a log of TensorFlow's, each once, without dates, processes and places in its sources."""
    lines = [_PREFIX.sub("", line) for line in log.splitlines() if not line.startswith(_PREAMBLE)]
    return "\n".join(dict.fromkeys(lines))


class Caught:
    """What was written to file descriptor 2 while it was redirected.

    Args:
        real: where descriptor 2 led before.
        read: gives what was written until now.
        restore: ends the redirection.
    """

    def __init__(self, real: TextIO, read: Callable[[], str], restore: Callable[[], None]) -> None:
        self.real = real
        self._read = read
        self._restore = restore

    def text(self) -> str:
        return self._read()

    def show(self) -> None:
        """End the redirection and write to stderr what was caught."""
        text = self._read()
        self._restore()
        if text:
            sys.stderr.write(f"{text}\n")


@contextmanager
def caught_stderr() -> Iterator[Caught]:
    """Redirects file descriptor 2 into a file: libraries in C++ write there past `sys.stderr`.

    A process that dies meanwhile still says where, on the real stderr.
    """
    sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # the process has no stderr
        yield Caught(sys.stderr, str, lambda: None)
        return
    watches = not faulthandler.is_enabled()
    with tempfile.TemporaryFile() as file, os.fdopen(saved, "w") as real:
        if watches:
            faulthandler.enable(real)

        def read() -> str:  # by `pread`: descriptor 2 shares the file's position
            length = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), length, 0).decode(errors="replace").strip()

        def restore() -> None:
            sys.stderr.flush()
            os.dup2(saved, 2)

        os.dup2(file.fileno(), 2)
        try:
            yield Caught(real, read, restore)
        finally:
            restore()
            if watches:
                faulthandler.disable()
