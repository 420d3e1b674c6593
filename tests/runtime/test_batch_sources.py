"""Batches from Python: a `PyDataset`, with or without workers, and generators, asked as Keras' own `fit` asks them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, compiled
from tests.runtime.test_datasets import sgd

pytestmark = [
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),  # Keras' own, of the models alone
    pytest.mark.filterwarnings("ignore:the rows of `.*` ran out in epoch"),
    pytest.mark.filterwarnings("ignore:the rows of `.*` are a generator"),
    pytest.mark.filterwarnings("ignore:.* use of fork:DeprecationWarning"),  # Keras' workers, under a newer Python
]


class Batches(keras.utils.PyDataset):
    """Batches of unlike sizes; it writes down what it is asked."""

    def __init__(self, length: int | None = 5, *, weights: bool = False, grows: bool = False, **workers: Any) -> None:
        super().__init__(**workers)
        self.length, self.weights, self.grows = length, weights, grows
        self.asked: list[int] = []
        self.heard: list[str] = []
        self.at_once = threading.Lock()

    @property
    def num_batches(self) -> int | None:
        return self.length

    def __getitem__(self, index: int) -> Any:
        alone = self.at_once.acquire(blocking=False) or self.workers > 1
        assert alone, "asked for two batches at once"
        self.asked.append(index)
        x, y = rows(3 + index % 2, seed=index)
        if self.workers <= 1:
            self.at_once.release()
        return (x, y, np.abs(x[:, 0])) if self.weights else (x, y)

    def on_epoch_begin(self) -> None:
        self.heard.append("begin")

    def on_epoch_end(self) -> None:
        self.heard.append("end")
        if self.grows and self.length is not None:
            self.length += 1


def counting(number: int, *, none: bool = False) -> Iterator[Any]:
    for seed in range(number):
        x, y = rows(2 + seed % 3, seed=seed)
        yield (x, y, None) if none else (x, y)


def structured() -> Iterator[Any]:
    for seed in range(6):
        x, y = rows(4, seed=seed)
        yield {"x": x.astype("float64")}, y, np.ones(4)


def named() -> keras.Model:
    x = keras.Input((3,), name="x")
    return keras.Model({"x": x}, keras.layers.Dense(1)(x))


KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (net, Batches, {"epochs": 3}),
    "weighted": (net, lambda: Batches(4, weights=True), {"epochs": 2}),
    "by class": (
        lambda: net(3, 1),
        lambda: Classes(workers=1),
        {"epochs": 2, "class_weight": {0: 1.0, 1: 4.0, 2: 0.5}},
    ),
    "threads": (net, lambda: Batches(4, workers=3, max_queue_size=2), {"epochs": 2}),
    "processes": (net, lambda: Batches(3, workers=2, use_multiprocessing=True), {"epochs": 1}),
    "growing": (net, lambda: Batches(2, grows=True), {"epochs": 3}),
    "endless": (net, lambda: Batches(None), {"epochs": 3, "steps_per_epoch": 3}),
    "some of it": (net, lambda: Batches(5), {"epochs": 4, "steps_per_epoch": 2}),
    "one pass": (net, lambda: counting(7), {"epochs": 1}),
    "in epochs": (net, lambda: counting(12, none=True), {"epochs": 3, "steps_per_epoch": 4}),
    "used up": (net, lambda: counting(5), {"epochs": 3}),
    "runs out": (net, lambda: counting(5), {"epochs": 3, "steps_per_epoch": 3}),
    "structured": (named, structured, {"epochs": 1}),
}


class Classes(keras.utils.PyDataset):
    num_batches = 3

    def __getitem__(self, index: int) -> Any:
        return rows(6, seed=index)[0], np.arange(6) % 3


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    sources: dict[str, list[Any]] = {}

    def kept(name: str, make: Any) -> Any:
        def source() -> Any:
            sources.setdefault(name, []).append(make())
            return sources[name][-1]

        return source

    members = {
        name.replace(" ", "_"): Alone(model(), kept(name, make), sgd, fit, validation=VALIDATION.get(name))
        for name, (model, make, fit) in KINDS.items()
    }
    fleet = Fleet(members)
    fleet.sources = sources  # type: ignore[attr-defined]
    return fleet


VALIDATION: dict[str, Any] = {
    "plain": lambda: Batches(2, grows=True),
    "one pass": lambda: Batches(3),
    "in epochs": lambda: rows(5),
}


@pytest.mark.parametrize("name", KINDS)
def test_batches_from_python_train_as_alone(fleet: Fleet, name: str) -> None:
    told = name in ("one pass", "used up", "runs out", "structured")  # the end is found by a step that fails
    fleet.assert_same(name.replace(" ", "_"), counters=not told)


@pytest.mark.parametrize("name", ["plain", "weighted", "threads", "some of it"])
def test_a_pydataset_is_asked_as_keras_asks_it(fleet: Fleet, name: str) -> None:
    """For the same batches in the same order, and told of as many epochs."""
    fleet.alone(name.replace(" ", "_"))
    joint, alone = fleet.sources[name]  # type: ignore[attr-defined]
    assert joint.heard == alone.heard
    assert joint.heard.count("begin") == KINDS[name][2]["epochs"]
    asked = [sorted(each.asked) if name == "threads" else each.asked for each in (joint, alone)]
    read = min(map(len, asked)) if name == "some of it" else None  # how far ahead it was read at the end is chance
    assert asked[0][:read] == asked[1][:read]


def test_workers_end_with_their_member(fleet: Fleet) -> None:
    fleet.alone("threads")
    running = [thread.name for thread in threading.enumerate() if thread.name.startswith("Worker_")]
    assert running == []


@pytest.mark.parametrize("workers", [1, 3])
def test_shuffled_batches_depend_on_nothing_but_seed_and_epoch(workers: int) -> None:
    """Keras draws them from Python's global random state; here other members and other draws change nothing."""
    orders = []
    for others in (0, 2):
        names = ["a", *"bc"[:others]]
        joint = composer.compile(
            f"parallel({', '.join(names)})", models={name: compiled(net(), "sgd", "mse") for name in names}
        )
        source = Batches(6, workers=workers)
        data: dict[str, Any] = {"a": source, **{name: Batches(4) for name in names[1:]}}
        joint.fit(data, epochs=2, verbose=0)
        orders.append(source.asked[2:])
    if workers == 1:
        first, second = orders[0][:6], orders[0][6:]
        assert sorted(first) == sorted(second) == list(range(6))
        assert first != second
        assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted([*range(6)] * 2)


