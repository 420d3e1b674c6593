"""MG4xx: devices and the graph."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = ()
