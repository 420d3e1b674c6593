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

from composer.engine.columns import Axis, convolution, filter_gradient, image_gradient

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
MOST_COMPARED = 16
"""Numbers in a window of a pool."""


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
def _fast_rules(looped: set[str], *, columns: bool) -> Iterator[None]:
    with _LOCK:
        before = private._pfor_converter_registry
        rules = _Rules({**before, **_RULES, **(_COLUMNS if columns else {})})
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


def vectorized(function: Callable[..., Any], arguments: Any, looped: set[str], *, columns: bool = False) -> Any:
    """Map a function over the first axis of all tensors in its arguments, as one batched computation.

    Args:
        function: takes what `arguments` is a structure of, without the first axis.
        arguments: tensors in any structure.
        looped: the names of operations are added to it that are run member by member.
        columns: whether convolutions become matrix products.
    """
    with _fast_rules(looped, columns=columns):
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


_POOL_GRADIENT = private._pfor_converter_registry["MaxPoolGrad"]


def _max_pool_gradient(rule_input: Any) -> Any:
    """The gradient of a pool whose windows do not overlap, by comparing: XLA's own form for CPUs scatters it window by
    window, which takes longer than the convolutions. As in TensorFlow the first of equal numbers gets it all.
    """
    size, strides = rule_input.get_attr("ksize"), rule_input.get_attr("strides")
    padding, layout = (rule_input.get_attr(name) for name in ("padding", "data_format"))
    apart = list(size) == list(strides) and size[1] * size[2] <= MOST_COMPARED
    (image, _, _), (pooled, _, _), (gradient, _, _) = rule_input.inputs
    if not all(stacked for _, stacked, _ in rule_input.inputs) or not apart or (padding, layout) != (b"VALID", b"NHWC"):
        return _POOL_GRADIENT(rule_input)
    members, images, height, width, channels = image.shape
    rows, columns = pooled.shape[2:4]
    whole = image[:, :, : rows * size[1], : columns * size[2]]
    windows = tf.reshape(whole, [members * images * rows, size[1], columns, size[2], channels])
    largest = tf.reshape(pooled, [members * images * rows, 1, columns, 1, channels])
    chosen = _first(tf.cast(tf.logical_not(windows < largest), gradient.dtype))
    spread = tf.reshape(chosen * tf.reshape(gradient, largest.shape), whole.shape)
    rest = [[0, 0], [0, 0], [0, height - whole.shape[2]], [0, width - whole.shape[3]], [0, 0]]
    return private.wrap(tf.pad(spread, rest), True)


def _first(hits: tf.Tensor) -> tf.Tensor:
    """(n, rows, m, columns, channels) of 0 and 1: of each window, rows times columns, only the first 1 is left."""
    taken: Any = 0
    kept = []
    for row in tf.unstack(hits, axis=1):
        kept_row = []
        for hit in tf.unstack(row, axis=2):
            kept_row.append(hit * (1 - taken))
            taken += kept_row[-1]
        kept.append(tf.stack(kept_row, axis=2))
    return tf.stack(kept, axis=1)


def _by_columns(
    compute: Callable[..., tf.Tensor], image: Callable[[Any], Any], weights: Callable[[Any], Any], operands: slice
) -> Callable[..., Any]:
    """A rule for a convolution, or a gradient of one.

    Args:
        compute: takes the operands and the image's two axes along which the filter goes.
        image, weights: find the tensors of one member that have the shapes of the image and the filter.
        operands: which inputs are no shapes.
    """

    def rule(rule_input: Any) -> Any:
        op, given = rule_input.op, rule_input.inputs[operands]
        shapes = (image(op).shape, weights(op).shape)
        if not all(shape.is_fully_defined() for shape in shapes) or not all(stacked for _, stacked, _ in given):
            return _member_by_member(rule_input)
        if rule_input.get_attr("data_format") != b"NHWC" or shapes[0][3] != shapes[1][2]:
            return _member_by_member(rule_input)
        return private.wrap(compute(*(tensor for tensor, _, _ in given), *_axes(rule_input, *shapes)), True)

    return rule


def _axes(rule_input: Any, image: Any, weights: Any) -> list[Axis]:
    strides, dilations = rule_input.get_attr("strides"), rule_input.get_attr("dilations")
    padding: Any = rule_input.get_attr("padding").decode()
    explicit = rule_input.get_attr("explicit_paddings") if padding == "EXPLICIT" else None
    return [
        Axis.of(
            image[at],
            weights[at - 1],
            strides[at],
            dilations[at],
            padding if explicit is None else explicit[2 * at : 2 * at + 2],
        )
        for at in (1, 2)
    ]


_COLUMNS = {
    "Conv2D": _by_columns(convolution, lambda op: op.inputs[0], lambda op: op.inputs[1], slice(2)),
    "Conv2DBackpropFilter": _by_columns(
        filter_gradient, lambda op: op.inputs[0], lambda op: op.outputs[0], slice(0, 3, 2)
    ),
    "Conv2DBackpropInput": _by_columns(image_gradient, lambda op: op.outputs[0], lambda op: op.inputs[1], slice(1, 3)),
}
_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(SIDE_BY_SIDE, _member_by_member),
    "MaxPoolGrad": _max_pool_gradient,
    "Where": _refuse,
}
