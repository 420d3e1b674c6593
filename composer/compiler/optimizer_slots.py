"""How much state an optimizer keeps, in copies of the weights it trains.

Read from the `build` methods in `keras/src/optimizers` of Keras 3.15; `tests/compiler/test_optimizer_slots.py` holds
the table against optimizers that the installed Keras has built.
"""

from __future__ import annotations

from composer.compiler import ir

_COPIES = {
    "SGD": 0,  # 1 with momentum
    "RMSprop": 1,  # and one each for `momentum` and `centered`
    "Adagrad": 1,
    "Adadelta": 2,
    "Adam": 2,  # 3 with `amsgrad`, AdamW likewise
    "AdamW": 2,
    "Adamax": 2,
    "Nadam": 2,
    "Ftrl": 2,
    "Lion": 1,
    "Lamb": 2,
    "Adafactor": 1,  # besides one row and one column of each matrix, which are left out
    "Muon": 2,  # of embeddings, biases and the like; matrices keep 1, so this is the most it can be
    "ScheduleFreeAdamW": 2,
}


def slot_copies(optimizer: ir.Call | None) -> int | None:
    """State elements for each trainable weight element, or None where the optimizer is not known.

    Example:
        >>> slot_copies(ir.Call("optimizer", "SGD", (("momentum", 0.9),)))
        1
    """
    if optimizer is None:
        return None
    arguments = dict(optimizer.arguments)
    if optimizer.name == "LossScaleOptimizer":
        inner = arguments.get("inner_optimizer")
        return slot_copies(inner) if isinstance(inner, ir.Call) else None
    copies = _COPIES.get(optimizer.name)
    if copies is None:
        return None
    if optimizer.name in ("SGD", "RMSprop"):
        copies += bool(arguments.get("momentum"))
    copies += bool(arguments.get("centered")) + bool(arguments.get("amsgrad")) + bool(arguments.get("use_ema"))
    return copies + bool(arguments.get("gradient_accumulation_steps"))
