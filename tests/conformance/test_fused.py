"""Every entry trains in a batched program of two members as each member's model does alone."""

from __future__ import annotations

import pytest

from tests.conformance.catalogue import KINDS
from tests.conformance.fused import fused
from tests.conformance.params import DAILY_EPOCHS
from tests.conformance.trials import Entry

DAILY = ("MultiHeadAttention", "Conv2DTranspose", "Muon", "Nadam", "Adam gradient_accumulation_steps")
"""Entries of kinds that `tests/runtime/test_bundles.py` does not have."""
REASONS = {
    "AugMix": "it draws with Python's own `random` while it is traced",
}
"""Why an entry is not compared."""
FILES = ("callbacks",)  # kinds that write files, whose names the members share


def entries() -> list[Entry]:
    """Each trial once: an entry may be the same under several names."""
    found = {id(entry.trial): entry for kind in KINDS if kind not in FILES for entry in KINDS[kind].entries()}
    return [entry for entry in found.values() if entry.name not in REASONS]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=f"{entry.kind}-{entry.name}", marks=[] if entry.name in DAILY else [pytest.mark.slow])
        for entry in entries()
    ],
)
def test_entries_train_as_alone(entry: Entry) -> None:
    outcome = fused(entry, DAILY_EPOCHS)
    assert outcome.passed, str(outcome)
    assert outcome.batched or entry.name not in DAILY, outcome.told


def test_the_daily_entries_are_there() -> None:
    assert set(DAILY) <= {entry.name for entry in entries()}
