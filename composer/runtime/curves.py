"""Histories -> a picture of the learning curves: one panel a member, its loss and its validation loss in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from composer.runtime.histories import Histories

MOST_PANELS = 60
LOG_RATIO = 30
"""Losses that fall by more than this are drawn on a logarithmic axis."""

_LINES = {"loss": ("#1f5fa8", "train"), "val_loss": ("#c8501e", "validation")}
_INK, _FAINT = "#222222", "#d9d9d9"
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
    wide = 4.6 if columns == 1 else 3.4 if columns <= 3 else 2.7
    figure = Figure(figsize=(wide * columns + 0.3, 0.72 * wide * rows + 0.5), dpi=120, layout=_layout())
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, (member, history) in zip(grid.flat, shown, strict=False):
        _draw_panel(axes, member, history)
    for axes in grid[:, 0]:
        axes.set_ylabel("loss")
    for index in range(len(shown)):
        if index + columns >= len(shown):
            grid.flat[index].set_xlabel("epoch")
    if len(histories) > len(shown):
        figure.supxlabel(f"and {len(histories) - len(shown)} more in history.csv", fontsize=8)
    return figure


def _layout() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)


def num_columns(panels: int) -> int:
    """As many columns as rows, or a few more: 1, 2, 3, 2x2, 3x2, 3x2, 4x2, ..., 5x4; never more than five."""
    if panels <= 3:
        return max(1, panels)
    return min(5, math.ceil(math.sqrt(panels)))


def _draw_panel(axes: Axes, member: str, history: Any) -> None:
    axes.set_title(member, loc="left", fontsize=10, fontweight="bold", color=_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#888888")
    axes.tick_params(colors="#555555", labelsize=8, length=3)
    axes.grid(axis="y", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    curves = {name: np.asarray(history[name], dtype=float) for name in _LINES if len(history.get(name, ()))}
    finite = [values[np.isfinite(values)] for values in curves.values()]
    if not any(len(values) for values in finite):
        text = "loss is NaN from the first epoch on" if curves else "no epoch ended"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="#888888")
        axes.set_xticks([])
        axes.set_yticks([])
        return
    _scale(axes, np.concatenate(finite))
    for name, values in curves.items():
        _draw_curve(axes, name, values)
    longest = max(len(values) for values in curves.values())
    axes.set_xlim(1 if longest > 1 else 0.5, longest if longest > 1 else 1.5)
    _label_ends(axes, curves)


def _draw_curve(axes: Axes, name: str, values: Any) -> None:
    color, _ = _LINES[name]
    epochs = np.arange(1, len(values) + 1)
    few = np.isfinite(values).sum() <= 1
    axes.plot(epochs, values, color=color, linewidth=1.5, marker="o" if few else None, markersize=4, clip_on=False)
    lost = np.flatnonzero(~np.isfinite(values))
    if len(lost) and not np.isfinite(values[lost[0] :]).any():
        axes.axvline(lost[0] + 1, color=color, linewidth=1, linestyle=":")


def _scale(axes: Axes, values: Any) -> None:
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > LOG_RATIO:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        return
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_powerlimits((-3, 4))
    axes.yaxis.set_major_formatter(formatter)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    margin = 0.06 * (high - low) or 0.06 * max(abs(high), 1e-3)
    axes.set_ylim(0 if 0 <= low < 0.4 * high else low - margin, high + margin)


def _label_ends(axes: Axes, curves: dict[str, Any]) -> None:
    """Writes each curve's name and last value beside its end, apart from each other."""
    ends: list[tuple[float, str]] = []
    for name, values in curves.items():
        finite = np.flatnonzero(np.isfinite(values))
        if len(finite):
            _, height = axes.transAxes.inverted().transform(axes.transData.transform((1, values[finite[-1]])))
            ends.append((float(height), name))
    heights = spread_apart([height for height, _ in ends], 0.19)
    for height, (_, name) in zip(heights, ends, strict=True):
        color, word = _LINES[name]
        values = curves[name]
        last = np.flatnonzero(np.isfinite(values))[-1]
        text = f"{word}\n{values[last]:.4g}"
        if last < len(values) - 1:
            text += f"\nNaN from {last + 2}"
        axes.annotate(
            text,
            (1.02, height),
            xycoords="axes fraction",
            color=color,
            fontsize=8,
            va="center",
            linespacing=1.05,
            annotation_clip=False,
        )


def spread_apart(heights: Sequence[float], gap: float) -> list[float]:
    """The heights, moved as little as makes any two of them differ by `gap`, about their middle."""
    order = sorted(range(len(heights)), key=lambda index: (heights[index], index))
    moved = list(heights)
    for lower, upper in pairwise(order):
        short = gap - (moved[upper] - moved[lower])
        if short > 0:
            moved[upper] += short
    if order and moved != list(heights):
        shift = sum(moved) / len(moved) - sum(heights) / len(heights)
        moved = [height - shift for height in moved]
    return moved
