"""What a rule tells of one call of a layer, and arithmetic with sizes that may be unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Shape: TypeAlias = "tuple[int | None, ...]"
Config: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """One layer, called once.

    Args:
        outputs: the shapes of its outputs with the batch axis; empty where they are not known.
        trainable: weight elements that training changes, while the layer is trainable.
        fixed: weight elements that training never changes (moving averages).
        flops: multiply-adds of its kernels for one row, counted as two; None where a shape is open.
        wide_bytes: bytes that its weights take beyond those of the layer's dtype.
    """

    outputs: tuple[Shape, ...]
    trainable: int | None = 0
    fixed: int | None = 0
    flops: int | None = 0
    wide_bytes: int = 0


Rule: TypeAlias = Callable[[Config, Sequence[Shape]], LayerSizes]
"""From a layer's config and the shapes of its inputs to its sizes."""

UNKNOWN = LayerSizes((), None, None, None)
"""A layer that no rule knows: a size is never guessed."""


def product(dims: Iterable[int | None]) -> int | None:
    """The product, or None where a dimension is open.

    Example:
        >>> product((2, 3)), product((2, None)), product(())
        (6, None, 1)
    """
    total = 1
    for dim in dims:
        if dim is None:
            return None
        total *= dim
    return total


def total(parts: Iterable[int | None]) -> int | None:
    """The sum, or None where a part is unknown."""
    result = 0
    for part in parts:
        if part is None:
            return None
        result += part
    return result


def kernel_flops(kernel: int | None, positions: int | None) -> int | None:
    """FLOPs of a kernel of so many elements that is applied at so many positions of a row."""
    return None if kernel is None or positions is None else 2 * kernel * positions


def known(dim: int | None) -> int:
    """A dimension that a layer cannot be built without.

    Raises:
        ValueError: it is open, so that the config is not one of a built layer.
    """
    if dim is None:
        raise ValueError("a layer was built on an open dimension")
    return dim
