"""Trainings in company and alone, and how far apart they end.

A `Trial` is a model with its rows and settings; an `Entry` is one row of the report, such as an optimizer or a metric,
with the trial that shows it. The trials of several entries are the members of one joint `fit`, each of another length
and batch size, beside a convolutional net that trains longer than all of them; then each is trained alone, by Keras'
own `fit`.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

import composer
from tests.conformance.files import contents, written

BAR = 2e-6
"""The largest difference that is allowed, relative to the largest weight."""

POOL_SIZE = 12
NUM_ROWS = (9, 11, 7, 13, 10)
BATCH_SIZES = (4, 3, 5)

Rows = tuple[Any, ...]  # (x, y) or (x, y, sample_weight)


def sgd() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.SGD(0.05), "loss": "mse"}


def no_callbacks(folder: Path) -> list[keras.callbacks.Callback]:
    return []


@dataclass(frozen=True, eq=False)
class Trial:
    """One training.

    Args:
        label: says what is trained; its seed follows from it.
        model: makes the model. Made twice under one seed, it starts from one state.
        rows: makes that many rows.
        settings: makes the arguments of `compile`.
        callbacks: makes the callbacks, which may write to a folder.
        fit: arguments of `fit` that are plain values; `epochs` overrules those of the run.
        validated: whether other rows validate it.
        built: why its optimizer has to be built before Keras' own `fit`, where Keras does not build it rightly.
    """

    label: str
    model: Callable[[], keras.Model]
    rows: Callable[[int], Rows]
    settings: Callable[[], dict[str, Any]] = sgd
    callbacks: Callable[[Path], list[keras.callbacks.Callback]] = no_callbacks
    fit: Mapping[str, Any] = field(default_factory=dict)
    validated: bool = False
    built: str = ""

    @property
    def seed(self) -> int:
        return zlib.crc32(self.label.encode())

    def start(self) -> keras.Model:
        """The model in its first state, compiled."""
        keras.utils.set_random_seed(self.seed)
        model = self.model()
        model.compile(**self.settings())
        return model


@dataclass(frozen=True)
class Entry:
    """One row of the report.

    Args:
        kind: `layer`, `optimizer`, ...
        name: unique in its kind.
        trial: the training that shows it.
        metric: the one metric that the entry is; None where everything counts.
        daily: whether it is part of the ordinary test run.
    """

    kind: str
    name: str
    trial: Trial
    metric: str | None = None
    daily: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Place:
    """The rows and the batch size that a trial's place in its pool gives it."""

    num_rows: int
    batch_size: int

    @classmethod
    def of(cls, index: int) -> Place:
        return cls(NUM_ROWS[index % len(NUM_ROWS)], BATCH_SIZES[index % len(BATCH_SIZES)])


@dataclass(frozen=True)
class Trained:
    """What a training ended with, and what the files hold that its callbacks wrote."""

    model: keras.Model
    history: dict[str, list[float]]
    callbacks: list[keras.callbacks.Callback]
    files: dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Outcome:
    """An entry with how far apart its two trainings ended.

    Args:
        entry: whose outcome it is.
        joint, alone: the two trainings; None where one failed.
        difference: the largest, relative to the largest value of its kind; 0.0 where all is equal to the bit.
        where: the variable or metric that differs most.
        fault: what failed.
    """

    entry: Entry
    joint: Trained | None = None
    alone: Trained | None = None
    difference: float = float("inf")
    where: str = ""
    fault: str = ""

    @property
    def passed(self) -> bool:
        return self.difference <= BAR and not self.fault

    def __str__(self) -> str:
        if self.fault:
            return f"{self.entry}: {self.fault}"
        return f"{self.entry}: {self.difference:.2g} apart in {self.where or 'nothing'}"


# Training ----------------------------------------------------------------------------------------------------------


def companion() -> Trial:
    """A net unlike all others, which trains for more epochs than they do."""

    def model() -> keras.Model:
        return keras.Sequential(
            [layers.Input((5, 5, 1)), layers.Conv2D(2, 3), layers.GlobalMaxPooling2D(), layers.Dense(1)]
        )

    def images(n: int) -> Rows:
        rng = np.random.default_rng(n)
        return rng.normal(size=(n, 5, 5, 1)).astype("float32"), rng.normal(size=(n, 1)).astype("float32")

    return Trial("companion", model, images, fit={"epochs": 7})


