"""The state that an optimizer keeps is what Keras' optimizer of that name keeps."""

from __future__ import annotations

import math

import keras
import pytest

from composer.compiler import keras_table
from composer.compiler.ir import Call
from composer.compiler.optimizer_slots import slot_copies

MATRIX = (6, 7)
CASES: list[tuple[str, dict[str, object]]] = [
    *(
        (name, {})
        for name in keras_table.entries("optimizer")
        if name != "LossScaleOptimizer" and hasattr(keras.optimizers, name)  # older Keras has fewer
    ),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.0}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {"use_ema": True}),
    ("Lion", {"gradient_accumulation_steps": 4}),
]


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_copies_are_those_of_the_built_optimizer(name: str, arguments: dict[str, object]) -> None:
    weight = keras.Variable(keras.ops.zeros(MATRIX), name="embedding" if name == "Muon" else "kernel")
    optimizer = getattr(keras.optimizers, name)(**arguments)
    optimizer.build([weight])
    full = sum(tuple(slot.shape) == MATRIX for slot in optimizer.variables)
    told = slot_copies(Call("optimizer", name, tuple(arguments.items())))  # type: ignore[arg-type]
    if name == "Muon":
        assert told == 2
        assert full <= told  # 1 where the weight is a matrix, 2 elsewhere
    else:
        assert told == full
    rest = sum(math.prod(slot.shape) for slot in optimizer.variables) - full * math.prod(MATRIX)
    assert rest <= sum(MATRIX) + 4, "besides whole copies only counters and, in Adafactor, a row and a column"


def test_every_optimizer_is_known() -> None:
    for name in keras_table.entries("optimizer"):
        inner = (("inner_optimizer", Call("optimizer", "Adam")),) if name == "LossScaleOptimizer" else ()
        assert slot_copies(Call("optimizer", name, inner)) is not None
    assert slot_copies(None) is None
    assert slot_copies(Call("optimizer", "Unheard")) is None
