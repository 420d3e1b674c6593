"""What Keras has, as data: optimizers, schedules, losses, metrics and callbacks, with their parameters.

The table is `keras_table.json`, written from an installed Keras by `python -m tests.make_keras_table`, and read on
first use; Keras itself is never imported here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CHOSEN_BY_KERAS = {"loss": ("crossentropy", "ce"), "metric": ("accuracy", "acc")}
"""Words for which `compile` picks a class by the shape of the targets (`keras/src/trainers/compile_utils.py`)."""

_FILE = Path(__file__).with_name("keras_table.json")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a Keras class.

    Args:
        kinds: what it takes: `number`, `int`, `bool`, `str`, `list`, `map`, or a family such as `schedule`.
        required: whether it has to be given.
        default: what Keras takes where it is left out.
    """

    kinds: tuple[str, ...]
    required: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One class of Keras.

    Args:
        name: the class name, an attribute of the family's module (`keras.losses`, `keras.optimizers`, ...).
        spelled: its usual spelling in a spec, e.g. `early_stopping`.
        strings: the strings that Keras' own `get` resolves to it.
        parameters: by name, in Keras' order; empty where `from_python` is set.
        from_python: it is made of Python functions, which a spec cannot hold.
    """

    name: str
    spelled: str
    strings: tuple[str, ...]
    parameters: dict[str, Parameter]
    from_python: bool


def folded(name: str) -> str:
    """A name as it is looked up: `EarlyStopping`, `early_stopping` and `earlystopping` are one."""
    return name.replace("_", "").lower()


def families() -> tuple[str, ...]:
    """The families of the table: `optimizer`, `schedule`, `loss`, `metric`, `callback`, ..."""
    return tuple(_table()["families"])


@cache
def entries(family: str) -> dict[str, Entry]:
    """All entries of a family by class name."""
    return {name: _entry(name, raw) for name, raw in _table()["families"][family].items()}


def find(family: str, name: str) -> Entry | None:
    """The entry a spec means by `name`: a class name, its snake-case form or a short form such as `mse`."""
    return _index(family).get(folded(name))


def keras_version() -> str:
    """The version of Keras that the table was written from."""
    return str(_table()["keras"])


@cache
def _index(family: str) -> dict[str, Entry]:
    found = {folded(name): entry for name, entry in entries(family).items()}
    for name, raw in _table()["families"][family].items():
        for alias in raw.get("aliases", ()):
            found.setdefault(folded(alias), entries(family)[name])
    return found


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return table


def _entry(name: str, raw: dict[str, Any]) -> Entry:
    parameters = {
        parameter: Parameter(tuple(kind.split("|")), required=not default, default=default[0] if default else None)
        for parameter, (kind, *default) in raw.get("parameters", {}).items()
    }
    return Entry(name, raw["spelled"], tuple(raw.get("strings", ())), parameters, raw.get("from_python", False))
