"""MG3xx: the plan."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = ()
