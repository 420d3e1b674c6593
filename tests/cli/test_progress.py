"""What a `fit` shows while it runs: the count, the live table, the plain lines."""

from __future__ import annotations

import io
import signal

import pytest
from rich.console import Console

from composer.cli.fit_state import FitState, MemberState, shown_metrics, shown_number, shown_time
from composer.cli.interrupts import stop_requests
from composer.cli.live_display import live_display, table_of
from composer.cli.options import Settings
from composer.cli.plain_progress import PlainProgress
from composer.cli.terminal import Terminal


class Clock:
    """Seconds as the test sets them."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def drawn(state: FitState, width: int = 110, height: int = 20, stopping: bool = False) -> list[str]:
    console = Console(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(table_of(state, console, stopping))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> FitState:
    """`a` in the second of 4 epochs of 10 batches, `b` at the end of its only one."""
    state = FitState({"a": 100, "b": 5}, clock)
    state.begin_member("a", epochs=4, steps=10)
    state.begin_member("b", epochs=1, steps=1)
    for name in ("a", "b"):
        state.begin_epoch(name, 0)
    clock.now = 1.0
    state.step(0, {"a_loss": 0.9, "b_loss": 3.0})
    for step in range(1, 10):
        state.step(step, {"a_loss": 0.8, "b_loss": 3.0})
    state.end_epoch("a", 0, {"loss": 0.8, "val_loss": 0.7})
    state.end_epoch("b", 0, {"loss": 3.0, "accuracy": 0.5})
    state.end_member("b")
    state.begin_epoch("a", 1)
    clock.now = 2.0
    for step in range(5):
        state.step(step, {"a_loss": 0.5, "b_loss": 9.0})
    return state


def test_state_counts_epochs_batches_and_rows(state: FitState, clock: Clock) -> None:
    a, b = state.members["a"], state.members["b"]
    assert (a.epoch, a.step, a.fraction) == (1, 5, 0.375)
    assert a.logs == {"loss": 0.5, "val_loss": 0.7}
    assert a.rate == pytest.approx(50.0)  # half of 100 rows in the second that the epoch runs
    assert (b.ended, b.stopped_early, b.fraction, b.logs["loss"]) == (True, False, 1.0, 3.0)
    assert state.remaining == pytest.approx(1.0 * 0.625 / 0.375)  # at the pace since the first batch


def test_a_member_that_stops_early(clock: Clock) -> None:
    state = FitState({"a": 8}, clock)
    state.begin_member("a", epochs=9, steps=2)
    state.begin_epoch("a", 0)
    state.end_epoch("a", 0, {"loss": 1.0})
    state.end_member("a")
    assert state.members["a"].stopped_early
    assert "stopped early" in "\n".join(drawn(state))


def test_logs_of_members_whose_names_begin_alike() -> None:
    state = FitState({"a": 1, "a_b": 1})
    state.step(0, {"a_loss": 1.0, "a_b_loss": 2.0, "other": 3.0})
    assert (state.members["a"].logs, state.members["a_b"].logs) == ({"loss": 1.0}, {"loss": 2.0})


def test_table(state: FitState) -> None:
    title, head, a, b = drawn(state)
    assert title == "2 members, 1 done   2 s, about 2 s left"
    assert head.split() == ["member", "epoch", "loss", "val_loss", "accuracy", "rows/s"]
    assert a.split()[:2] == ["a", "2/4"]
    assert a.split()[-3:] == ["0.5", "0.7", "50"]
    assert b.split()[:2] == ["b", "1/1"]
    assert b.split()[-4:] == ["3", "0.5", "5", "done"]


def test_table_says_that_the_program_is_being_made() -> None:
    title, _, a = drawn(FitState({"a": 3}, Clock()))
    assert title == "1 member, preparing the joint program   0 s"
    assert "0/0" not in a


def test_table_says_that_it_is_stopping(state: FitState) -> None:
    assert drawn(state, stopping=True)[-1] == "stopping after this batch; press Ctrl-C again to stop at once"


def test_table_fits_a_small_screen() -> None:
    state = FitState({f"m{i}": 1 for i in range(40)}, Clock())
    for name in ("m0", "m1"):
        state.end_member(name)
    lines = drawn(state, width=60, height=12)
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 60
    assert lines[2].startswith("m2 ")  # those at work come first
    assert lines[-1] == "and 34 more"


def test_metrics_that_do_not_fit_are_left_out() -> None:
    state = FitState({"a": 1}, Clock())
    state.members["a"].logs = {"loss": 1.0, **{f"metric_{i}": 1.0 for i in range(9)}}
    assert len(drawn(state, width=80)[1].split()) < 7
    assert shown_metrics(state.members, 2) == ["loss", "metric_0"]


def test_metrics_stand_beside_their_validation() -> None:
    logs = {"accuracy": 0.0, "loss": 0.0, "val_accuracy": 0.0, "val_loss": 0.0}
    state = MemberState(1, 1, 1, logs=logs)
    assert shown_metrics({"a": state}, 9) == ["loss", "val_loss", "accuracy", "val_accuracy"]


def test_no_member_pushes_all_metrics_of_another_out() -> None:
    first = MemberState(1, None, None, logs={"loss": 1.0, "accuracy": 0.5, "val_accuracy": 0.5, "auc": 0.5})
    second = MemberState(1, None, None, logs={"loss": 1.0, "mae": 0.25})
    assert shown_metrics({"a": first, "b": second}, 4) == ["loss", "accuracy", "val_accuracy", "mae"]


def test_a_loss_that_is_no_number_stands_out(clock: Clock) -> None:
    state = FitState({"a": 1}, clock)
    state.members["a"].logs = {"loss": float("nan")}
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(table_of(state, console))
    assert "\x1b[1;31m" in console.file.getvalue()  # type: ignore[attr-defined]


def test_live_display_leaves_its_last_table_where_asked(state: FitState) -> None:
    shown = {}
    for keep in (True, False):
        console = Console(width=100, file=io.StringIO(), force_terminal=True)
        with live_display(state, console, lambda: False, keep=keep):
            pass
        shown[keep] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2 members" in shown[True]
    assert shown[False].endswith("\x1b[2K")  # wiped


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (7.9, "7 s"), (59.9, "59 s"), (125, "2:05"), (3603, "1:00:03")]
)
def test_times(seconds: float, text: str) -> None:
    assert shown_time(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.03125, "0.03125"), (1.2041e-6, "1.204e-06"), (float("nan"), "nan"), (None, "")]
)
def test_numbers(value: float | None, text: str) -> None:
    assert shown_number(value) == text


def test_plain_lines_name_the_members_that_ended_the_epoch() -> None:
    lines: list[str] = []
    progress = PlainProgress({"a": 1, "b": 1}, lines.append)
    progress.begin_member("a", 2, 1)
    progress.begin_member("b", 1, 1)
    progress.end_epoch("a", 0, {"mae": 0.5, "loss": 0.25})
    progress.end_epoch("b", 0, {"loss": 4.0})
    progress.end_member("b")
    progress.end_round(0)
    progress.end_epoch("a", 1, {"mae": 0.25, "loss": 0.125})
    progress.end_member("a")
    progress.end_round(1)
    assert lines == ["epoch 1/2: a loss 0.25, mae 0.5; b loss 4", "epoch 2/2: a loss 0.125, mae 0.25"]


def test_long_runs_take_few_lines_and_the_last_epoch_is_among_them() -> None:
    lines: list[str] = []
    progress = PlainProgress({"a": 1}, lines.append)
    progress.begin_member("a", 1001, 1)
    for epoch in range(1001):
        progress.end_epoch("a", epoch, {"loss": 1.0})
        if epoch == 1000:
            progress.end_member("a")
        progress.end_round(epoch)
    assert len(lines) == 48  # every 21 epochs, and the last
    assert lines[-1].startswith("epoch 1001/1001: ")


def test_many_members_take_one_line() -> None:
    lines: list[str] = []
    progress = PlainProgress({f"m{i}": 1 for i in range(20)}, lines.append)
    for name in progress.members:
        progress.begin_member(name, 1, 1)
        progress.end_epoch(name, 0, {"loss": 1.0})
    progress.end_round(0)
    assert lines[0].endswith("; m7 loss 1; and 12 more")


def test_first_signal_asks_and_the_second_interrupts(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_requests(Terminal(Settings())) as request:  # noqa: PT012
        assert not request()
        signal.raise_signal(signal.SIGINT)
        assert request()
        assert request.exit_code == 130
        assert "note: stopping after this batch; press Ctrl-C again to stop at once\n" in capfd.readouterr().err
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_request_to_terminate_has_its_own_exit_code() -> None:
    with stop_requests(Terminal(Settings())) as request:
        signal.raise_signal(signal.SIGTERM)
        assert request.exit_code == 143
