"""Entries as bundles: two members of one entry, unlike in weights and lengths, as one batched program and alone."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras

import composer
from tests.conformance.trials import Entry, Place, Trained, Trial, _attempt, differences, run_alone

FUSED_BAR = 1e-5
"""The largest difference that is allowed, relative to the largest weight."""

PLACES = (Place(13, 5), Place(8, 5))


@dataclass(frozen=True)
class FusedOutcome:
    """What became of an entry's two members.

    Args:
        entry: the entry.
        told: what the plan says of them: one batched program, or why not.
        difference: the largest to the models alone.
        where: what differs most.
        fault: what failed.
    """

    entry: Entry
    told: str = ""
    difference: float = float("inf")
    where: str = ""
    fault: str = ""

    @property
    def batched(self) -> bool:
        return "batched program" in self.told

    @property
    def passed(self) -> bool:
        return not self.fault and self.difference <= FUSED_BAR

    def __str__(self) -> str:
        apart = f"{self.difference:.2g} apart in {self.where or 'nothing'}"
        return f"{self.entry}: {self.fault or apart} ({self.told})"


def fused(entry: Entry, epochs: int) -> FusedOutcome:
    """Train two members of an entry together and alone, and compare."""
    trials = [_Begun(**vars(entry.trial), start_seed=entry.trial.seed + number) for number in range(2)]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        together = _attempt(lambda: _together(trials, epochs, folder))
        alone = [
            _attempt(partial(run_alone, trial, place, epochs, folder / f"alone_{index}"))
            for index, (trial, place) in enumerate(zip(trials, PLACES, strict=True))
        ]
        faults = [each for each in (together, *alone) if isinstance(each, str)]
        if faults:
            return FusedOutcome(entry, fault=faults[0])
        members, told = together
        found = [
            (apart, where)
            for mine, theirs in zip(members, alone, strict=True)
            for where, apart in differences(mine, theirs)
        ]
    difference, where = max(found)
    return FusedOutcome(entry, told, difference, where if difference else "")


@dataclass(frozen=True, eq=False)
class _Begun(Trial):
    """A trial that begins from a seed of its own."""

    start_seed: int = 0

    @property
    def seed(self) -> int:
        return self.start_seed


def _together(trials: list[_Begun], epochs: int, folder: Path) -> tuple[list[Trained], str]:
    models = {f"m{number}": trial.start() for number, trial in enumerate(trials)}
    arguments: dict[str, dict[str, Any]] = {}
    data = {}
    for name, trial, place in zip(models, trials, PLACES, strict=True):
        (folder / name).mkdir()
        data[name] = trial.rows(place.num_rows)
        settings = {"epochs": epochs, "batch_size": place.batch_size, **trial.fit}
        settings["callbacks"] = trial.callbacks(folder / name)
        if trial.validated:
            settings["validation_data"] = trial.rows(place.num_rows - 3)
        for key, value in settings.items():
            arguments.setdefault(key, {})[name] = value
    joint = composer.compile(f"parallel({', '.join(models)}) on cpus=1 fuse=on", models=models)
    keras.utils.set_random_seed(1)
    history = joint.fit(data, shuffle=False, verbose=0, **arguments)
    trained = [
        Trained(model, history.members[name].history, arguments["callbacks"][name], {})
        for name, model in models.items()
    ]
    return trained, "; ".join(note for note in joint.plan.notes if "batched" in note or "joined" in note)
