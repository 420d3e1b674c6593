"""MG6xx: export."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = ()