def test_passes_of_some_epochs_keep_one_order_each() -> None:
    source = Batches(6)
    joint = composer.compile("parallel(a)", a=compiled(net(), "sgd", "mse"))
    joint.fit({"a": source}, epochs=4, steps_per_epoch=3, verbose=0)
    passes = [source.asked[2:8], source.asked[8:14]]
    assert [sorted(each) for each in passes] == [list(range(6))] * 2
    assert passes[0] != passes[1]


def test_evaluate_and_predict_take_them_too() -> None:
    models = {name: compiled(net(), "sgd", "mse") for name in ("a", "b", "c")}
    joint = composer.compile("parallel(a, b, c)", models=models)

    def data() -> dict[str, Any]:
        return {"a": Batches(4), "b": counting(5), "c": Batches(None, workers=2)}

    evaluated, predicted = (
        joint.evaluate(data(), steps={"c": 3}, verbose=0),
        joint.predict(data(), steps={"c": 3}, verbose=0),
    )
    for name, model in models.items():
        steps = 3 if name == "c" else None
        np.testing.assert_array_equal(predicted[name], model.predict(data()[name], steps=steps, verbose=0))
        assert evaluated[name]["loss"] == pytest.approx(model.evaluate(data()[name], steps=steps, verbose=0), rel=1e-6)


def test_a_generator_is_read_no_further_ahead_than_keras_reads_it() -> None:
    """Rows larger than memory stream: what is read and not yet trained on is bounded, whatever there is."""
    read = {"joint": 0, "alone": 0}
    ahead: dict[str, list[int]] = {"joint": [], "alone": []}

    def batches(name: str) -> Iterator[Any]:
        for seed in range(300):
            read[name] += 1
            yield rows(4, seed=seed)

    def watch(name: str) -> keras.callbacks.Callback:
        return keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: ahead[name].append(read[name] - batch - 1)
        )

    joint = composer.compile("parallel(a, b)", models={name: compiled(net(), "sgd", "mse") for name in "ab"})
    joint.fit({"a": batches("joint"), "b": rows(8)}, callbacks={"a": [watch("joint")]}, verbose=0)
    alone = compiled(net(), "sgd", "mse")
    alone.fit(batches("alone"), shuffle=False, callbacks=[watch("alone")], verbose=0)
    assert len(ahead["joint"]) == 300
    assert max(ahead["joint"]) <= max(16, max(ahead["alone"]) + 8)


# Faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iter([rows(4)]), r"`a` are a list_iterator, which Keras' `fit` does not take.*a generator"),
        (lambda: (batch for batch in ()), r"`a` could not be read: .*must yield at least one batch"),
        (lambda: ({"x": rows(4)[0]} for _ in range(3)), r"`a` could not be read: .*must return a tuple"),
        (lambda: Batches(0), r"`a` has no rows: its PyDataset has no batches"),
        (lambda: Batches(None), r"the rows of `a` never end.*`steps_per_epoch=n`"),
        (lambda: (rows(4, 5) for _ in range(3)), r"`a` takes rows of shape \(3,\). Received: rows of shape \(5,\)"),
        (lambda: ((rows(4)[0],) for _ in range(3)), r"`a` has a loss but no targets"),
    ],
)
def test_batches_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    joint = composer.compile("parallel(a)", a=compiled(net(), "sgd", "mse"))
    with pytest.raises(composer.DataError, match=message):
        joint.fit({"a": make()}, verbose=0)


def test_a_generator_for_several_epochs_is_told() -> None:
    joint = composer.compile("parallel(a)", a=compiled(net(), "sgd", "mse"))
    with pytest.warns(composer.ComposerWarning, match=r"`a` are a generator.*for 3 epochs: from the second on"):
        joint.fit({"a": counting(3)}, epochs=3, verbose=0)
