"""`tf.vectorized_map` with fast rules for what it would loop over.

TensorFlow's vectorising transform ("pfor", `tensorflow/python/ops/parallel_for/pfor.py`) batches a function operation
by operation, by rules in a table. It has none for convolutions of which every member has its own filter, and loops over
the members. The rules here run those operations side by side, and note which are looped over. They are in the table
only while `vectorized` traces.

The private names of TensorFlow are used in this module alone; `tests/engine/test_pfor.py` tells when one moves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor as private

_LOCK = threading.RLock()
SIDE_BY_SIDE = (
    "Conv2D",
    "Conv2DBackpropInput",
    "Conv2DBackpropFilter",
    "Conv3D",
    "Conv3DBackpropInputV2",
    "Conv3DBackpropFilterV2",
    "StatelessRandomGetKeyCounter",
    "StatelessRandomUniformV2",
    "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullIntV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomGammaV3",
)
"""Operations without a batched form that is right everywhere: gradients of grouped convolutions are missing on CPUs
without oneDNN; each member draws random numbers from its own stream."""
MOST_SIDE_BY_SIDE = 64
"""Members; more are looped over."""


class _Rules(dict[str, Callable[..., Any]]):
    """The table, noting what is looked up in vain."""

    def __init__(self, rules: Any) -> None:
        super().__init__(rules)
        self.missing: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        rule = super().get(name)
        if rule is None:
            self.missing.add(name)
        return default if rule is None else rule


@contextmanager
def _fast_rules(looped: set[str]) -> Iterator[None]:
    with _LOCK:
        before = private._pfor_converter_registry
        rules = _Rules({**before, **_RULES})
        private._pfor_converter_registry = rules
        logger = tf.get_logger()
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # what cannot be batched is the caller's to tell
        try:
            yield
        finally:
            logger.setLevel(level)
            private._pfor_converter_registry = before
            looped |= rules.missing


def vectorized(function: Callable[..., Any], arguments: Any, looped: set[str]) -> Any:
    """Map a function over the first axis of all tensors in its arguments, as one batched computation.

    Args:
        function: takes what `arguments` is a structure of, without the first axis.
        arguments: tensors in any structure.
        looped: the names of operations are added to it that are run member by member.
    """
    with _fast_rules(looped):
        return tf.vectorized_map(function, arguments, fallback_to_while_loop=True, warn=False)


def _member_by_member(rule_input: Any) -> Any:
    """Run an operation once a member, side by side rather than in a loop: TensorFlow runs them at the same time."""
    members = tf.get_static_value(rule_input.pfor.loop_len_vector[0])
    if members is None or members > MOST_SIDE_BY_SIDE:
        return private._fallback_converter(rule_input)
    parts = [tf.unstack(x, int(members)) if stacked else [x] * int(members) for x, stacked, _ in rule_input.inputs]
    dtypes = [output.dtype for output in rule_input.outputs]
    attributes = rule_input.op.node_def.attr
    runs = [
        private._create_op(rule_input.op_type, list(part), dtypes, attributes).outputs
        for part in zip(*parts, strict=True)
    ]
    return [private.wrap(tf.stack(outputs), True) for outputs in zip(*runs, strict=True)]


def _refuse(rule_input: Any) -> Any:
    """An operation whose result has another shape for each member."""
    raise NotImplementedError(f"the shape of what `{rule_input.op_type}` gives depends on the numbers in it")


_RULES: dict[str, Callable[..., Any]] = {**dict.fromkeys(SIDE_BY_SIDE, _member_by_member), "Where": _refuse}
