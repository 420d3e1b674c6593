"""Timing by turns: what is compared runs alternately, so that a slow minute of the machine falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(work: Callable[[], object]) -> float:
    """The wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def medians(contenders: Mapping[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """The median wall time of each contender over runs taken in turn, the order reversed every other round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(runs):
        names = list(contenders)
        for name in names if turn % 2 == 0 else reversed(names):
            times[name].append(seconds(contenders[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def report(title: str, figure: float, limit: float, unit: str = "", detail: str = "") -> bool:
    """Prints one line, figure against limit, and says whether it holds."""
    holds = figure <= limit
    verdict = "ok  " if holds else "MISS"
    print(f"{verdict} {title}: {figure:.2f}{unit} (at most {limit:g}{unit}) {detail}".rstrip(), flush=True)
    return holds
