"""The state of one `fit` or `evaluate`: which members take part, how far each has come, what each logged last."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras
import tensorflow as tf

from composer.engine.bundles import NO_BUNDLES, Bundles
from composer.engine.feed import Feed
from composer.engine.programs import JointProgram, Logs, flattened, to_python
from composer.errors import ComposerError, ComposerWarning
from composer.graph.private import resumed_epoch
from composer.runtime.faults import MemberFault, callback_fault, rows_fault
from composer.runtime.history import check_log_names
from composer.runtime.members import Member
from composer.runtime.passes import Pass
from composer.runtime.watching import TEST_HOOKS, TRAIN_HOOKS, looking, watching


@dataclass(frozen=True)
class Resumed:
    """How far a `fit` had come.

    Args:
        epoch: the epoch that is next, or was under way.
        joint_steps: steps taken in it.
        steps: batches taken in it, by member.
        members: each `MemberRun.progress`.
        faults: of members that were stopped by an exception, the epoch and the message.
    """

    epoch: int
    joint_steps: int
    steps: Mapping[str, int]
    members: Mapping[str, Mapping[str, Any]]
    faults: Mapping[str, tuple[int | None, str]]


@dataclass
class MemberRun:
    """One member in one `fit`.

    Args:
        member: whose run it is.
        callbacks: the member's own, with its own history; they see the member's model and plain names.
        epochs: range of the epochs it trains in.
        running: boolean variable; the joint program skips the member while it is false. None of one in a bundle.
        validation_freq: as Keras' `fit` takes it; None without validation data.
    """

    member: Member
    callbacks: keras.callbacks.CallbackList
    epochs: range
    running: tf.Variable | None
    validation_freq: int | Sequence[int] | None = None
    logs: Logs = field(default_factory=dict)
    validation_logs: Logs = field(default_factory=dict)
    in_epoch: bool = False
    ended: bool = False

    asked_to_stop: bool = False

    @property
    def progress(self) -> dict[str, Any]:
        """How far it has come, as plain data."""
        return {"ended": self.ended, "stops": self.stops, "logs": to_python(self.logs)}

    def tell(self, hook: str, *arguments: Any) -> None:
        """Call a hook of the member's callbacks. A callback stops its member through the model, which other members
        may have in common."""
        model = self.member.model
        if self.shares_model:
            model.stop_training = self.asked_to_stop
        getattr(self.callbacks, hook)(*arguments)
        self.asked_to_stop = bool(model.stop_training)

    @property
    def stops(self) -> bool:
        """Whether the member has been asked to stop: by a callback of its own, or by whoever holds its model."""
        return self.asked_to_stop if self.shares_model else bool(self.member.model.stop_training)

    @property
    def shares_model(self) -> bool:
        return self.member.trainer is not self.member.model

    def takes_part(self, epoch: int) -> bool:
        return not self.ended and epoch in self.epochs

    def validates(self, epoch: int) -> bool:
        if self.validation_freq is None or not self.in_epoch:
            return False
        if isinstance(self.validation_freq, int):
            return (epoch + 1) % self.validation_freq == 0
        return epoch + 1 in self.validation_freq

    def pause(self) -> None:
        """Take no more steps until the next epoch."""
        if self.running is not None and bool(self.running.numpy()):
            self.running.assign(False)

    @cached_property
    def looks(self) -> bool:
        """Whether its callbacks may look at the model, or change it."""
        return looking(self.callbacks.callbacks)


class TrainingSession:
    """One `fit`: the runs of its members, stepped together.

    Args:
        runs: by member.
        feed: of the training rows.
        program: of the training steps.
        validation: feed and program of the validation rows, or None.
        faults: where it is kept why a member was stopped by an exception.
        on_error: `continue` stops a member that fails alone, `raise` stops all.
        joint_callbacks: those that see all members.
        halt: see `Pass`.
        bundles: the passes of the members that are in bundles.
    """

    def __init__(
        self,
        runs: dict[str, MemberRun],
        feed: Feed,
        program: JointProgram,
        validation: tuple[Feed, JointProgram] | None,
        faults: dict[str, MemberFault],
        on_error: str = "continue",
        joint_callbacks: Sequence[keras.callbacks.Callback] = (),
        halt: int | None = None,
        bundles: Bundles = NO_BUNDLES,
    ) -> None:
        self.runs = runs
        self.watchers = [name for name, run in runs.items() if watching(run.callbacks.callbacks, TRAIN_HOOKS)]
        self.test_watchers = [name for name, run in runs.items() if watching(run.callbacks.callbacks, TEST_HOOKS)]
        watched = bool(self.watchers or watching(joint_callbacks, TRAIN_HOOKS))
        self.training = Pass(program, feed, self._fail_rows, watched=watched, halt=halt, bundles=bundles.training)
        self.validation = None
        if validation is not None:
            watched = bool(self.test_watchers or watching(joint_callbacks, TEST_HOOKS))
            self.validation = Pass(
                validation[1], validation[0], self._fail_rows, watched=watched, bundles=bundles.validation
            )
        self.faults = faults
        self.on_error = on_error
        self.epoch: int | None = None
        self._resumed: Resumed | None = None
        self._bundled = {name: state for state in bundles.states for name in state.where}
        self._joint_look = looking(joint_callbacks)
        self._looked = False  # whether joint callbacks may have changed a member since the last step

    # Training ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for name, run in self.runs.items():
            run.member.model.stop_training = False
            self._tell(run, "on_train_begin")
            if not run.ended:
                self.training.reset(name)
                self._replay(run)
            run.epochs = range(resumed_epoch(run.member.model) or run.epochs.start, run.epochs.stop)

    def resume(self, resumed: Resumed) -> None:
        """Go on where another `fit` stopped. Called before `begin`; it brings back no weights and callbacks."""
        self._resumed = resumed
        for name, run in self.runs.items():
            run.ended = resumed.members[name]["ended"]
            run.asked_to_stop = resumed.members[name]["stops"]
        for name, (epoch, message) in resumed.faults.items():
            self.faults[name] = MemberFault(epoch, ComposerError(message), message)

    def _replay(self, run: MemberRun) -> None:
        if self._resumed is not None:
            for epoch in range(run.epochs.start, min(self._resumed.epoch, run.epochs.stop)):
                self.training.feed.replay(run.member.name, epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Let the members that take part in an epoch begin. Called before Keras asks the data for an iterator."""
        self.epoch = epoch
        for run in self.runs.values():
            run.in_epoch = run.takes_part(epoch)
            run.logs, run.validation_logs = {}, {}
            if run.running is not None:
                run.running.assign(run.in_epoch)
        self.read_members()
        self.training.begin({name: epoch for name, run in self.runs.items() if run.in_epoch})
        for name, run in self.runs.items():
            if run.in_epoch:
                if name not in self._bundled:
                    run.member.trainer.reset_metrics()
                self._tell(run, "on_epoch_begin", epoch)
        if self._resumed is not None and self._resumed.joint_steps and self._resumed.epoch == epoch:
            self._go_on_within(self._resumed)
        self._resumed = None

    def _go_on_within(self, resumed: Resumed) -> None:
        self.training.skip(
            resumed.joint_steps, {name: n for name, n in resumed.steps.items() if self.runs[name].in_epoch}
        )
        for name in resumed.steps:
            run = self.runs[name]
            run.logs = self.training.logs[name] = resumed.members[name]["logs"]
            if resumed.members[name]["stops"]:
                run.asked_to_stop = run.member.model.stop_training = True
                self._pause(run)

    def train(self) -> Logs:
        """One joint step, with the batch callbacks of the members that want them."""
        self.read_members()
        self._announce(self.training, self.watchers, "on_train_batch_begin")
        for name in self.training.step():
            run = self.runs[name]
            run.logs = self.training.logs[name]
            if name in self.watchers:
                self._tell(run, "on_train_batch_end", self.training.steps[name] - 1, to_python(run.logs))
            if run.stops:
                self._pause(run)
        self._check_names()
        self.training.advance()
        if self.training.watched:
            self.show_members()
        return self.training.flat_logs if self.training.tells else {}

    def _check_names(self) -> None:
        """Of an eager program it shows only now under which names its members log."""
        if self.training.program.eager:
            logged = {name: list(flattened(run.logs)) for name, run in self.runs.items()}
            validated = {
                name: [key.removeprefix("val_") for key in run.validation_logs] for name, run in self.runs.items()
            }
            check_log_names(logged, validated)

    def end_epoch(self, epoch: int) -> bool:
        """Close an epoch for the members in it. Returns whether any member has epochs left."""
        self._check_names()
        for run in self.runs.values():
            if not run.in_epoch:
                continue
            run.logs = self.training.logs.get(run.member.name, run.logs)
            self._warn_of_missing_rows(run, epoch)
            self._tell(run, "on_epoch_end", epoch, {**to_python(run.logs), **run.validation_logs})
            if not run.ended and (run.stops or epoch + 1 >= run.epochs.stop):
                self.end_run(run)
        self.show_members()
        return any(not run.ended for run in self.runs.values() if run.epochs)

    def end(self) -> None:
        """Close the runs that are still open."""
        self.epoch = None
        for run in self.runs.values():
            if not run.ended:
                self.end_run(run)

    def end_run(self, run: MemberRun) -> None:
        """A member is through: what Keras does at the end of a `fit`, for it alone."""
        run.ended = True
        self._pause(run)
        self.write_members([run.member.name])
        optimizer = run.member.trainer.optimizer
        sharing = [other for other in self.runs.values() if other.member.trainer.optimizer is optimizer]
        # The average over the steps takes the place of the weights, so not while another member still trains them.
        last = all(other.ended for other in sharing)
        if isinstance(optimizer, keras.optimizers.Optimizer) and run.epochs.stop > 0 and last:
            weights = {id(w): w for other in sharing for w in other.member.trainer.trainable_weights}
            optimizer.finalize_variable_values(list(weights.values()))
        self._tell(run, "on_train_end", {**to_python(run.logs), **run.validation_logs})

    def _pause(self, run: MemberRun) -> None:
        run.pause()
        self.training.pause(run.member.name)

    def _warn_of_missing_rows(self, run: MemberRun, epoch: int) -> None:
        name = run.member.name
        steps, stream = self.training.steps[name], self.training.feed.streams.get(name)
        if stream is not None and stream.ran_out and stream.rows.steps is not None:
            told = (
                f"the rows of `{name}` ran out in epoch {epoch + 1} after {steps} of {stream.rows.steps} steps; the "
                "next epoch begins with them anew. Give it more rows, or fewer `steps_per_epoch`"
            )
        elif steps == 0:
            told = f"`{name}` had no rows in epoch {epoch + 1}"
        else:
            return
        warnings.warn(told, ComposerWarning, stacklevel=3)

    # Validation ----------------------------------------------------------------------------------------------------

    def begin_validation(self) -> None:
        assert self.validation is not None
        assert self.epoch is not None
        self.training.close()  # before the metrics begin anew
        present = [name for name in self.validation.feed.num_batches if self.runs[name].validates(self.epoch)]
        for name in present:
            self.validation.reset(name)
            self._tell(self.runs[name], "on_test_begin")
            if name not in self._bundled:
                self.runs[name].member.trainer.reset_metrics()
        self.validation.begin({name: 0 for name in present if self.runs[name].in_epoch})

    def validate(self) -> Logs:
        """One joint step of validation, with the batch callbacks of the members that want them."""
        assert self.validation is not None
        self._announce(self.validation, self.test_watchers, "on_test_batch_begin")
        for name in self.validation.step():
            if name in self.test_watchers:
                step, logs = self.validation.steps[name] - 1, to_python(self.validation.logs[name])
                self._tell(self.runs[name], "on_test_batch_end", step, logs)
        self.validation.advance()
        return self.validation.flat_logs if self.validation.tells else {}

    def end_validation(self) -> Logs:
        """Close the validation of an epoch. Returns what `Pass.close` does."""
        assert self.validation is not None
        changed = self.validation.close()
        for name, logs in list(self.validation.logs.items()):
            run, values = self.runs[name], to_python(logs)
            run.validation_logs = {f"val_{key}": value for key, value in values.items()}
            self._tell(run, "on_test_end", values)
        return changed

    # Members -------------------------------------------------------------------------------------------------------

    def write_members(self, names: Sequence[str] | None = None) -> None:
        """Bring the objects of members in bundles up to date, those named or all."""
        for state in {id(state): state for state in self._bundled.values()}.values():
            state.write(names)

    def show_members(self) -> None:
        """Joint callbacks are next, which may look at the members or change them."""
        if self._joint_look:
            self.write_members()
            self._looked = True

    def read_members(self, *, changed: bool = False) -> None:
        """Take over what was changed in the objects of members in bundles, if it may have been."""
        if self._looked or changed:
            for name, state in self._bundled.items():
                state.read(name)
        self._looked = False

    def _announce(self, which: Pass, watchers: list[str], hook: str) -> None:
        """Tell the callbacks of the members that are about to take a step."""
        for name in watchers:
            if which.has_step(name):
                self._tell(self.runs[name], hook, which.steps[name])

    def _tell(self, run: MemberRun, hook: str, *arguments: Any) -> None:
        """Call a hook of a member's callbacks; one that fails stops the member."""
        if run.ended and hook != "on_train_end":
            return  # stopped by a fault
        state = self._bundled.get(run.member.name) if run.looks else None
        if state is not None:
            state.write([run.member.name])
        try:
            run.tell(hook, *arguments)
            if state is not None:
                state.read(run.member.name)
        except Exception as error:
            callbacks = run.callbacks.callbacks
            self._fail(run, error, callback_fault(run.member.name, callbacks, error, self._where))

    def _fail_rows(self, name: str, error: Exception) -> None:
        self._fail(self.runs[name], error, rows_fault(name, error, self._where))

    @property
    def _where(self) -> str:
        return "" if self.epoch is None else f" in epoch {self.epoch + 1}"

    def _fail(self, run: MemberRun, error: Exception, told: Exception) -> None:
        """Stop a member that failed; the others go on, unless they are not to or there are none.

        Raises:
            Exception: `told`, if the fault is of composer's own, or of all members, or is to stop all of them.
        """
        name = run.member.name
        first = name not in self.faults
        if first:
            self.faults[name] = MemberFault(self.epoch, error, str(told))
        if self.on_error == "raise" or told is error:
            raise told from error.__cause__ if told is error else error
        run.in_epoch = False
        for each in (self.training, self.validation):
            if each is not None:
                each.drop(name)
        if not run.ended:
            self.end_run(run)
        if len(self.faults) == len(self.runs):
            raise told from error
        stopped = "it is stopped, the other members go on" if first else "it was stopped already"
        warnings.warn(f"{told}; {stopped}", ComposerWarning, stacklevel=2)
