"""One pass over the rows of several members: an epoch of training, or an evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import tensorflow as tf

from composer.engine.bundles import BundlePass
from composer.engine.feed import Feed
from composer.engine.programs import JointProgram, Logs, flattened, to_python
from composer.graph.views import overrides
from composer.runtime.faults import rows_fault

Answer = TypeVar("Answer")

BURST_SECONDS = 0.1
"""What a burst of steps may take: progress is shown, and Ctrl-C heard, as often."""
BUNDLE_BURST_SECONDS = 0.5
"""The same for bundles: to tell Keras' loop of many members takes a while in itself."""
MOST_IN_BURST = 4096


def raise_fault(name: str, error: Exception) -> None:
    """Stop all because the rows of one member could not be read."""
    raise rows_fault(name, error) from error


class Pass:
    """Steps the members of a feed until none has a batch left.

    Keras runs as many steps as the longest member ever needs. Once no member has another batch, the rest of the pass is
    skipped without touching the data; where there are streams, the pass ends there.

    Args:
        program: what steps them.
        feed: what hands out their batches.
        on_fault: is told which member's rows could not be read, and why; unless it raises, the others go on.
        watched: whether somebody is to be told of each step as it is taken. Else many are taken in one call, and
            Keras' loop catches up with what was taken ahead.
        halt: joint steps after which nothing is taken ahead, again and again; None: it does not matter.
        bundles: the passes of bundles, which go along with the program's members step by step.
    """

    def __init__(
        self,
        program: JointProgram,
        feed: Feed,
        on_fault: Callable[[str, Exception], None] = raise_fault,
        *,
        watched: bool = False,
        halt: int | None = None,
        bundles: Sequence[BundlePass] = (),
    ) -> None:
        self.program = program
        self.feed = feed
        self.logs: dict[str, Logs] = {}
        self.steps: dict[str, int] = {}
        self._on_fault = on_fault
        self._present: set[str] = set()
        self.through = False
        self._closed: Logs | None = None  # what `close` has changed
        self._told = True  # whether Keras has seen the logs as they are now
        self.watched = watched
        self._in_bursts = not (watched or program.eager or feed.streams)
        self._burst = 1
        self._halt = halt
        self._bundles = tuple(bundles)
        self._burst_seconds = BUNDLE_BURST_SECONDS if bundles else BURST_SECONDS
        self.joint_steps = 0
        self.ahead = 0  # steps taken that Keras' loop has not asked for yet

    def reset(self, name: str) -> None:
        """Let a member's next pass begin with its first batch."""
        if name in self.feed.streams:
            self._ask(name, self.feed.streams[name].reset, None)

    def begin(self, epochs: Mapping[str, int]) -> None:
        """Begin a pass with the members that take part, each with the epoch that tells the order of its rows."""
        self.logs, self.steps, self._closed = {}, dict.fromkeys(epochs, 0), None
        self._present, self.through, self._told = set(epochs), False, True
        self.joint_steps = self.ahead = 0
        for name in self.feed.num_batches:
            self.feed.begin(name, epochs.get(name, 0), present=name in epochs)
        for bundle in self._bundles:
            bundle.begin(epochs)

    def skip(self, joint_steps: int, steps: Mapping[str, int]) -> None:
        """Pass over what was taken before: so many joint steps, and batches by member."""
        self.joint_steps = joint_steps
        self.steps.update(steps)
        self._told = False  # where no step is left, Keras has still to see the logs
        for name, count in steps.items():
            self._ask(name, partial(self.feed.skip, name, count), None)
        for bundle in self._bundles:
            bundle.skip(joint_steps)

    def begin_all(self) -> None:
        """Begin a pass of all members over all of their rows."""
        for name in self.feed.streams:
            self.reset(name)
        self.begin(dict.fromkeys(self.feed.num_batches, 0))

    def pause(self, name: str) -> None:
        """Take no more of a member's batches in this pass."""
        self._present.discard(name)
        for bundle in self._bundles:
            bundle.pause(name)
        if name in self.feed.streams:
            self.feed.streams[name].pause()

    def drop(self, name: str) -> None:
        """Let go of a member for good, and of what it logged in this pass."""
        self.pause(name)
        self._told = self.logs.pop(name, None) is None
        if name in self.feed.streams:
            self.feed.streams[name].close()

    def has_step(self, name: str) -> bool:
        """Whether the member's own loop would take another step now."""
        if name not in self._present:
            return False
        if name in self.feed.streams:
            return self._ask(name, self.feed.streams[name].has_step, False)
        return self.steps[name] < (self.feed.num_batches[name] or 0)

    def step(self) -> tuple[str, ...]:
        """Run the next step, if it was not taken ahead. Returns the members that took part."""
        if self.ahead:
            self.ahead -= 1
            return ()
        if self.feed.streams and not self.through:
            self.through = not any(self.has_step(name) for name in tuple(self._present))
        if self.through:
            if self.feed.endless and self._told:
                raise StopIteration
            self._told = True
            return ()  # Keras' count is not reached yet
        start = time.perf_counter()
        most = self._most if self._in_bursts else None
        taken, counts, results = self._run_program(most)
        self._end_streams(counts)
        for bundle in self._bundles:
            taken = max(taken, self._run_bundle(bundle, most or 1, counts, results))
        self._advance(taken, most or 1, time.perf_counter() - start)
        names = tuple(name for name, count in counts.items() if count)
        if not names and self.feed.endless and self._told:
            raise StopIteration
        self._told = True
        for name in names:
            self.logs[name] = results[name]
            self.steps[name] += counts[name]
        return names

    def _run_program(self, most: int | None) -> tuple[int, dict[str, int], dict[str, Logs]]:
        """Returns how many joint steps were taken, how many by each member, and what each logged last."""
        if not self.program.names:
            return 0, {}, {}
        ran, taken, results = self.program.run(self.feed.slices, self._fetch(), most)
        return int(taken), dict(zip(self.program.names, ran.numpy().tolist(), strict=True)), results

    def _run_bundle(self, bundle: BundlePass, most: int, counts: dict[str, int], results: dict[str, Logs]) -> int:
        taken = bundle.run(most)
        counts.update(taken)
        longest = max(taken.values())
        if longest:
            results.update(bundle.logs())
        return longest

    @property
    def _most(self) -> int:
        return self._burst if self._halt is None else min(self._burst, self._halt - self.joint_steps % self._halt)

    def _advance(self, taken: int, most: int, seconds: float) -> None:
        self.feed.advance(taken)
        self.joint_steps += taken
        self.ahead = max(taken - 1, 0)
        self.through = taken < most
        if seconds < self._burst_seconds / 2:
            self._burst = min(2 * self._burst, MOST_IN_BURST)
        elif seconds > self._burst_seconds:
            self._burst = max(self._burst // 2, 1)

    def _fetch(self) -> dict[str, tf.experimental.Optional]:
        """The next batch of every member with a stream, none of those that have no more."""
        return {name: self._ask(name, each.fetch, each.nothing) for name, each in self.feed.streams.items()}

    def _end_streams(self, counts: Mapping[str, int]) -> None:
        """End the epoch of the streams that had no batch: asking each by itself would cost more than the step."""
        for name, stream in self.feed.streams.items():
            if not counts[name] and stream.fetched:
                self._ask(name, stream.end, None)

    def advance(self) -> None:
        """Bring every stream to its next step: one that has none ends its epoch now, as in Keras."""
        for name in self.feed.streams:
            self.has_step(name)

    def close(self) -> Logs:
        """End a pass as Keras' own loop ends: where a step of the user's own returned values under the names of the
        model's metrics, their results take its place. A second call changes nothing.

        Returns:
            What has changed, as `member_metric`.
        """
        if self._closed is not None:
            return self._closed
        changed = self._closed = {}
        for unit in (member.unit for member in self.program.members):
            logs = self.logs.get(unit.name)
            if isinstance(logs, Mapping) and any(overrides(unit.model, step) for step in ("train_step", "test_step")):
                with suppress(ValueError):  # metrics that the step has never built
                    results = to_python(unit.model.get_metrics_result())
                    if set(results) == set(logs):
                        self.logs[unit.name] = results
                        changed.update({f"{unit.name}_{key}": value for key, value in flattened(results).items()})
        return changed

    @property
    def tells(self) -> bool:
        """Whether Keras' loop has caught up with what was taken ahead. Before that it is told nothing: reading the logs
        of many members again at each step would cost more than the steps."""
        return not self.ahead

    @property
    def flat_logs(self) -> Logs:
        """The last logs of every member that took part, as `member_metric`."""
        return {f"{name}_{key}": value for name, logs in self.logs.items() for key, value in flattened(logs).items()}

    def _ask(self, name: str, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        try:
            return question()
        except Exception as error:
            self._on_fault(name, error)
            return otherwise
