"""Predictions of many steps: taken step by step, and joined by member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.feed import Feed
from composer.engine.programs import JointProgram
from composer.errors import DataError
from composer.graph.signatures import output_structure
from composer.runtime.members import Member
from composer.runtime.passes import Pass

StepOutputs = dict[str, Any]  # by member that ran, in the member's own structure


def as_numpy(value: Any) -> Any:
    """A tensor as an array; a ragged one stays as it is, as in Keras."""
    return value if isinstance(value, tf.RaggedTensor) else np.asarray(value)


def join_steps(member: Member, steps: Sequence[StepOutputs]) -> Any:
    """One member's outputs of all steps, in row order.

    Raises:
        DataError: if an axis other than the first differs from batch to batch; it names the member, the output and
            the axis.
    """
    outputs = [step[member.name] for step in steps if member.name in step]
    if not outputs:
        return no_rows(member.model)
    return keras.tree.map_structure(lambda *leaves: _concatenate(member.name, leaves), *outputs)


def no_rows(model: keras.Model) -> Any:
    """What a model predicts for no rows: arrays of its outputs' dtypes and inner shapes. No layer runs."""

    def empty(leaf: Any) -> np.ndarray:
        dtype = keras.backend.standardize_dtype(leaf.dtype)
        return np.zeros((0, *(size or 0 for size in leaf.shape[1:])), object if dtype == "string" else dtype)

    return keras.tree.map_structure(empty, output_structure(model))


def _concatenate(name: str, leaves: Sequence[Any]) -> Any:
    if isinstance(leaves[0], tf.RaggedTensor):
        return tf.concat(leaves, axis=0)
    shapes = {leaf.shape[1:] for leaf in leaves}
    if len(shapes) > 1:
        axis = next(i for i, sizes in enumerate(zip(*shapes, strict=True), start=1) if len(set(sizes)) > 1)
        sizes = ", ".join(str(size) for size in sorted({leaf.shape[axis] for leaf in leaves}))
        raise DataError(
            f"the predictions of `{name}` differ along axis {axis} from batch to batch (sizes {sizes}), so they "
            f"cannot be joined "
            "in one array. Pad its rows to one length, or predict them in one batch"
        )
    return np.concatenate(leaves, axis=0)


def prediction_step(program: JointProgram, feed: Feed, taken: list[dict[str, Any]]) -> Callable[[list[Any]], tf.Tensor]:
    """A predict function for Keras' loop that puts each step's outputs into `taken`, as arrays by member that had a
    batch.

    The loop itself gets a placeholder a step: its own way of joining steps wants the same members in each.
    """
    whole = Pass(program, feed, watched=True)
    whole.begin_all()

    def step(_: list[Any]) -> tf.Tensor:
        whole.logs.clear()
        try:
            names = whole.step()
        except StopIteration:
            if taken:  # Keras' loop wants one step at least
                raise
            names = ()
        whole.advance()
        taken.append({name: keras.tree.map_structure(as_numpy, whole.logs[name]) for name in names})
        return tf.zeros((1,))

    return step
