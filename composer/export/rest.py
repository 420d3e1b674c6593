"""Request bodies for TensorFlow Serving's REST interface, made from a manifest alone."""

from __future__ import annotations

from typing import Any

from composer.export.manifest import SignatureEntry, TensorEntry

_VALUES: dict[str, Any] = {"bool": False, "string": "", "float16": 0.0, "bfloat16": 0.0, "float32": 0.0, "float64": 0.0}
_VALUES |= {f"{sign}int{bits}": 0 for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""A value of each type that JSON can carry."""


def request_body(signature: SignatureEntry, rows: int = 1) -> dict[str, Any]:
    """A valid body for `POST /v1/models/<name>:predict`, with zeros, empty strings and false for values.

    The body is columnar (`inputs`): unlike `instances` it lets each member of the joint signature have its own number
    of rows.

    Args:
        signature: as the manifest has it.
        rows: how many rows each input gets, 0 or more; an input with a fixed batch gets that many.

    Raises:
        ValueError: JSON cannot carry a type of the signature, or `rows` is negative.

    Example:
        >>> x = TensorEntry(name="x", dtype="float32", shape=(None, 2), own_name="x", member="a", example_shape=(2,))
        >>> request_body(SignatureEntry(name="a", members=("a",), inputs=(x,), outputs=(), request=None), rows=2)
        {'signature_name': 'a', 'inputs': {'x': [[0.0, 0.0], [0.0, 0.0]]}}
    """
    if rows < 0:
        raise ValueError(f"`rows` must be 0 or more. Received: rows={rows}")
    inputs = {
        tensor.name: _filled(_example_shape(tensor, rows), _value(signature, tensor)) for tensor in signature.inputs
    }
    return {"signature_name": signature.name, "inputs": inputs}


def has_request_body(signature: SignatureEntry) -> bool:
    """Whether JSON can carry the inputs of a signature."""
    return all(tensor.dtype in _VALUES for tensor in signature.inputs)


def _value(signature: SignatureEntry, tensor: TensorEntry) -> Any:
    if tensor.dtype not in _VALUES:
        raise ValueError(
            f"JSON cannot carry the input `{tensor.name}` of the signature `{signature.name}`: its type is "
            f"{tensor.dtype}. "
            f"Expected one of: {', '.join(_VALUES)}"
        )
    return _VALUES[tensor.dtype]


def _example_shape(tensor: TensorEntry, rows: int) -> tuple[int, ...]:
    if tensor.shape == ():
        return ()
    batch = tensor.shape[0] if tensor.shape else None
    inner = tensor.example_shape
    if inner is None:
        inner = tuple(1 if size is None else size for size in (tensor.shape or ())[1:])
    return (rows if batch is None else batch, *inner)


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    return [_filled(shape[1:], value) for _ in range(shape[0])] if shape else value
