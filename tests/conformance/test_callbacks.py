"""Every callback of Keras does to its member what it does to the model alone, and writes the same."""

from __future__ import annotations

from tests.conformance import callbacks
from tests.conformance.params import DAILY_EPOCHS, each_of
from tests.conformance.trials import Entry, Outcomes

ENTRIES = list(callbacks.entries())
OUTCOMES = Outcomes(ENTRIES, DAILY_EPOCHS)


@each_of(ENTRIES)
def test_callbacks_work_as_alone(entry: Entry) -> None:
    outcome = OUTCOMES[entry]
    assert outcome.passed, str(outcome)
    callbacks.WATCHED[entry.name].shows(outcome.joint)
    callbacks.WATCHED[entry.name].shows(outcome.alone)
