"""Diagnostics for programs: JSON with a version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from composer.diagnostics.diagnostic import Diagnostic

FORMAT_VERSION = 1


def render_json(diagnostics: Sequence[Diagnostic]) -> str:
    """All diagnostics as one JSON document, indented by two spaces, without a line end.

    The document has `format_version`, `valid` (no error among them), `error_count`, `warning_count` and
    `diagnostics`: for each `code`, `severity`, `message`, `file`, `range` (`start` and `end`, each with `line` and
    `column` from 1, the end behind the last character; null where no place is at fault), `label`, `help` and `notes`.
    """
    return json.dumps(to_dict(diagnostics), indent=2, ensure_ascii=False)


def to_dict(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """What `render_json` writes, before it is text."""
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    return {
        "format_version": FORMAT_VERSION,
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(diagnostics) - errors,
        "diagnostics": [_entry(diagnostic) for diagnostic in diagnostics],
    }


def _entry(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "file": diagnostic.source.name if diagnostic.source else None,
        "range": _range(diagnostic),
        "label": diagnostic.label,
        "help": list(diagnostic.help),
        "notes": list(diagnostic.notes),
    }


def _range(diagnostic: Diagnostic) -> dict[str, Any] | None:
    if diagnostic.source is None or diagnostic.span is None:
        return None
    places = {"start": diagnostic.span.start, "end": diagnostic.span.end}
    positions = {key: diagnostic.source.position(offset) for key, offset in places.items()}
    return {key: {"line": line, "column": column} for key, (line, column) in positions.items()}
