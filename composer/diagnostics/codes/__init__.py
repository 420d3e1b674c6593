"""The registry: every code there is, by family. A stage adds its rules to the module of its family, one row a code."""

from __future__ import annotations

from composer.diagnostics.code import Code
from composer.diagnostics.codes import data, devices, export, names, planning, syntax

FAMILIES: dict[str, str] = {
    "MG1": "syntax",
    "MG2": "names, types and options",
    "MG3": "plan",
    "MG4": "devices and graph",
    "MG5": "data",
    "MG6": "export",
}
"""The families of codes, by the first three characters of a code."""


def _registry(rows: tuple[Code, ...]) -> dict[str, Code]:
    codes: dict[str, Code] = {}
    for row in rows:
        if row.code in codes:
            raise ValueError(f"{row.code} is registered twice: `{codes[row.code].slug}` and `{row.slug}`")
        codes[row.code] = row
    return dict(sorted(codes.items()))


CODES: dict[str, Code] = _registry(
    syntax.CODES + names.CODES + planning.CODES + devices.CODES + data.CODES + export.CODES
)
"""Every registered code, in order."""
