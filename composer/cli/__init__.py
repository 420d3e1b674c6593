"""The command line: verbs are windows on the stages. The only place that prints or exits."""

from __future__ import annotations

from collections.abc import Sequence

from composer.cli.haste import HASTE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments behind the program's name; those of the process where None.

    Returns:
        The exit code: 0 fine, 1 the spec or the machine is at fault, 2 the command was wrong, 70 a bug of composer,
        130 interrupted, 141 nobody reads the results any more.

    Example:
        >>> main(["--version"])
        composer ...
        0
    """
    HASTE.begin()
    try:
        from composer.cli.app import run

        return run(None if argv is None else list(argv))
    finally:
        HASTE.end()
