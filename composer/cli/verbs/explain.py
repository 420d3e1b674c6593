"""`composer explain`: what a code means, why it is a fault, and the mend."""

from __future__ import annotations

import re

import click

from composer.cli.options import shared_options
from composer.cli.terminal import Terminal
from composer.diagnostics import CODES, FAMILIES, near_names
from composer.diagnostics.near import edit_distance, join_words

_EXAMPLES = """\b
Examples:
  composer explain MG203
  composer explain            # lists all codes
"""


@click.command(epilog=_EXAMPLES, short_help="Explain the code of a diagnostic.")
@click.argument("code", required=False)
@shared_options(simulate=False)
@click.pass_obj
def command(terminal: Terminal, code: str | None) -> int:
    """Explain the CODE of a diagnostic, or list all codes."""
    if code is None:
        terminal.result(_list())
        return 0
    slugs = {row.slug: row.code for row in CODES.values()}
    wanted = slugs.get(code.lower(), code.upper())
    if wanted not in CODES:
        raise click.BadParameter(f"there is no code {code!r}. {_hint(code)}", param_hint="CODE")
    terminal.result(CODES[wanted].explain.rstrip("\n"))
    return 0


def _hint(code: str) -> str:
    """Codes of the same family, the nearest first, or near names; else where all of them are listed."""
    wanted = code.upper()
    if re.fullmatch(r"MG\d+", wanted):
        family = [row for row in CODES if row.startswith(wanted[:3])]
        near = sorted(family, key=lambda row: (edit_distance(row, wanted), abs(int(row[2:]) - int(wanted[2:]))))[:3]
        told = [f"{row} ({CODES[row].slug})" for row in near]
    else:
        told = list(near_names(code.lower(), [row.slug for row in CODES.values()]))
    return f"Did you mean {join_words(told)}?" if told else "`composer explain` lists them all."


def _list() -> str:
    lines = []
    for family, title in FAMILIES.items():
        rows = [row for row in CODES.values() if row.code.startswith(family)]
        if rows:
            lines += [f"{family}xx: {title}", *(f"  {row.code}  {row.summary}" for row in rows), ""]
    return "\n".join(lines).rstrip("\n")
