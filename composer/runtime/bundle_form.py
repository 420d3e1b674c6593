"""In which form members of one architecture are cheapest: a program compiled by XLA, a plain one, or none.

The figures come from timing nets of many kinds on two CPU cores, eight members each, against the same members joined:
XLA won wherever it has fast forms of all operations, up to twice as fast; a plain program only where a step is short
beside the launch of its operations. Where it has much arithmetic, members one after another use the caches better.
"""

from __future__ import annotations

from dataclasses import dataclass

import keras

from composer.engine.bundle_program import Purpose
from composer.engine.feed import ArrayRows
from composer.engine.units import Unit
from composer.graph.private import flatten_layers, random_states
from composer.graph.signatures import signature_of

MOST_UNROLLED = 32
"""Steps of a sequence: XLA takes about 0.2 s to compile each."""
MOST_CONVOLVED = 200e6
"""FLOPs of the forward pass of a batch, of nets with convolutions that XLA compiles."""
MOST_PLAIN = 4e6
"""FLOPs of the forward pass of a batch, and of a sequence those of one of its steps, of what XLA does not compile."""

_FAST_CONVOLUTIONS = ("Conv1D", "Conv2D")
_POOLS = ("MaxPooling1D", "MaxPooling2D")


@dataclass(frozen=True)
class Form:
    """The form of a bundle.

    Args:
        jit: whether XLA compiles it.
        reason: why its members had better be joined; None where they had not.
    """

    jit: bool
    reason: str | None = None


def cheapest_form(unit: Unit, rows: ArrayRows, jit: str, purpose: Purpose) -> Form:
    """The form in which members like one are cheapest.

    Where layers draw random numbers, a bundle is compiled only if its members would be: XLA draws others.

    Args:
        unit: one for all.
        rows: its.
        jit: the spec's `jit=`, which overrules.
        purpose: what the steps do.
    """
    model = unit.model
    on_cpu = "CPU" in unit.home.upper()
    if jit != "auto":
        compiled = jit == "on"
    elif purpose == "train" and random_states(model):
        compiled = bool(model.jit_compile)
    else:
        compiled = _suits_xla(model, rows, on_cpu=on_cpu)
    return Form(compiled, _reason(model, rows, jit=compiled) if on_cpu else None)


def _suits_xla(model: keras.Model, rows: ArrayRows, *, on_cpu: bool) -> bool:
    layers = flatten_layers(model)
    if not all(layer.supports_jit for layer in layers):
        return False
    recurrent = any(isinstance(layer, keras.layers.RNN) for layer in layers)
    if recurrent and _num_steps(rows) > MOST_UNROLLED:
        return False
    return not on_cpu or not any(_slow_on_cpu(layer) for layer in layers)


def _slow_on_cpu(layer: keras.layers.Layer) -> bool:
    """Whether XLA has no fast form of a layer for CPUs, within a loop."""
    kind = type(layer).__name__
    if "Conv" in kind:
        return kind not in _FAST_CONVOLUTIONS or layer.groups > 1
    if kind.startswith("MaxPooling"):
        apart = tuple(layer.strides) == tuple(layer.pool_size)
        return kind not in _POOLS or not apart or layer.padding != "valid"
    return False


def _reason(model: keras.Model, rows: ArrayRows, *, jit: bool) -> str | None:
    flops = signature_of(model).flops_per_row
    if flops is None:
        return None
    flops *= min(rows.batch_size, rows.num_rows)
    layers = flatten_layers(model)
    if jit:
        most = MOST_CONVOLVED if any("Conv" in type(layer).__name__ for layer in layers) else float("inf")
    else:
        most = MOST_PLAIN * (_num_steps(rows) if any(isinstance(layer, keras.layers.RNN) for layer in layers) else 1)
    if flops <= most:
        return None
    return (
        f"with {flops / 1e6:.3g} MFLOPs a batch they make better use of a CPU one after another (`fuse=on` overrules)"
    )


def _num_steps(rows: ArrayRows) -> int:
    inputs = keras.tree.flatten(rows.arrays[0])
    return max((leaf.shape[1] for leaf in inputs if len(leaf.shape) > 1), default=1)
