"""All kinds of entries, with the module of Keras that each is found in and the classes there that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from tests.conformance import callbacks, layers, losses, metrics, optimizers, pieces
from tests.conformance.trials import Entry


@dataclass(frozen=True)
class Kind:
    """One kind of entries.

    Args:
        entries: makes them.
        module: the public module of Keras with their classes; None where they are not classes.
        reasons: why a class of the module has no entry.
    """

    entries: Callable[[], Iterable[Entry]]
    module: Any = None
    reasons: Mapping[str, str] = field(default_factory=dict)


KINDS: dict[str, Kind] = {
    "layers": Kind(layers.entries, keras.layers, layers.REASONS),
    "optimizers": Kind(optimizers.entries, keras.optimizers, optimizers.REASONS),
    "schedules": Kind(optimizers.schedule_entries, keras.optimizers.schedules, optimizers.SCHEDULE_REASONS),
    "losses": Kind(losses.entries, keras.losses, losses.REASONS),
    "metrics": Kind(metrics.entries, keras.metrics, metrics.REASONS),
    "callbacks": Kind(callbacks.entries, keras.callbacks, callbacks.REASONS),
    "regularizers": Kind(pieces.regularizers, keras.regularizers, pieces.REGULARIZER_REASONS),
    "constraints": Kind(pieces.constraints, keras.constraints, pieces.CONSTRAINT_REASONS),
    "initializers": Kind(pieces.initializers, keras.initializers, pieces.INITIALIZER_REASONS),
    "policies": Kind(pieces.policies),
}
