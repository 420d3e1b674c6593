"""Every class that Keras has is an entry, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.catalogue import KINDS
from tests.conformance.found import classes
from tests.helpers import needs_newest_keras

README = Path(__file__).parents[2] / "README.md"
FOUND = [kind for kind, found in KINDS.items() if found.module is not None]


@pytest.mark.parametrize("kind", FOUND)
def test_every_class_is_an_entry_or_has_a_reason(kind: str) -> None:
    found = KINDS[kind]
    run = {entry.name.split()[0] for entry in found.entries()}
    told = set(found.reasons)
    assert set(classes(found.module, object)) - run - told == set()
    assert run & told == set(), "these are run, so the reason is stale"


@needs_newest_keras
@pytest.mark.parametrize("kind", FOUND)
def test_no_reason_is_for_a_class_that_is_gone(kind: str) -> None:
    assert set(KINDS[kind].reasons) <= set(classes(KINDS[kind].module, object))


@pytest.mark.parametrize("kind", KINDS)
def test_entries_have_names_of_their_own(kind: str) -> None:
    names = [entry.name for entry in KINDS[kind].entries()]
    assert len(names) == len(set(names)) > 0


@needs_newest_keras
def test_the_readme_counts_the_entries_that_there_are() -> None:
    """Fails when entries are added: `python -m tests.conformance --markdown` prints the table anew."""
    row = re.compile(r"^\| ([a-z]+) \| (\d+) \| \d+ \| [\d.e-]+ \| (\d+) \|$", re.MULTILINE)
    told = {kind: (int(entries), int(without)) for kind, entries, without in row.findall(README.read_text("utf-8"))}
    found = {kind: (len(list(kind_of.entries())), len(kind_of.reasons)) for kind, kind_of in KINDS.items()}
    found["all"] = tuple(map(sum, zip(*found.values(), strict=True)))
    assert told == found
