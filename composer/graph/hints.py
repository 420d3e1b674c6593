"""What to say of a name that is not there: near names, ready to follow a message."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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

    Names are compared without their suffix, since files of one kind share it; where there are near files of the kind
    that is missing, no other kind is meant.

    Example:
        >>> (folder / "wine.csv").touch()
        >>> near_files(folder / "wines.csv")
        '; did you mean `wine.csv`?'
    """
    folder = path.parent
    if not folder.is_dir():
        return f". The folder {folder} is missing as well"
    entries = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    stems = near_names(path.stem, [Path(name).stem for name in entries])
    names = [name for stem in stems for name in entries if Path(name).stem == stem and not name.endswith(".mgpu")]
    names = ([name for name in names if Path(name).suffix == path.suffix] or names)[:3]
    return f"; did you mean {quoted_list(names)}?" if names else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names in backquotes, the first `most` of them."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more
