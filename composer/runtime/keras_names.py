"""Names of optimizers, losses and metrics that Keras does not know, told where they are given: Keras itself finds
them out in the first step, and says neither which model is meant nor what was near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from composer.compiler.keras_table import CHOSEN_BY_KERAS, entries
from composer.errors import GraphError
from composer.graph.hints import near

_FAMILIES = {"optimizer": "optimizer", "loss": "loss", "metrics": "metric", "weighted_metrics": "metric"}
_LOOK_UP = {"optimizer": keras.optimizers.get, "loss": keras.losses.get, "metric": keras.metrics.get}


def check_names(member: str, settings: Mapping[str, Any]) -> None:
    """Refuse names that Keras would not find.

    Args:
        member: its name.
        settings: arguments of `keras.Model.compile`; only the strings in them are looked at.

    Raises:
        GraphError: it names the member, what was received and near names.
    """
    for argument, family in _FAMILIES.items():
        for name in keras.tree.flatten(settings.get(argument)):
            if isinstance(name, str) and not _is_known(family, name):
                known = {spelling for entry in entries(family).values() for spelling in (entry.spelled, *entry.strings)}
                raise GraphError(
                    f"`{argument}` of `{member}`: Keras has no {family} {name!r}{near(name, known) or '.'} Pass a "
                    f"{family} of your own as an object"
                )


def _is_known(family: str, name: str) -> bool:
    if name in CHOSEN_BY_KERAS.get(family, ()):
        return True
    if any(name in entry.strings or name.lower() == entry.name.lower() for entry in entries(family).values()):
        return True
    try:  # what is registered; last, since it makes the object
        _LOOK_UP[family](name)
    except ValueError:
        return False
    return True
