"""Ctrl-C while models train: first a stop between two batches, then at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from composer.cli.terminal import Terminal

NOTICE = "stopping after this batch; press Ctrl-C again to stop at once"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody asked the process to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a process that ended by the signal is known by: 130 for Ctrl-C."""
        return 128 + (self.signal or signal.SIGINT)


@contextmanager
def stop_requests(terminal: Terminal) -> Iterator[StopRequest]:
    """Turns the first Ctrl-C (or SIGTERM) into a request to stop, and the second into a `KeyboardInterrupt`.

    Signals reach only the main thread of a process; elsewhere nothing changes.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if request():
            raise KeyboardInterrupt
        request.signal = number
        if not terminal.is_live(sys.stderr):  # there the display says so
            os.write(2, f"note: {NOTICE}\n".encode())  # a stream may be in the middle of a line of its own

    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    try:
        for number in SIGNALS:
            before[number] = signal.signal(number, handle)
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