def run_together(trials: Sequence[Trial], epochs: int, folder: Path) -> list[Trained]:
    """Train all trials side by side in one joint `fit`, each at its place."""
    members = {f"m{index}": trial for index, trial in enumerate([*trials, companion()])}
    models = {name: trial.start() for name, trial in members.items()}
    folders = {name: folder / name for name in members}
    arguments: dict[str, dict[str, Any]] = {"callbacks": {}, "validation_data": {}}
    data = {}
    for index, (name, trial) in enumerate(members.items()):
        folders[name].mkdir(parents=True)
        place = Place.of(index)
        data[name] = trial.rows(place.num_rows)
        for key, value in {"epochs": epochs, "batch_size": place.batch_size, **trial.fit}.items():
            arguments.setdefault(key, {})[name] = value
        arguments["callbacks"][name] = trial.callbacks(folders[name])
        if trial.validated:
            arguments["validation_data"][name] = trial.rows(place.num_rows - 3)
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    keras.utils.set_random_seed(1)
    history = joint.fit(data, shuffle=False, verbose=0, **{key: value for key, value in arguments.items() if value})
    return [
        Trained(models[name], history.members[name].history, arguments["callbacks"][name], read(folders[name]))
        for name in list(members)[: len(trials)]
    ]


def run_alone(trial: Trial, place: Place, epochs: int, folder: Path) -> Trained:
    """Train a trial by itself, with Keras' own `fit`."""
    folder.mkdir(parents=True)
    model, callbacks = trial.start(), trial.callbacks(folder)
    if trial.built:
        model.optimizer.build(model.trainable_variables)
    keras.utils.set_random_seed(1)
    x, y, weights = (*trial.rows(place.num_rows), None)[:3]
    history = model.fit(
        x,
        y,
        sample_weight=weights,
        validation_data=trial.rows(place.num_rows - 3) if trial.validated else None,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        **{"epochs": epochs, "batch_size": place.batch_size, **trial.fit},
    )
    return Trained(model, history.history, callbacks, read(folder))


