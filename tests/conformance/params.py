"""Entries as parameters of a test."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.conformance.trials import Entry

DAILY_EPOCHS = 2


def each_of(entries: Iterable[Entry]) -> pytest.MarkDecorator:
    """A test for every entry, by its name; those that are not daily are slow."""
    return pytest.mark.parametrize(
        "entry",
        [
            pytest.param(entry, id=entry.name.replace(" ", "-"), marks=[] if entry.daily else [pytest.mark.slow])
            for entry in entries
        ],
    )
