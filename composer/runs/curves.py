"""Histories -> a picture of the learning curves: one panel a member, its loss and its validation loss in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from composer.runs.histories import Histories

MOST_PANELS = 60
LOG_RATIO = 30
"""Losses that fall by more than this are drawn on a logarithmic axis."""

_LINES = {"loss": ("#1f5fa8", "train"), "val_loss": ("#c8501e", "validation")}
_INK, _SOFT, _FAINT = "#222222", "#555555", "#d9d9d9"
_LEFT, _RIGHT, _ABOVE, _BELOW, _FOOT = 0.62, 0.78, 0.34, 0.3, 0.22  # inches around a panel, and below all of them
_LINE_HEIGHT = 0.14  # inches, of a label
_ASPECT = 0.68  # of a panel
_TITLE_SIZE, _LETTER_WIDTH = 10, 0.0102  # points, and inches a point of a bold letter
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with Matplotlib: the picture is the same everywhere
    "font.size": 9,
    "svg.hashsalt": "composer",  # else the ids in an SVG are random
    "svg.fonttype": "path",
    "path.simplify": True,
}


def draw_curves(histories: Histories, path: Path) -> None:
    """Draws the losses of every member over its epochs.

    The same histories give the same file. Members are drawn in the order given, the first sixty of them. Gaps are
    values that are not finite; where a loss ends in them, the panel says from which epoch on.

    Args:
        histories: member -> metric -> one value an epoch.
        path: the file; its suffix, `.svg` or `.png`, says which.
    """
    with mpl.rc_context(_STYLE):
        metadata = {"Date": None, "Creator": "composer"} if path.suffix == ".svg" else {"Software": "composer"}
        curves_figure(histories).savefig(path, metadata=metadata)


def curves_figure(histories: Histories) -> Figure:
    """The figure that `draw_curves` writes."""
    shown = list(histories.items())[:MOST_PANELS]
    columns = num_columns(len(shown))
    rows = max(1, math.ceil(len(shown) / columns))
    width = 4.2 if columns == 1 else 2.7 if columns <= 3 else 2.0
    height = _ASPECT * width
    # Laid out by hand, in inches: Matplotlib's layout engines take seconds for twenty panels.
    step_x, step_y = width + _LEFT + _RIGHT, height + _ABOVE + _BELOW
    total_x, total_y = step_x * columns, step_y * rows + _FOOT
    figure = Figure(figsize=(total_x, total_y), dpi=120)
    for index, (member, history) in enumerate(shown):
        row, column = divmod(index, columns)
        left, bottom = step_x * column + _LEFT, total_y - step_y * (row + 1) + _BELOW
        axes = figure.add_axes((left / total_x, bottom / total_y, width / total_x, height / total_y))
        _draw_panel(axes, member, history, width)
        if column == 0:
            axes.set_ylabel("loss", color=_SOFT)
        if index + columns >= len(shown):
            axes.set_xlabel("epoch", color=_SOFT)
    if len(histories) > len(shown):
        more = f"and {len(histories) - len(shown)} more members in history.csv"
        figure.text(0.5, 0.3 * _FOOT / total_y, more, ha="center", color=_SOFT)
    return figure


def num_columns(panels: int) -> int:
    """As many columns as rows, or a few more: 1, 2, 3, 2x2, 3x2, 3x2, 3x3, ..., 5x4; never more than five."""
    if panels <= 3:
        return max(1, panels)
    return min(5, math.ceil(math.sqrt(panels)))


def _draw_panel(axes: Axes, member: str, history: Mapping[str, Sequence[float]], width: float) -> None:
    size = min(_TITLE_SIZE, (width + _RIGHT) / (_LETTER_WIDTH * max(len(member), 1)))
    axes.set_title(member, loc="left", fontsize=size, fontweight="bold", color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(which="both", colors=_SOFT, labelsize=8, length=3)
    axes.grid(axis="y", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    curves = {name: np.asarray(history[name], dtype=float) for name in _LINES if len(history.get(name, ()))}
    finite = [values[np.isfinite(values)] for values in curves.values()]
    if not any(len(values) for values in finite):
        text = "NaN from the first epoch on" if curves else "no epoch ended"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=_SOFT)
        axes.set(xticks=[], yticks=[])
        return
    _scale(axes, np.concatenate(finite))
    for name, values in curves.items():
        _draw_curve(axes, name, values)
    longest = max(len(values) for values in curves.values())
    axes.set_xlim((1, longest) if longest > 1 else (0.5, 1.5))
    axes.set_xticks(epoch_ticks(longest))
    _label_ends(axes, curves, _ASPECT * width)


def _draw_curve(axes: Axes, name: str, values: Any) -> None:
    color, _ = _LINES[name]
    epochs = np.arange(1, len(values) + 1)
    alone = np.isfinite(values).sum() == 1
    axes.plot(epochs, values, color=color, linewidth=1.5, marker="o" if alone else None, markersize=4, clip_on=False)
    last = _last_finite(values)
    if last < len(values) - 1:
        axes.axvline(last + 2, color=color, linewidth=1, linestyle=":")


def _scale(axes: Axes, values: Any) -> None:
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > LOG_RATIO:
        axes.set_yscale("log")
        subs = (1.0,) if high / low > 1000 else (1.0, 3.0)
        axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        return
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_powerlimits((-3, 4))
    axes.yaxis.set_major_formatter(formatter)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    margin = 0.06 * (high - low) or 0.06 * max(abs(high), 1e-3)
    axes.set_ylim(0 if 0 <= low < 0.4 * high else low - margin, high + margin)


def epoch_ticks(epochs: int) -> list[int]:
    """The first epoch and up to five round ones, the first of them not close to it.

    Example:
        >>> epoch_ticks(20)
        [1, 5, 10, 15, 20]
    """
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if epochs / step <= 5)
    return [1, *(tick for tick in range(step, epochs + 1, step) if tick > 1 + step / 2)]


def _label_ends(axes: Axes, curves: Mapping[str, Any], height: float) -> None:
    """Writes each curve's name and last finite value beside its end, apart from each other."""
    ends: list[tuple[float, str, str]] = []
    for name, values in curves.items():
        color, word = _LINES[name]
        last = _last_finite(values)
        if last < 0:
            continue
        lost = f"\nNaN from {last + 2}" if last < len(values) - 1 else ""
        place = axes.transAxes.inverted().transform(axes.transData.transform((1, values[last])))
        ends.append((float(place[1]), f"{word}\n{values[last]:.4g}{lost}", color))
    room = max(text.count("\n") + 1 for _, text, _ in ends) * _LINE_HEIGHT / height
    heights = spread_apart([end[0] for end in ends], room)
    lift = max(0.0, 0.5 * room - min(heights))  # off the numbers of the epochs
    for at, (_, text, color) in zip(heights, ends, strict=True):
        axes.text(
            1.03, at + lift, text, transform=axes.transAxes, color=color, fontsize=8, va="center", linespacing=1.05
        )


def _last_finite(values: Any) -> int:
    """The position of the last finite value, or -1."""
    return int(max(np.flatnonzero(np.isfinite(values)), default=-1))


def spread_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Two or more heights, moved about their middle so that any two of them differ by `gap` at least.

    Example:
        >>> spread_apart([0.5, 0.5], 0.2)
        [0.4, 0.6]
    """
    order = sorted(range(len(heights)), key=lambda index: (heights[index], index))
    moved = list(heights)
    for lower, upper in pairwise(order):
        moved[upper] = max(moved[upper], moved[lower] + gap)
    shift = (sum(moved) - sum(heights)) / max(len(moved), 1)
    return [height - shift for height in moved]
