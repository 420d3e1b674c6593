"""Checks of a member's targets against its outputs and its loss, before anything runs."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.diagnostics import near_names
from composer.errors import ComposerWarning, DataError
from composer.graph.views import overrides
from composer.runtime.members import Member


def check_targets(member: Member, y: Any) -> None:
    """Judge one member's targets.

    Args:
        member: compiled, or not.
        y: arrays, or the specs of one batch of a dataset; a structure of them.

    Raises:
        DataError: if they do not fit its outputs; the message says what the loss takes and what came.

    Warns:
        ComposerWarning: NaN among the targets, or columns that Keras would repeat.
    """
    loss = getattr(member.trainer, "loss", None)
    if loss is None or any(overrides(member.model, step) for step in ("train_step", "compute_loss")):
        return  # what the user's own step takes is its own business
    _check_structure(member, y, loss)
    leaves, outputs = keras.tree.flatten(y), member.signature.outputs
    for leaf in leaves:
        if packed_kind(leaf) is not None:
            sparse = packed_kind(leaf) == "sparse"
            kind, way = ("SparseTensor", "tf.sparse.to_dense(y)") if sparse else ("RaggedTensor", "y.to_tensor()")
            raise DataError(
                f"the targets of `{member.name}` are a {kind}; its loss takes dense ones",
                code="MG507",
                member=member.name,
                mend=f"convert them: `{way}`",
            )
        if is_string(leaf):
            raise DataError(
                f"the targets of `{member.name}` are strings; its loss takes numbers",
                code="MG507",
                member=member.name,
                mend="encode them as numbers",
            )
    if len(outputs) == 1 and outputs[0].shape is not None:
        _check_columns(member.name, leaves[0], outputs[0].shape, loss)
    for leaf in leaves:
        _warn_of_nan(member.name, leaf)


def packed_kind(leaf: Any) -> str | None:
    """`sparse` or `ragged`, of a tensor or a spec that is; None of a dense one."""
    if isinstance(leaf, (tf.SparseTensor, tf.SparseTensorSpec)):
        return "sparse"
    return "ragged" if isinstance(leaf, (tf.RaggedTensor, tf.RaggedTensorSpec)) else None


def is_string(leaf: Any) -> bool:
    dtype = leaf.dtype
    name = getattr(dtype, "name", str(dtype))
    return name in ("string", "object") or getattr(dtype, "kind", "") in ("U", "S")


def _check_structure(member: Member, y: Any, loss: Any) -> None:
    """As many targets as outputs, or, by name, one for each output that has a loss."""
    wanted = [tensor.name for tensor in member.signature.outputs]
    if isinstance(y, dict) and isinstance(loss, dict):
        _check_names(member.name, y, loss, wanted)
    elif len(keras.tree.flatten(y)) != len(wanted):
        raise DataError(
            f"`{member.name}` has {len(wanted)} outputs ({', '.join(wanted)}) and takes as many targets, by name or in "
            f"this order. Received: {len(keras.tree.flatten(y))}",
            code="MG507",
            member=member.name,
        )


def _check_names(name: str, y: dict[str, Any], loss: dict[str, Any], outputs: list[str]) -> None:
    """An output without a loss needs no target, and may have one."""
    for key in y:
        if key not in loss and key not in outputs:
            near = near_names(key, loss)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            told = f"the targets of `{name}` name `{key}`, which has no loss. {hint}Losses: {', '.join(loss)}"
            raise DataError(told, code="MG507", member=name)
    missing = [key for key, value in loss.items() if value is not None and key not in y]
    if missing:
        told = f"the targets of `{name}` lack {', '.join(f'`{key}`' for key in missing)}"
        raise DataError(told, code="MG507", member=name)


def _check_columns(name: str, leaf: Any, output: tuple[int | None, ...], loss: Any) -> None:
    """Targets shaped like the outputs, or class labels, whichever the loss takes; other losses may take anything."""
    shape = tuple(leaf.shape)
    kind = _loss_name(loss)
    if not kind or not shape or not output or None in (output[-1], shape[-1]):
        return
    if "sparse" in kind:
        if len(shape) == len(output) and shape[-1] != 1:
            raise DataError(
                f"the loss of `{name}` takes class labels, one number a row, but its targets have {shape[-1]} columns",
                code="MG507",
                member=name,
                mend="`categorical_crossentropy` takes one column a class",
            )
        _check_labels(name, leaf, output[-1], loss)
    elif len(shape) == len(output) and shape[-1] != output[-1] and 1 not in (shape[-1], output[-1]):
        told = f"`{name}` predicts {output[-1]} columns, but its targets have {shape[-1]}"
        raise DataError(told, code="MG507", member=name)
    elif len(shape) == len(output) and shape[-1] != output[-1]:
        warnings.warn(
            f"`{name}` predicts {output[-1]} columns, and its targets have {shape[-1]}: each is compared with each. "
            "Expected as many columns in both",
            ComposerWarning,
            stacklevel=2,
        )


def _check_labels(name: str, leaf: Any, num_classes: int | None, loss: Any) -> None:
    if isinstance(leaf, tf.TypeSpec) or num_classes is None:
        return  # the rows of a dataset are not looked at beforehand
    labels = np.unique(np.asarray(leaf))
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise DataError(
            f"the targets of `{name}` hold NaN, and its loss takes class labels",
            code="MG507",
            member=name,
            mend="leave those rows out, or give the labels that are missing",
        )
    ignored = getattr(loss, "ignore_class", None)
    outside = labels[((labels < 0) | (labels >= num_classes)) & (labels != ignored)]
    if outside.size:
        raise DataError(
            f"the targets of `{name}` hold the class {outside[0]:g}, but it predicts {num_classes} classes: "
            f"0 to {num_classes - 1}",
            code="MG507",
            member=name,
        )


def _loss_name(loss: Any) -> str:
    """The name of a loss of Keras' own, in lower case; empty of any other, which may take what it likes."""
    if isinstance(loss, str):
        return loss.lower()
    return str(getattr(loss, "name", "")).lower() if type(loss).__module__.startswith("keras.") else ""


def _warn_of_nan(name: str, leaf: Any) -> None:
    if isinstance(leaf, tf.TypeSpec):
        return
    array = np.asarray(leaf)
    if np.issubdtype(array.dtype, np.floating) and np.isnan(array).any():
        warnings.warn(
            f"the targets of `{name}` hold {int(np.isnan(array).sum())} NaN: its loss and its weights will turn to NaN "
            "(other members are not touched). Leave those rows out, or give the values that are missing",
            ComposerWarning,
            stacklevel=2,
        )
