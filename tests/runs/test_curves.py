"""Learning curves: what is in the picture, and that it is the same each time."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes

from composer.runs.curves import curves_figure, draw_curves, epoch_ticks, num_columns, spread_apart


def history(epochs: int, start: float = 1.0) -> dict[str, list[float]]:
    values = [start / (epoch + 1) for epoch in range(epochs)]
    return {"loss": values, "val_loss": [value + 0.1 for value in values], "accuracy": [0.5] * epochs}


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_one_panel_a_member_with_both_losses_labelled_at_their_ends() -> None:
    figure = curves_figure({"digits": history(4), "wine": {"loss": [2.0, 1.0]}})
    digits, wine = figure.axes
    assert (digits.get_title("left"), wine.get_title("left")) == ("digits", "wine")
    assert [line.get_ydata().tolist() for line in digits.lines] == [history(4)["loss"], history(4)["val_loss"]]
    assert [line.get_xdata().tolist() for line in digits.lines] == [[1, 2, 3, 4]] * 2
    assert texts(digits) == ["train\n0.25", "validation\n0.35"]
    assert texts(wine) == ["train\n1"]
    colors = [line.get_color() for line in digits.lines]
    assert colors == [text.get_color() for text in digits.texts]
    assert len(set(colors)) == 2


def test_labels_of_curves_that_end_together_stand_apart() -> None:
    figure = curves_figure({"a": {"loss": [1.0, 0.5], "val_loss": [1.0, 0.5001]}})
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not boxes[0].overlaps(boxes[1])
    assert boxes[1].y0 > boxes[0].y0


def test_labels_at_the_bottom_stay_above_the_epochs() -> None:
    (axes,) = curves_figure({"a": {"loss": [1.0, 0.01], "val_loss": [1.0, 0.0]}}).axes
    axes.figure.canvas.draw()
    assert min(text.get_window_extent().y0 for text in axes.texts) > axes.bbox.y0 - 2


@pytest.mark.parametrize("count", [1, 3, 4, 20])
def test_panels_stay_apart_and_inside_the_picture(count: int) -> None:
    figure = curves_figure({f"forecaster_of_one_of_the_stores_{i}": history(3 + i, 10.0**i) for i in range(count)})
    figure.canvas.draw()
    assert len(figure.axes) == count
    inside = figure.bbox  # names are long here
    boxes = []
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1 + 1
        assert inside.y0 <= box.y0
        assert box.y1 <= inside.y1 + 1
        boxes.append(box)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_loss_that_falls_far_is_on_a_logarithmic_axis() -> None:
    figure = curves_figure(
        {"far": {"loss": [300.0, 1.0]}, "near": {"loss": [3.0, 1.0]}, "below": {"loss": [3.0, -1.0]}}
    )
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "linear", "linear"]
    assert figure.axes[1].get_ylim()[0] == 0
    assert figure.axes[2].get_ylim()[0] < -1


def test_loss_that_becomes_nan_says_from_when() -> None:
    lost = {"loss": [1.0, 0.5, math.nan, math.nan], "val_loss": [1.0, math.nan, 0.4, 0.3]}
    never = {"loss": [math.inf, math.nan]}
    figure = curves_figure({"lost": lost, "never": never, "none": {}})
    assert texts(figure.axes[0]) == ["train\n0.5\nNaN from 3", "validation\n0.3"]
    assert texts(figure.axes[1]) == ["NaN from the first epoch on"]
    assert texts(figure.axes[2]) == ["no epoch ended"]


def test_single_epoch_is_a_point() -> None:
    (axes,) = curves_figure({"a": {"loss": [0.5]}}).axes
    assert axes.lines[0].get_marker() == "o"
    assert axes.get_xticks().tolist() == [1]


def test_more_members_than_can_be_read_are_counted() -> None:
    figure = curves_figure({f"m{i}": {"loss": [1.0]} for i in range(63)})
    assert len(figure.axes) == 60
    assert [text.get_text() for text in figure.texts] == ["and 3 more members in history.csv"]


def test_picture_is_the_same_each_time_and_leaves_the_settings_alone(tmp_path: Path) -> None:
    histories = {"digits": history(5), "wine": history(3)}
    before = dict(mpl.rcParams)
    for suffix in ("svg", "png"):
        draw_curves(histories, tmp_path / f"first.{suffix}")
        draw_curves(histories, tmp_path / f"second.{suffix}")
        assert (tmp_path / f"first.{suffix}").read_bytes() == (tmp_path / f"second.{suffix}").read_bytes()
    assert dict(mpl.rcParams) == before
    assert ElementTree.parse(tmp_path / "first.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")
    draw_curves({"digits": history(6)}, tmp_path / "other.svg")
    assert (tmp_path / "other.svg").read_bytes() != (tmp_path / "first.svg").read_bytes()


def test_no_members_is_an_empty_picture(tmp_path: Path) -> None:
    draw_curves({}, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("panels", "columns"), [(0, 1), (1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (9, 3), (10, 4), (20, 5), (60, 5)]
)
def test_num_columns(panels: int, columns: int) -> None:
    assert num_columns(panels) == columns


@pytest.mark.parametrize(
    ("epochs", "ticks"),
    [
        (1, [1]),
        (2, [1, 2]),
        (5, [1, 2, 3, 4, 5]),
        (8, [1, 4, 6, 8]),
        (20, [1, 5, 10, 15, 20]),
        (3000, [1, 1000, 2000, 3000]),
    ],
)
def test_epoch_ticks(epochs: int, ticks: list[int]) -> None:
    assert epoch_ticks(epochs) == ticks


def test_spread_apart_moves_about_the_middle() -> None:
    np.testing.assert_allclose(spread_apart([0.5, 0.5], 0.2), [0.4, 0.6])
    np.testing.assert_allclose(spread_apart([0.6, 0.5], 0.2), [0.65, 0.45])
    np.testing.assert_allclose(spread_apart([0.1, 0.9], 0.2), [0.1, 0.9])
    assert spread_apart([], 0.2) == []
