"""Checks of a member's rows against its model, before anything runs, in words that name the member."""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

from composer.catalog import TensorSignature
from composer.diagnostics import near_names
from composer.errors import DataError, GraphError
from composer.graph.hints import shown_shape
from composer.runtime.data import MemberData
from composer.runtime.members import Member
from composer.runtime.target_checks import check_targets, is_string, packed_kind


def check_rows(member: Member, data: MemberData, *, targets: bool) -> None:
    """Judge one member's rows.

    Args:
        member: with the signature of its model.
        data: arrays or a dataset.
        targets: whether the rows must hold targets (`fit` and `evaluate` of a model with a loss).

    Raises:
        DataError: if inputs, targets or lengths do not fit; the message says what the model takes and what came.
        GraphError: in a process that was forked from the one that composed the member.

    Warns:
        ComposerWarning: NaN among the targets.
    """
    _check_process(member)
    x, y = (data.x, data.y) if data.dataset is None else _dataset_parts(member, data.dataset)
    _check_inputs(member, x)
    _check_replicas(member, (x, y))
    if targets and y is None and getattr(member.trainer, "loss", None) is not None:
        raise DataError(
            f"`{member.name}` has a loss but no targets",
            code="MG505",
            member=member.name,
            mend="pass its rows as (x, y)",
        )
    if data.dataset is None:
        _check_lengths(member.name, data)
    if targets and y is not None:
        check_targets(member, y)


def _check_process(member: Member) -> None:
    """Refuse to wait for ever: TensorFlow's threads are not there in a process that was forked from theirs."""
    if member.process != os.getpid():
        raise GraphError(
            f"`{member.name}` was composed in process {member.process}, and this is process {os.getpid()}, forked from "
            "it, in which TensorFlow does not run. Start workers with `multiprocessing.get_context('spawn')`, and "
            "compose or load the model in each"
        )


def _check_replicas(member: Member, parts: Any) -> None:
    """What has no array of rows cannot be split over replicas."""
    count = len(member.unit.devices)
    kind = next(filter(None, (packed_kind(leaf) for leaf in keras.tree.flatten(parts))), None)
    if count > 1 and kind is not None:
        raise DataError(
            f"`{member.name}` has {count} replicas, and {kind} rows cannot be split over them",
            code="MG506",
            member=member.name,
            mend=f"pass dense rows, or run it as one replica: `{member.name}` instead of `{member.name} x{count}`",
        )


def _dataset_parts(member: Member, dataset: Any) -> tuple[Any, Any]:
    """The specs of one batch, without its batch axis where the dataset has none."""
    x, y, _ = keras.utils.unpack_x_y_sample_weight(dataset.element_spec)
    first, wanted = keras.tree.flatten(x)[0], member.signature.inputs[0]
    if wanted.shape is not None and first.shape.rank == len(wanted.shape) - 1 and wanted.shape[-1] != 1:
        raise DataError(
            f"the dataset of `{member.name}` yields single rows of shape {tuple(first.shape)}; batches are needed",
            code="MG506",
            member=member.name,
            mend="add `.batch(32)` to it",
        )
    return x, y


def _check_inputs(member: Member, x: Any) -> None:
    wanted = member.signature.inputs
    leaves = _input_leaves(member, x)
    if len(leaves) != len(wanted):
        raise DataError(
            f"`{member.name}` takes {len(wanted)} inputs ({', '.join(tensor.name for tensor in wanted)}). Received: "
            f"{len(leaves)}",
            code="MG506",
            member=member.name,
        )
    for tensor, leaf in zip(wanted, leaves, strict=True):
        _check_input(member.name, tensor, leaf)


def _input_leaves(member: Member, x: Any) -> list[Any]:
    """The arrays in the order of the model's inputs: a dict goes by name."""
    names = [tensor.name for tensor in member.signature.inputs]
    if not isinstance(x, dict) or any(isinstance(item, (dict, list, tuple)) for item in x.values()):
        return keras.tree.flatten(x)
    for key in x:
        if key not in names:
            near = near_names(str(key), names)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            told = f"`{member.name}` has no input `{key}`. {hint}Its inputs are: {', '.join(names)}"
            raise DataError(told, code="MG506", member=member.name)
    return [x[name] for name in names if name in x]


def _check_input(name: str, wanted: TensorSignature, leaf: Any) -> None:
    shape = tuple(leaf.shape)
    strings = is_string(leaf)
    if strings != (wanted.dtype == "string"):
        kind = "strings" if strings else "numbers"
        received = kind
    elif _is_complex(leaf.dtype) and not _is_complex(wanted.dtype):
        received = "complex numbers"
    elif isinstance(leaf, (tf.RaggedTensor, tf.RaggedTensorSpec)) and wanted.shape and None not in wanted.shape[1:]:
        raise DataError(
            f"input `{wanted.name}` of `{name}` takes rows of shape {shown_shape(wanted.shape[1:])}. Received: a "
            "RaggedTensor, whose rows differ in length",
            code="MG506",
            member=name,
            mend="pad them: `.to_tensor()`",
        )
    elif wanted.shape is None or _fits(shape, wanted.shape):
        return
    else:
        raise DataError(
            f"input `{wanted.name}` of `{name}` takes rows of shape {shown_shape(wanted.shape[1:])}. Received: rows of "
            f"shape {shown_shape(shape[1:])} (the whole array is {shown_shape(shape)})",
            code="MG506",
            member=name,
        )
    told = f"input `{wanted.name}` of `{name}` takes {wanted.dtype} values. Received: {received}"
    raise DataError(told, code="MG506", member=name)


def _is_complex(dtype: Any) -> bool:
    return getattr(dtype, "name", str(dtype)).startswith("complex")


def _fits(shape: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether Keras takes rows of one shape for another: equal where both are known, or off by a last axis of 1."""
    if len(shape) == len(wanted) + 1 and shape[-1] == 1:
        shape = shape[:-1]
    elif len(shape) == len(wanted) - 1 and wanted[-1] == 1:
        shape = (*shape, 1)
    if len(shape) != len(wanted):
        return False
    return all(a is None or b is None or a == b for a, b in zip(shape[1:], wanted[1:], strict=True))


def _check_lengths(name: str, data: MemberData) -> None:
    parts = {"x": data.x, "y": data.y, "sample_weight": data.sample_weight}
    lengths = {
        part: sorted({int(leaf.shape[0]) if len(leaf.shape) else -1 for leaf in keras.tree.flatten(value)})
        for part, value in parts.items()
        if value is not None
    }
    if -1 in {length for found in lengths.values() for length in found}:
        told = f"`{name}` has a scalar among its arrays; each needs a first axis of rows"
        raise DataError(told, code="MG506", member=name)
    if len({length for found in lengths.values() for length in found}) > 1:
        told = ", ".join(f"{part} has {' and '.join(map(str, found))}" for part, found in lengths.items())
        raise DataError(f"the arrays of `{name}` differ in their number of rows: {told}", code="MG508", member=name)
