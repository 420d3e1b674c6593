"""Whether arrays are rows of a model: dtypes, lengths and the shape of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from composer.catalog import ModelSignature, TensorSignature
from composer.graph.hints import listed, shown_shape

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = "Array | dict[str, Array]"

TEXT_KINDS = "USOT"  # kinds of NumPy types that hold strings


class RowFault(Exception):  # noqa: N818 - never leaves `runtime`: `load_rows` adds the member's name
    """Why a source gives no rows for a member, in words that name the file and the column.

    Args:
        code: of family MG5.
        message: what is wrong.
        mend: what to do, as a diagnostic's help has it; empty where the message says all.
    """

    def __init__(self, code: str, message: str, *, mend: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.mend = mend


def as_array(label: str, value: Any) -> Array:
    """A value as an array of numbers, truth values or strings.

    Raises:
        RowFault: it is ragged or holds Python objects.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise RowFault("MG506", f"{label} is no array: {' '.join(str(error).split())}") from error
    if array.dtype != object:
        return array
    flat = array.ravel().tolist()
    if all(isinstance(item, str | bytes) for item in flat):
        return array.astype(str) if all(isinstance(item, str) for item in flat) else array.astype(bytes)
    odd = next(item for item in flat if not isinstance(item, str | bytes))
    raise RowFault(
        "MG506",
        f"{label} holds Python objects (a {type(odd).__qualname__} among them)",
        mend="expected numbers or strings in an array whose rows have one shape",
    )


def named_inputs(label: str, value: Any, names: Sequence[str]) -> Arrays:
    """What a factory returned as x or y: one array, or a dict of arrays by input or output name.

    A tuple or list with one entry for each of several names is taken in their order, as Keras does.

    Raises:
        RowFault: a tuple or list is for a model with one input, or of another length, or a part is no array.
    """
    if isinstance(value, Mapping):
        return {str(name): as_array(f"{label} (`{name}`)", part) for name, part in value.items()}
    several = isinstance(value, tuple) or (isinstance(value, list) and len(names) > 1)
    if several and len(value) == len(names) > 1:
        return {name: as_array(f"{label} (`{name}`)", part) for name, part in zip(names, value, strict=True)}
    if several:
        known = f"{len(names)} ({listed(names)})" if names else "an unknown number"
        raise RowFault(
            "MG506",
            f"{label} is a {type(value).__name__} of {len(value)}, and the model has {known} of them",
            mend="expected one array, or a dict of arrays by name",
        )
    return as_array(label, value)


def check_rows(label: str, x: Arrays, y: Arrays | None, weight: Array | None, signature: ModelSignature | None) -> None:
    """Checks what can be known before a model sees the rows.

    Args:
        label: the file or factory, for messages.
        x, y, weight: the arrays.
        signature: of the model; None checks the lengths alone.

    Raises:
        RowFault: there are no rows, lengths differ, a name is missing, the targets are strings, or a row of x has not
            the shape the model takes.
    """
    parts = {**_parts("x", x), **_parts("y", y), **_parts("sample_weight", weight)}
    for name, array in parts.items():
        if array.ndim == 0:
            raise RowFault(
                "MG506",
                f"`{name}` of {label} is a single value",
                mend="expected an array with the rows on its first axis",
            )
    lengths = {name: len(array) for name, array in parts.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
        raise RowFault(
            "MG508", f"the arrays of {label} differ in their number of rows: {listed}", mend="expected as many in each"
        )
    if 0 in lengths.values():
        raise RowFault("MG509", f"{label} has no rows")
    for name, array in _parts("y", y).items():
        if array.dtype.kind in TEXT_KINDS:
            raise RowFault(
                "MG507",
                f"`{name}` of {label} holds strings such as {str(array.ravel()[0])!r}",
                mend="expected numbers: give the index of each class, or a table, whose strings become indices",
            )
    if signature is not None:
        _check_inputs(label, x, signature.inputs)


def _parts(kind: str, arrays: Arrays | None) -> dict[str, Array]:
    if arrays is None:
        return {}
    return {f"{kind}_{name}": array for name, array in arrays.items()} if isinstance(arrays, dict) else {kind: arrays}


def _check_inputs(label: str, x: Arrays, inputs: tuple[TensorSignature, ...]) -> None:
    if isinstance(x, dict):
        missing = [tensor.name for tensor in inputs if tensor.name not in x]
        unknown = [name for name in x if name not in {tensor.name for tensor in inputs}]
        if missing or unknown:
            raise RowFault(
                "MG506",
                f"the inputs of {label} are {listed(x)}, those of the model {listed(t.name for t in inputs)}",
                mend="expected the same names",
            )
        pairs = [(f"x_{tensor.name}", x[tensor.name], tensor) for tensor in inputs]
    elif len(inputs) > 1:
        raise RowFault(
            "MG506",
            f"{label} has one array for a model with the inputs {listed(t.name for t in inputs)}",
            mend="expected one for each",
        )
    else:
        pairs = [("x", x, tensor) for tensor in inputs]
    for name, array, tensor in pairs:
        if tensor.shape is not None and not _fits(array.shape[1:], tensor.shape[1:]):
            raise RowFault(
                "MG506",
                f"a row of `{name}` of {label} has the shape {shown_shape(array.shape[1:])}, and the model takes "
                f"{shown_shape(tensor.shape[1:])}",
            )
        _check_kind(label, name, array, tensor)


def _fits(row: tuple[int, ...], taken: tuple[int | None, ...]) -> bool:
    """Whether Keras accepts the row: it adds or drops a last axis of length 1 by itself."""
    if len(row) == len(taken):
        return all(want is None or got == want for got, want in zip(row, taken, strict=True))
    if len(row) == len(taken) - 1 and taken[-1] == 1:
        return _fits(row, taken[:-1])
    return len(row) == len(taken) + 1 and row[-1] == 1 and _fits(row[:-1], taken)


def _check_kind(label: str, name: str, array: Array, tensor: TensorSignature) -> None:
    text = array.dtype.kind in TEXT_KINDS
    if text != (tensor.dtype == "string"):
        raise RowFault(
            "MG506",
            f"`{name}` of {label} holds {'strings' if text else 'numbers'}, and the model's input `{tensor.name}` "
            f"takes {tensor.dtype}",
        )
