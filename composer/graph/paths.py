"""What to say of a file that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from composer.compiler.faults import one_of


def near_files(path: Path) -> str:
    """A hint for a missing file: names like it in its folder, or that the folder is missing as well; else nothing.

    Names are compared without their suffix, since files of one kind share it.

    Example:
        >>> near_files(folder / "wines.csv")        # the folder holds wine.csv
        '; did you mean `wine.csv`?'
    """
    folder = path.parent
    if not folder.is_dir():
        return f". The folder {folder} is missing as well"
    entries = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    close = get_close_matches(path.stem.lower(), [Path(name).stem.lower() for name in entries], n=3, cutoff=0.6)
    near = [name for name in entries if Path(name).stem.lower() in close][:3]
    return f"; did you mean {one_of(near)}?" if near else ""
