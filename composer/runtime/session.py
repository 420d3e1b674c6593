"""The state of one `fit` or `evaluate`: which members take part, how far each has come, what each logged last."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from composer.engine.feed import Feed, Gate
from composer.engine.programs import JointProgram, Logs, flattened, to_python
from composer.errors import ComposerWarning, DataError
from composer.graph.private import resumed_epoch
from composer.runtime.members import Member

TRAIN_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
TEST_HOOKS = ("on_test_batch_begin", "on_test_batch_end")
_DEFAULT_HOOKS = tuple(getattr(keras.callbacks.Callback, hook) for hook in (*TRAIN_HOOKS, *TEST_HOOKS))


@dataclass
class MemberRun:
    """One member in one `fit`.

    Args:
        member: whose run it is.
        callbacks: the member's own, with its own history; they see the member's model and plain names.
        epochs: range of the epochs it trains in.
        running: boolean variable; the joint program skips the member while it is false.
        validation_freq: as Keras' `fit` takes it; None without validation data.
    """

    member: Member
    callbacks: keras.callbacks.CallbackList
    epochs: range
    running: tf.Variable
    validation_freq: int | Sequence[int] | None = None
    step: int = 0
    validation_step: int = 0
    logs: Logs = field(default_factory=dict)
    validation_logs: Logs = field(default_factory=dict)
    in_epoch: bool = False
    ended: bool = False

    asked_to_stop: bool = False

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

    def watches(self, *hooks: str) -> bool:
        """Whether a callback has its own version of a hook, in its class or (`LambdaCallback`) on the object."""
        own = (getattr(callback, hook) for callback in self.callbacks.callbacks for hook in hooks)
        return any(getattr(hook, "__func__", None) not in _DEFAULT_HOOKS for hook in own)

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
        if bool(self.running.numpy()):
            self.running.assign(False)


@dataclass
class Pass:
    """One pass over a feed: an epoch of training, or an evaluation.

    Keras runs as many steps as the longest member ever needs. Once a step finds no member with a batch, the rest of the
    pass is skipped without touching the data; where a length is not known, the pass ends there.
    """

    program: JointProgram
    endless: bool = False
    through: bool = False
    logs: dict[str, Logs] = field(default_factory=dict)

    def begin(self) -> None:
        self.through = False
        self.logs = {}

    def step(self, iterator: Any) -> tuple[str, ...]:
        """Run the next step. Returns the members that took part."""
        if self.through:
            return ()  # Keras' count is not reached yet
        ran, results = self.program.step(iterator)
        names = tuple(name for name, flag in zip(self.program.names, ran.numpy(), strict=True) if flag)
        self.through = not names
        if self.through and self.endless:
            raise StopIteration
        self.logs.update({name: results[name] for name in names})
        return names

    @property
    def flat_logs(self) -> Logs:
        """The last logs of every member that took part, as `member_metric`."""
        return {f"{name}_{key}": value for name, logs in self.logs.items() for key, value in flattened(logs).items()}


class TrainingSession:
    """One `fit`: the runs of its members, stepped together.

    Args:
        runs: by member.
        feed: of the training rows.
        program: of the training steps.
        validation: feed and program of the validation rows, or None.
    """

    def __init__(
        self,
        runs: dict[str, MemberRun],
        feed: Feed,
        program: JointProgram,
        validation: tuple[Feed, JointProgram] | None,
    ) -> None:
        self.runs = runs
        self.feed = feed
        self.training = Pass(program, endless=feed.endless)
        self.validation_feed = None if validation is None else validation[0]
        self.validation = None if validation is None else Pass(validation[1], endless=validation[0].endless)
        self.epoch = 0
        self.watchers = [name for name, run in runs.items() if run.watches(*TRAIN_HOOKS)]
        self.test_watchers = [name for name, run in runs.items() if run.watches(*TEST_HOOKS)]
        self._check_beginnings()

    # Training ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for run in self.runs.values():
            run.member.model.stop_training = False
            run.tell("on_train_begin")
            run.epochs = range(resumed_epoch(run.member.model) or run.epochs.start, run.epochs.stop)
        self._check_beginnings()

    def _check_beginnings(self) -> None:
        """Keras fixes the number of steps in the first epoch; a longer member that begins later would lose rows."""
        if not self.feed.endless or len({run.epochs.start for run in self.runs.values() if run.epochs}) <= 1:
            return
        name = next(name for name, length in self.feed.num_batches.items() if length is None)
        raise DataError(
            f"the dataset of `{name}` cannot tell its length, and the members begin at different epochs, which is not "
            "supported yet. Add `.apply(tf.data.experimental.assert_cardinality(n))` to it, for n batches"
        )

    def begin_epoch(self, epoch: int) -> None:
        """Open the gates of the members that take part in an epoch. Called before Keras asks the data for an
        iterator."""
        self.epoch = epoch
        self.training.begin()
        for name, run in self.runs.items():
            run.in_epoch = run.takes_part(epoch)
            run.step, run.logs, run.validation_logs = 0, {}, {}
            _set_gate(self.feed.gates[name], run.in_epoch, epoch)
            run.running.assign(run.in_epoch)
            if run.in_epoch:
                run.member.trainer.reset_metrics()
                run.tell("on_epoch_begin", epoch)

    def train(self, iterator: Any) -> Logs:
        """One joint step, with the batch callbacks of the members that want them."""
        told = self._announce_batches()
        ran = self.training.step(iterator)
        for name in ran:
            run = self.runs[name]
            run.logs = self.training.logs[name]
            if name in self.watchers:
                if name not in told:  # a dataset that cannot tell its length: known only now that there was a batch
                    run.tell("on_train_batch_begin", run.step)
                run.tell("on_train_batch_end", run.step, to_python(run.logs))
            run.step += 1
            if run.stops:
                run.pause()
        return self.training.flat_logs

    def _announce_batches(self) -> set[str]:
        told = set()
        for name in self.watchers:
            run, length = self.runs[name], self.feed.num_batches[name]
            if run.in_epoch and not run.stops and length is not None and run.step < length:
                run.tell("on_train_batch_begin", run.step)
                told.add(name)
        return told

    def end_epoch(self, epoch: int) -> bool:
        """Close an epoch for the members in it. Returns whether any member has epochs left."""
        for run in self.runs.values():
            if not run.in_epoch:
                continue
            self.feed.end_epoch(run.member.name)
            if run.step == 0:
                warnings.warn(f"`{run.member.name}` had no rows in epoch {epoch + 1}", ComposerWarning, stacklevel=2)
            run.tell("on_epoch_end", epoch, {**to_python(run.logs), **run.validation_logs})
            if run.stops or epoch + 1 >= run.epochs.stop:
                self.end_run(run)
        return any(not run.ended for run in self.runs.values() if run.epochs)

    def end_run(self, run: MemberRun) -> None:
        """A member is through: what Keras does at the end of a `fit`, for it alone."""
        run.ended = True
        run.pause()
        optimizer = run.member.trainer.optimizer
        sharing = [other for other in self.runs.values() if other.member.trainer.optimizer is optimizer]
        # The average over the steps takes the place of the weights, so not while another member still trains them.
        last = all(other.ended for other in sharing)
        if isinstance(optimizer, keras.optimizers.Optimizer) and run.epochs.stop > 0 and last:
            weights = {id(w): w for other in sharing for w in other.member.trainer.trainable_weights}
            optimizer.finalize_variable_values(list(weights.values()))
        run.tell("on_train_end", {**to_python(run.logs), **run.validation_logs})

    # Validation ----------------------------------------------------------------------------------------------------

    def begin_validation(self) -> None:
        assert self.validation is not None
        assert self.validation_feed is not None
        self.validation.begin()
        for name, gate in self.validation_feed.gates.items():
            run = self.runs[name]
            present = run.validates(self.epoch)
            _set_gate(gate, present, 0)
            run.validation_step = 0
            if present:
                run.tell("on_test_begin")
                run.member.trainer.reset_metrics()

    def validate(self, iterator: Any) -> Logs:
        """One joint step of validation, with the batch callbacks of the members that want them."""
        assert self.validation is not None
        told = self._announce_validation_batches()
        for name in self.validation.step(iterator):
            run = self.runs[name]
            if name in self.test_watchers:
                if name not in told:
                    run.tell("on_test_batch_begin", run.validation_step)
                run.tell("on_test_batch_end", run.validation_step, to_python(self.validation.logs[name]))
            run.validation_step += 1
        return self.validation.flat_logs

    def _announce_validation_batches(self) -> set[str]:
        assert self.validation_feed is not None
        told = set()
        for name in self.test_watchers:
            run, length = self.runs[name], self.validation_feed.num_batches.get(name)
            if length is not None and run.validates(self.epoch) and run.validation_step < length:
                run.tell("on_test_batch_begin", run.validation_step)
                told.add(name)
        return told

    def end_validation(self) -> None:
        assert self.validation is not None
        for name, logs in self.validation.logs.items():
            values = to_python(logs)
            self.runs[name].tell("on_test_end", values)
            self.runs[name].validation_logs = {f"val_{key}": value for key, value in values.items()}


class FitController(keras.callbacks.Callback):
    """The first joint callback of a `fit`: lets every member begin and end its epochs when Keras does."""

    def __init__(self, session: TrainingSession) -> None:
        super().__init__()
        self.session = session

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.session.begin()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.session.begin_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if not self.session.end_epoch(epoch):
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        for run in self.session.runs.values():
            if not run.ended:
                self.session.end_run(run)


def _set_gate(gate: Gate, present: bool, epoch: int) -> None:
    gate.present.assign(present)
    gate.epoch.assign(epoch)
