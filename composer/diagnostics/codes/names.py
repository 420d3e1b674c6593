"""MG2xx: names, types and options."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = ()
