"""The version of composer: the one place that says it; the distribution's metadata is made from it."""

from __future__ import annotations

__version__ = "0.1.0"
