"""How far each member of a `fit` has come, as the displays need it: plain numbers, no drawing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest


@dataclass
class MemberState:
    """One member.

    Args:
        epochs: how many it trains for.
        steps: batches an epoch; None where that is not known.
        rows: rows an epoch; None where that is not known.
        epoch: epochs it has ended.
        step: batches of the running epoch that are through.
        logs: what it logged last, under its plain names.
        rate: rows a second in the epoch that ran last; None until it is known.
        ended: whether it is through, or has stopped early.
    """

    epochs: int
    steps: int | None
    rows: int | None
    epoch: int = 0
    step: int = 0
    logs: dict[str, float] = field(default_factory=dict)
    rate: float | None = None
    began: float = 0.0
    ended: bool = False

    @property
    def fraction(self) -> float:
        """How much of its epochs is done, from 0 to 1."""
        if self.ended:
            return 1.0
        within = min(self.step / self.steps, 1.0) if self.steps else 0.0
        return min((self.epoch + within) / self.epochs, 1.0) if self.epochs else 1.0

    @property
    def stopped_early(self) -> bool:
        return self.ended and self.epoch < self.epochs


class FitState:
    """A `FitListener` that keeps count.

    Args:
        rows: rows an epoch by member; None where that is not known.
        clock: seconds that only grow.
    """

    wants_steps = True

    def __init__(self, rows: Mapping[str, int | None], clock: Callable[[], float] = time.monotonic) -> None:
        self.members = {name: MemberState(0, None, count) for name, count in rows.items()}
        self._clock = clock
        self._start = clock()
        self._first_step: float | None = None
        self._longest_first = sorted(self.members, key=len, reverse=True)
        self._owners: dict[str, tuple[str, str] | None] = {}

    @property
    def elapsed(self) -> float:
        return self._clock() - self._start

    @property
    def remaining(self) -> float | None:
        """Seconds that are left at the pace until now; None while it is too early to say.

        The members run side by side, so the one with the most batches left sets the end.
        """
        paces = [
            (state.fraction, state.epochs * (state.steps or 1)) for state in self.members.values() if not state.ended
        ]
        if not paces:
            return 0.0
        fraction, _ = min(paces, key=lambda pace: (pace[0] - 1) * pace[1])
        if self._first_step is None or fraction < 0.02:
            return None
        return (self._clock() - self._first_step) * (1 - fraction) / fraction  # what came before is done only once

    def begin_member(self, member: str, epochs: int, steps: int | None) -> None:
        state = self.members[member]
        state.epochs, state.steps = epochs, steps

    def begin_epoch(self, member: str, epoch: int) -> None:
        state = self.members[member]
        state.epoch, state.step, state.began = epoch, 0, self._clock()

    def step(self, step: int, logs: Mapping[str, float]) -> None:
        now = self._clock()
        self._first_step = now if self._first_step is None else self._first_step
        for state in self.members.values():
            if state.ended or (state.steps is not None and state.step >= state.steps):
                continue
            state.step = step + 1
            if state.rows and state.steps and now > state.began:
                state.rate = state.rows * min(state.step / state.steps, 1.0) / (now - state.began)
        for key, value in logs.items():
            owner = self._owner(key)
            if owner is not None and not self.members[owner[0]].ended:
                self.members[owner[0]].logs[owner[1]] = value

    def end_epoch(self, member: str, epoch: int, logs: Mapping[str, float]) -> None:
        state = self.members[member]
        state.epoch, state.step = epoch + 1, 0
        state.logs.update(logs)

    def end_round(self, epoch: int) -> None:
        """Nothing to count."""

    def end_member(self, member: str) -> None:
        self.members[member].ended = True

    def _owner(self, key: str) -> tuple[str, str] | None:
        """The member and the plain name of a joint log: `digits_loss` is `loss` of `digits`."""
        if key not in self._owners:
            name = next((name for name in self._longest_first if key.startswith(f"{name}_")), None)
            self._owners[key] = (name, key[len(name) + 1 :]) if name is not None else None
        return self._owners[key]


def shown_metrics(states: Mapping[str, MemberState], most: int) -> list[str]:
    """The metrics that a table has columns for, at most so many: the losses, all members' first metrics, the second."""
    found = {metric for state in states.values() for metric in state.logs}
    losses = [metric for metric in ("loss", "val_loss") if metric in found]
    of_members = [
        [metric for metric in state.logs if metric not in losses and not metric.startswith("val_")]
        for state in states.values()
    ]
    in_turn = (metric for rank in zip_longest(*of_members) for metric in rank if metric is not None)
    others = dict.fromkeys(in_turn)  # in turn, so that no member's metrics push all of another's out
    paired = [name for metric in others for name in (metric, f"val_{metric}") if name in found]
    return [*losses, *paired][:most]


def more_metrics(states: Mapping[str, MemberState], shown: Collection[str]) -> str:
    """What stands behind some metrics that are not all: `and 3 more in history.csv`; nothing behind all."""
    rest = {metric for state in states.values() for metric in state.logs}.difference(shown)
    return f"and {len(rest)} more in history.csv" if rest else ""


def shown_number(value: float | None) -> str:
    """Four digits that count: `0.03125`, `1.204e-06`, `nan`; a metric that is no single number is left out."""
    return f"{value:.4g}" if isinstance(value, int | float) else ""


def shown_time(seconds: float) -> str:
    """`7 s`, `2:05`, `1:00:03`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
