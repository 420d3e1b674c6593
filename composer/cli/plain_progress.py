"""Progress where no terminal is: one plain line an epoch at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from composer.cli.fit_state import FitState, more_metrics, shown_metrics, shown_number

MOST_LINES = 50
MOST_MEMBERS = 8
MOST_METRICS = 6


class PlainProgress(FitState):
    """A line after an epoch; of long runs every so many epochs, and always after the last.

    Args:
        rows: as in `FitState`.
        say: takes a line.
    """

    wants_steps = False

    def __init__(self, rows: Mapping[str, int | None], say: Callable[[str], None]) -> None:
        super().__init__(rows)
        self._say = say
        self._fresh: list[str] = []

    def end_epoch(self, member: str, epoch: int, logs: Mapping[str, float]) -> None:
        super().end_epoch(member, epoch, logs)
        self._fresh.append(member)

    def end_round(self, epoch: int) -> None:
        fresh, self._fresh = self._fresh, []
        epochs = max(state.epochs for state in self.members.values())
        every = -(-epochs // MOST_LINES)
        last = all(state.ended for state in self.members.values())
        if (epoch + 1) % every and not last:
            return
        told = [self._told(name) for name in fresh[:MOST_MEMBERS]]
        more = [f"and {len(fresh) - MOST_MEMBERS} more"] if len(fresh) > MOST_MEMBERS else []
        self._say(f"epoch {epoch + 1}/{epochs}: {'; '.join([*told, *more])}")

    def _told(self, name: str) -> str:
        state = self.members[name]
        metrics = shown_metrics({name: state}, MOST_METRICS)
        told = [f"{metric} {shown_number(state.logs[metric])}" for metric in metrics]
        more = more_metrics({name: state}, metrics)
        return f"{name} " + ", ".join([*told, *([more] if more else [])])
