"""Near names for a name that is wrong, and the words that offer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

MOST_EDITS = 2
MOST_NAMES = 3


def near_names(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """The candidates that `name` may have been meant to be.

    A candidate is near when at most two letters were added, left out, changed or swapped with their neighbour, case
    aside, and some letter is left unchanged.

    Args:
        name: the name that was written.
        candidates: the names that would have been right, in any order, with or without repetition.

    Returns:
        At most three candidates, the nearest first; those that are equally near in alphabetical order.

    Example:
        >>> near_names("wine_b", ["digits", "wine"])
        ('wine',)
    """
    folded = name.casefold()
    ranked = []
    for candidate in dict.fromkeys(candidates):
        other = candidate.casefold()
        if abs(len(other) - len(folded)) > MOST_EDITS:
            continue
        distance = edit_distance(folded, other)
        if distance <= MOST_EDITS and distance < max(len(folded), len(other)):
            ranked.append((distance, edit_distance(name, candidate), candidate))
    return tuple(candidate for _, _, candidate in sorted(ranked)[:MOST_NAMES])


def edit_distance(a: str, b: str) -> int:
    """The fewest letters to add, leave out, change or swap with their neighbour that turn `a` into `b`."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        row = [i]
        for j, other in enumerate(b, start=1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]


def did_you_mean(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """The help that offers near names, ready for `Diagnostic.help`: empty where no name is near.

    Example:
        >>> did_you_mean("model_c", ["model_a", "model_b"])
        ('did you mean `model_a` or `model_b`?',)
    """
    names = near_names(name, candidates)
    return (f"did you mean {quoted_list(names)}?",) if names else ()


def quoted_list(names: Sequence[str], conjunction: str = "or") -> str:
    """Names in backquotes as a sentence lists them: `a`, `b` or `c`."""
    return join_words([f"`{name}`" for name in names], conjunction)


def join_words(words: Sequence[str], conjunction: str = "or") -> str:
    """Words as a sentence lists them: a, b or c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def near_files(path: Path) -> tuple[str, ...]:
    """The names of files like a missing one, in its folder.

    Names are compared without their suffix, since files of one kind share it; where there are near files of the kind
    that is missing, no other kind is meant.

    Example:
        >>> (folder / "wine.csv").touch()
        >>> near_files(folder / "wines.csv")
        ('wine.csv',)
    """
    try:
        entries = sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith("."))
    except OSError:
        return ()
    stems = near_names(path.stem, [Path(name).stem for name in entries])
    names = [name for stem in stems for name in entries if Path(name).stem == stem and not name.endswith(".mgpu")]
    return tuple(([name for name in names if Path(name).suffix == path.suffix] or names)[:MOST_NAMES])
