"""Every layer of Keras trains in company as it does alone."""

from __future__ import annotations

from tests.conformance import layers
from tests.conformance.params import DAILY_EPOCHS, each_of
from tests.conformance.trials import Entry, Outcomes

ENTRIES = list(layers.entries())
OUTCOMES = Outcomes(ENTRIES, DAILY_EPOCHS)


@each_of(ENTRIES)
def test_layers_train_as_alone(entry: Entry) -> None:
    assert OUTCOMES[entry].passed, str(OUTCOMES[entry])
