"""`composer fmt`: specs in their canonical layout."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from pathlib import Path

import click

from composer import pipeline
from composer.cli.endings import FAULT
from composer.cli.options import path_argument, shared_options
from composer.cli.specs import STDIN, read_source, shown_name
from composer.cli.terminal import Terminal
from composer.errors import ComposerError
from composer.source import SourceText

_EXAMPLES = """\b
Examples:
  composer fmt fleet.mgpu
  composer fmt specs/*.mgpu --check    # for CI: writes nothing, exits with 1
  composer fmt - < fleet.mgpu
"""


@click.command(epilog=_EXAMPLES, short_help="Lay specs out in the canonical way.")
@path_argument("specs", "SPEC...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change, and exit with 1.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change, and exit with 1.")
@shared_options(simulate=False)
@click.pass_obj
def command(terminal: Terminal, specs: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Rewrite the specs in their canonical layout. Comments are kept.

    A spec with syntax faults is left as it is. `-` reads from the standard input and writes to the standard output.
    """
    failed = changed = False
    for spec in specs:
        try:
            source = read_source(spec)
            text = pipeline.format(source)
            differs = text != source.text
            if check or diff:
                changed |= differs
                _show_change(terminal, shown_name(spec), source, text, diff)
            elif spec == STDIN:
                terminal.result(text.removesuffix("\n"))
            elif differs:
                _rewrite(spec, text)
                terminal.result(f"formatted {spec}")
        except ComposerError as error:  # the other files are formatted still
            failed = True
            if error.diagnostics:
                terminal.diagnostics(error.diagnostics)
            else:
                terminal.label("error", str(error))
    return FAULT if failed or changed else 0


def _show_change(terminal: Terminal, name: str, source: SourceText, text: str, diff: bool) -> None:
    if source.text == text:
        return
    if not diff:
        terminal.result(f"would format {name}")
        return
    before, after = source.text.splitlines(), text.splitlines()
    lines = list(difflib.unified_diff(before, after, name, f"{name} (formatted)", lineterm=""))
    terminal.result("\n".join(lines) if lines else f"{name}: only line ends differ")


def _rewrite(spec: Path, text: str) -> None:
    """Put the text in the file's place whole or not at all, under the file's own rights."""
    target = spec.resolve()  # a link stays a link
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(target, temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ComposerError(f"{spec} cannot be rewritten, and is as it was: {error.strerror or error}") from error
