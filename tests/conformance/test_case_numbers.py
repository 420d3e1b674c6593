"""Every case of users that the solo contract is about is a test named after its number, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

CASES = {
    "A, uneven, tiny and empty slices": (1, 2, 3, 5, 6, 7, 9, 10, 12, 13, 14, 16, 17),
    "C, names of outputs, losses and metrics": (29, 30, 31, 32, 33, 34, 35),
    "D, sizes and states fixed in a graph": (37, 38, 40, 42, 43),
    "E, statistics and loss arithmetic": (45, 46, 47, 49, 51),
    "G, several models at once": (60, 61, 62, 63, 64, 65, 66, 67, 69, 70, 71, 72, 73, 75, 76, 77, 79, 80, 81),
    "H, threads and processes": (83, 84, 85, 87, 88, 89),
    "I, replicas and distribution": (90, 91, 92, 94, 95, 96),
}
OUT_OF_SCOPE = {
    84: "two processes on one GPU, of which one trained on zeros: never explained, and one program makes it needless",
    88: "kernels of several models queue on one stream: a matter of speed, of a fused path that there is none of yet",
}


def numbers_in_tests() -> set[int]:
    """The numbers in the names of all tests: `test_c05_c06_...` is one of two."""
    names = re.findall(
        r"^\s*def (test_\w+)", "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py")), re.M
    )
    return {int(number) for name in names for number in re.findall(r"(?<=_)c(\d\d)(?=_)", name)}


def test_every_case_is_a_test_or_has_a_reason() -> None:
    found = numbers_in_tests()
    for group, numbers in CASES.items():
        assert set(numbers) - found - set(OUT_OF_SCOPE) == set(), group


def test_no_reason_is_stale() -> None:
    assert set(OUT_OF_SCOPE) & numbers_in_tests() == set()
    assert set(OUT_OF_SCOPE) <= {number for numbers in CASES.values() for number in numbers}
