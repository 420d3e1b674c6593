"""What to say of a name that is not there: near names, ready to follow a message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from composer.diagnostics.near import near_files as near_file_names
from composer.diagnostics.near import near_names, quoted_list


def near(name: str, candidates: Iterable[str]) -> str:
    """A hint at names like a wrong one, or nothing.

    Example:
        >>> near("cultivr", ["ash", "cultivar"])
        '; did you mean `cultivar`?'
    """
    names = near_names(name, candidates)
    return f"; did you mean {quoted_list(names)}?" if names else ""


def near_files(path: Path) -> str:
    """A hint for a missing file: names like it in its folder, or that the folder is missing as well; else nothing.

    Example:
        >>> (folder / "wine.csv").touch()
        >>> near_files(folder / "wines.csv")
        '; did you mean `wine.csv`?'
    """
    if not path.parent.is_dir():
        return f". The folder {path.parent} is missing as well"
    names = near_file_names(path)
    return f"; did you mean {quoted_list(names)}?" if names else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names in backquotes, the first `most` of them."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


def shown_shape(dims: Sequence[int | None]) -> str:
    """A shape as Python writes it: `(4,)`, `(any, 3)`."""
    inside = ", ".join("any" if dim is None else str(dim) for dim in dims)
    return f"({inside},)" if len(dims) == 1 else f"({inside})"