def read(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    return {name: contents(path) for name, path in written(folder).items()}


def run(entries: Sequence[Entry], epochs: int, folder: Path) -> list[Outcome]:
    """Train the trials of some entries together and alone, and compare.

    A training that fails is told of its entry; the others are compared all the same.
    """
    trials = list(dict.fromkeys(entry.trial for entry in entries))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Keras warns of, it warns of alone too
        warnings.simplefilter("error", composer.ComposerWarning)
        joint = _each_together(trials, epochs, folder)
        alone = {
            trial: _attempt(partial(run_alone, trial, Place.of(index), epochs, folder / f"alone_{index}"))
            for index, trial in enumerate(trials)
        }
    return [_compared(entry, joint[entry.trial], alone[entry.trial]) for entry in entries]


def _each_together(trials: Sequence[Trial], epochs: int, folder: Path) -> dict[Trial, Trained | str]:
    """All in one `fit`; where that fails, each in a `fit` beside the companion alone, to see which one it is."""
    together = _attempt(lambda: run_together(trials, epochs, folder / "together"))
    if not isinstance(together, str):
        return dict(zip(trials, together, strict=True))
    if len(trials) == 1:
        return {trials[0]: together}
    found = {
        trial: _attempt(partial(_in_a_pair, trial, index, epochs, folder / f"pair_{index}"))
        for index, trial in enumerate(trials)
    }
    if all(isinstance(each, Trained) for each in found.values()):
        return {trial: f"fails in this company only: {together}" for trial in trials}
    return found


def _in_a_pair(trial: Trial, index: int, epochs: int, folder: Path) -> Trained:
    others = [companion()] * index  # so that it keeps its place
    return run_together([*others, trial], epochs, folder)[-1]


def _attempt(train: Callable[[], Any]) -> Any:
    try:
        return train()
    except Exception as error:  # told in the outcome of its entry
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"


# Comparing ---------------------------------------------------------------------------------------------------------


def _compared(entry: Entry, joint: Trained | str, alone: Trained | str) -> Outcome:
    if isinstance(joint, str) or isinstance(alone, str):
        faults = [f"{how} {what}" for how, what in (("in company:", joint), ("alone:", alone)) if isinstance(what, str)]
        return Outcome(entry, fault="; ".join(faults))
    found = dict(differences(joint, alone))
    if entry.metric is not None:
        keys = [entry.metric, f"val_{entry.metric}"] if entry.trial.validated else [entry.metric]
        found = {f"history {key}": found.get(f"history {key}", np.inf) for key in keys}
    where = max(found, key=lambda name: found[name])
    difference = found[where]
    return Outcome(entry, joint, alone, difference, where if difference else "")


def differences(joint: Trained, alone: Trained) -> Iterator[tuple[str, float]]:
    """Everything that a training changes, with how far apart it is: weights, statistics and seed states, the
    optimizer's state, what callbacks wrote, and the history of every metric."""
    for mine, theirs in (
        (joint.model.variables, alone.model.variables),
        (joint.model.optimizer.variables, alone.model.optimizer.variables),
    ):
        yield "number of variables", 0.0 if len(mine) == len(theirs) else np.inf
        pairs = [(a.path, np.array(a), np.array(b)) for a, b in zip(mine, theirs, strict=False)]
        scale = max((_largest(b) for _, _, b in pairs), default=0.0)
        yield from ((path, gap(a, b, scale)) for path, a, b in pairs)
    yield "files", 0.0 if list(joint.files) == list(alone.files) else np.inf
    for name in set(joint.files) & set(alone.files):
        yield from _file_differences(name, joint.files[name], alone.files[name])
    yield "metrics in the history", 0.0 if set(joint.history) == set(alone.history) else np.inf
    for key in set(joint.history) & set(alone.history):
        a, b = np.array(joint.history[key]), np.array(alone.history[key])
        yield f"history {key}", gap(a, b, _largest(b))


def _file_differences(name: str, got: Mapping[str, Any], want: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield f"names in {name}", 0.0 if list(got) == list(want) else np.inf
    for key in set(got) & set(want):
        yield f"{key} in {name}", gap(got[key], want[key], _largest(want[key]))


def gap(got: np.ndarray, want: np.ndarray, scale: float) -> float:
    """The largest difference relative to a scale; infinite for other shapes, kinds or whole numbers."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if got.tobytes() == want.tobytes():
        return 0.0
    if not np.issubdtype(want.dtype, np.floating):
        return np.inf
    unequal = (got != want) & ~(np.isnan(got) & np.isnan(want))  # infinities are equal to themselves
    apart = np.abs(got[unequal].astype(float) - want[unequal].astype(float))
    if not np.isfinite(apart).all():
        return np.inf
    largest = float(apart.max(initial=0.0))
    return 0.0 if largest == 0 else largest / scale if scale else np.inf


def _largest(values: np.ndarray) -> float:
    if not np.issubdtype(values.dtype, np.floating):
        return 0.0
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


# Pools -------------------------------------------------------------------------------------------------------------


def pools(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in groups whose trials train together."""
    groups: list[list[Entry]] = []
    for entry in entries:
        known = {each.trial for each in groups[-1]} if groups else set()
        if groups and (entry.trial in known or len(known) < POOL_SIZE):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


class Outcomes:
    """The outcomes of some entries; each pool is trained when the first of its entries is asked for."""

    def __init__(self, entries: Sequence[Entry], epochs: int) -> None:
        self.entries = list(entries)
        self.epochs = epochs
        self._pools = [pool for daily in (True, False) for pool in pools([e for e in entries if e.daily is daily])]
        self._found: dict[str, Outcome] = {}

    def __getitem__(self, entry: Entry) -> Outcome:
        if str(entry) not in self._found:
            pool = next(pool for pool in self._pools if entry in pool)
            with tempfile.TemporaryDirectory() as folder:
                self._found.update({str(each.entry): each for each in run(pool, self.epochs, Path(folder))})
        return self._found[str(entry)]

    def pop(self, entry: Entry) -> Outcome:
        """An outcome that is not asked for again: its models can go."""
        outcome = self[entry]
        del self._found[str(entry)]
        return outcome
