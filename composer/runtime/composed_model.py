"""`ComposedModel`: the joint Keras model, driven by Keras' own `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

from composer.compiler.plan import Plan
from composer.engine.feed import Rows, joint_feed
from composer.engine.programs import Logs
from composer.errors import ExportError, GraphError
from composer.export.saved_model import export_saved_model
from composer.graph.lowering import lower
from composer.runtime import fitting, saving
from composer.runtime.arguments import FitRequest
from composer.runtime.atomic_files import write_atomically
from composer.runtime.bundling import bundled_evaluation, bundled_predictions
from composer.runtime.compiling import SETTINGS, check_compiled, compile_members
from composer.runtime.history import JointHistory
from composer.runtime.members import ByMember, Member
from composer.runtime.outputs import join_steps, no_rows, prediction_step
from composer.runtime.passes import Pass
from composer.runtime.programs import ProgramCache
from composer.runtime.session import TrainingSession
from composer.runtime.sharing import check_shared, member_trainers
from composer.runtime.watching import TEST_HOOKS, watching

_NO_SINGLE_BATCHES = (
    "a joint model is stepped by its own `fit`, `evaluate` and `predict`; single batches are not supported. "
    "Call the joint model itself on one batch for each member, or a member's own model"
)


@keras.saving.register_keras_serializable(package="composer")
class ComposedModel(saving.SavedByConfig):
    """Several Keras models in one program, each trained, evaluated and served as if it were alone.

    Made by `composer.compile`. As a Keras model it maps `{member: inputs}` to `{member: outputs}`.

    Args:
        plan: what runs where.
        models: each member's model, by member name, in the plan's order.
        spec_text: the spec this came from.
        sources: where each member's model came from, in words, by member name.

    Example:
        >>> a = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        >>> b = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(2)])
        >>> joint = composer.compile("parallel(a, b)", a=a, b=b)
        >>> joint.predict({"b": np.zeros((4, 5))}, verbose=0)["b"].shape
        (4, 2)
    """

    def __init__(
        self,
        plan: Plan,
        models: Mapping[str, keras.Model],
        *,
        spec_text: str = "",
        sources: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        graph = lower(plan, models)
        super().__init__(inputs=graph.inputs, outputs=graph.outputs, name=name or "composed")
        trainers = member_trainers(models)
        members = {
            name: Member.create(placed, models[name], trainers[name], graph.replicas[name], plan.topology)
            for name, placed in ((placed.member.name, placed) for placed in plan.members)
        }
        # Keras tracks what it finds in attributes; a proxy keeps the members from being counted twice.
        self._members = MappingProxyType(members)
        self._by_member = ByMember.create(plan)
        self._plan = plan
        self._planned_notes = plan.notes
        self._spec_text = spec_text
        self._sources = MappingProxyType(dict(sources or {}))
        self._programs = ProgramCache(plan.composition.jit)
        self._session: TrainingSession | None = None
        self._evaluation: Pass | None = None
        self._thread = threading.local()  # calls of `predict` may run side by side
        # The members hold optimizers, losses and metrics; Keras only wants to know that there is nothing left to
        # compile.
        super().compile(optimizer=None, loss=None, jit_compile=False)

    # What there is -------------------------------------------------------------------------------------------------

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by name, in the order of the spec."""
        return self._members

    @property
    def plan(self) -> Plan:
        """What runs where, and why. It prints itself."""
        return self._plan

    def note(self, notes: Sequence[str]) -> None:
        """Let the plan say what the last `fit` did, and why."""
        self._plan = replace(self._plan, notes=(*self._planned_notes, *notes))

    @property
    def spec_text(self) -> str:
        """The spec this model came from."""
        return self._spec_text

    def member_source(self, name: str) -> str:
        """Where a member's model came from: a path, a factory, or `python`."""
        return self._sources.get(name, "python")

    # Training ------------------------------------------------------------------------------------------------------

    def compile(self, optimizer: Any = None, loss: Any = None, **settings: Any) -> None:
        """Compile the members' models: one value for all, or a dict by member, branch or `"*"`.

        Each member's own model is compiled, as its own `compile` would; members that are compiled already need none.

        Args:
            optimizer: name or object; one object for several members is copied for each.
            loss: name, object or function.
            **settings: `metrics`, `weighted_metrics`, `loss_weights`, `jit_compile`, `run_eagerly`, `auto_scale_loss`
                as `keras.Model.compile` takes them.

        Raises:
            DataError: if a dict names no member.

        Example:
            >>> joint.compile(optimizer={"a": "adam", "b": "sgd"}, loss="mse", metrics={"a": ["mae"]})
        """
        unknown = sorted(set(settings) - set(SETTINGS))
        if unknown:
            raise GraphError(f"`compile` takes {', '.join(SETTINGS)}. Received: {', '.join(unknown)}")
        compile_members(self._members, self._by_member, {"optimizer": optimizer, "loss": loss, **settings})

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: Any = None,
        epochs: Any = None,
        verbose: Any = "auto",
        callbacks: Any = None,
        backup_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        **arguments: Any,
    ) -> JointHistory:
        """Train all members side by side, each as its own `fit` would train it.

        Every argument is one value for all members or a dict by member, branch or `"*"`.

        Args:
            x: `{member: (x, y)}`, `{member: (x, y, sample_weight)}` or `{member: tf.data.Dataset of batches}`; or
                `{member: x}` beside `y={member: y}`. Arrays may be NumPy's, tensors (ragged and sparse ones too), data
                frames and series of pandas, sparse matrices of SciPy, or structures of them; in place of a dataset a
                `keras.utils.PyDataset` or a Python generator of batches will do.
            y: targets by member, where `x` holds none.
            batch_size: rows a batch, for arrays; if left out what the spec's `train` says, else 32 (of a grouped
                member its group times that).
            epochs: each member stops after its own; if left out what the spec's `train` says, else 1.
            verbose: as in Keras.
            callbacks: `{member: [...]}` see the member's model and plain names; under `"*"`, or as a list, they are
                joint and see `member_metric`.
            backup_dir: a folder to keep a backup in while training goes on. Where it holds one, because the process
                was killed, the same call goes on from there, to the end of a training that was never stopped. What
                yields batches (datasets, generators) is run through again up to there.
            checkpoint_every: joint steps after which to write the backup within an epoch too.
            **arguments: `steps_per_epoch`, `validation_data`, `validation_split`, `validation_freq`,
                `validation_steps`, `validation_batch_size`, `shuffle`, `class_weight`, `sample_weight`,
                `initial_epoch` as Keras' `fit` takes them. `on_error`, one for all members, says what becomes of the
                others when the rows or a callback of one raises an exception: `"continue"` (the default) stops that
                member alone, with a warning; `"raise"` stops all.

        Returns:
            History with `history` by `member_metric`, and `members[name].history`; `faults[name]` tells why a member
            was stopped by an exception.

        Raises:
            DataError: if rows do not fit their member, or an argument names none; if the rows of all members fail, or
                those of one with `on_error="raise"`.
            GraphError: if a member is not compiled.
            ComposerError: if a callback fails, likewise.
            ResumeError: if the backup is of another training; it tells what differs.

        Warns:
            ComposerWarning: a member was stopped by an exception, or had fewer rows than steps.

        Example:
            >>> data = {"a": (xa, ya), "b": (xb, yb)}
            >>> history = joint.fit(data, epochs={"a": 3, "b": 5}, batch_size={"a": 4, "b": 2}, verbose=0)
            >>> len(history.members["a"].history["loss"]), len(history.history["b_loss"])
            (3, 5)
        """
        check_compiled(self._members)
        check_shared(self._members)
        given = {"batch_size": batch_size, "epochs": epochs, "callbacks": callbacks, **arguments}
        request = FitRequest.create(self._by_member, self._plan, given)
        rows = fitting.training_rows(self, request, x, y, backed_up=backup_dir is not None)
        history = JointHistory()
        run = fitting.begin(self, self._programs, request, rows, history, backup_dir, checkpoint_every)
        self._session = session = run.session
        try:
            validation = None if session.validation is None else session.validation.feed
            with fitting.reading(session.training.feed, validation):
                super().fit(
                    session.training.feed.counted_steps,
                    shuffle=False,  # Keras cannot shuffle a dataset; ours is in order already
                    epochs=max(run.epochs.stop for run in session.runs.values()),
                    initial_epoch=run.initial_epoch,
                    verbose=verbose,
                    callbacks=run.callbacks,
                    validation_data=None if validation is None else validation.steps,
                )
        finally:
            session.write_members()
            self._session = None
        return history

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: Any = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: Any = None,
        **arguments: Any,
    ) -> dict[str, dict[str, float]]:
        """Loss and metrics of the members that data is given for; only those run.

        Args:
            x, y, batch_size, sample_weight: as in `fit`.
            steps: batches to evaluate, one number for all or by member; all there are if left out.
            verbose, callbacks: as in Keras.

        Returns:
            `{member: {"loss": ..., metric: ...}}`.

        Raises:
            DataError: if rows do not fit their member.
        """
        if arguments.pop("_use_cached_eval_dataset", False):  # Keras validates within `fit`
            return self._validate(x, verbose=verbose, **arguments)
        rows = fitting.evaluation_rows(self, x, y, sample_weight, batch_size, steps)
        results: dict[str, dict[str, float]] = {}
        for names in fitting.without_shared_models(self._members, rows):
            results.update(self._evaluate({name: rows[name] for name in names}, verbose=verbose, **arguments))
        return {name: results[name] for name in rows}

    def _evaluate(self, rows: Mapping[str, Rows], **arguments: Any) -> dict[str, dict[str, float]]:
        """Evaluate members side by side, none of which share a model."""
        units = [self._members[name].unit for name in rows]
        bundling = bundled_evaluation(units, rows, self._programs, self._plan.composition.fuse)
        feed = joint_feed(rows, bundling.names)
        joined = [unit for unit in units if unit.name not in bundling.names]
        program = self._programs.testing(joined, feed)
        for unit in joined:
            unit.model.reset_metrics()
        callbacks = [each for each in keras.tree.flatten(arguments.get("callbacks")) if each is not None]
        watched = watching(callbacks, TEST_HOOKS)
        self._evaluation = Pass(program, feed, watched=watched, bundles=bundling.bundles.validation)
        try:
            self._evaluation.begin_all()
            with fitting.reading(feed):
                super().evaluate(feed.steps, return_dict=True, **arguments)
            self._evaluation.close()
            return {name: fitting.plain(self._evaluation.logs.get(name, {})) for name in rows}
        finally:
            self._evaluation = None
            for state in bundling.bundles.states:
                state.write()

    def predict(
        self, x: Any, batch_size: Any = None, verbose: Any = "auto", steps: Any = None, callbacks: Any = None
    ) -> dict[str, Any]:
        """Predictions of the members that rows are given for; only those run. Row i in, row i out.

        Args:
            x: `{member: x}`, of any kind that `fit` takes; any number of rows, none included.
            batch_size: rows a batch, one for all or by member; 32 if left out.
            verbose, callbacks: as in Keras.
            steps: batches to predict, one number for all or by member; all there are if left out.

        Returns:
            `{member: predictions}`, each in the member's own structure of outputs.

        Raises:
            DataError: if rows do not fit their member, or outputs of different batches cannot be joined.
        """
        rows = fitting.prediction_rows(self, x, batch_size, steps)
        outputs = {name: no_rows(self._members[name].model) for name, source in rows.items() if source is None}
        rows_to_run = {name: source for name, source in rows.items() if source is not None}
        units = [self._members[name].unit for name in rows_to_run]
        if steps is None:  # else it may be asked for more rows than there are
            outputs.update(bundled_predictions(units, rows_to_run, self._programs, self._plan.composition.fuse))
        if rows_to_run:
            feed = joint_feed(rows_to_run, outputs)
            program = self._programs.predicting([unit for unit in units if unit.name not in outputs], feed)
            taken: list[dict[str, Any]] = []
            step = prediction_step(program, feed, taken)
            with fitting.reading(feed), self._predicting(step):
                super().predict(feed.steps, verbose=verbose, callbacks=callbacks)
            outputs.update({name: join_steps(self._members[name], taken) for name in program.names})
        return {name: outputs[name] for name in rows}

    # The points at which Keras' loops are extended -------------------------------------------------------------------

    def make_train_function(self, force: bool = False) -> None:
        self.train_function = lambda _: self._running_session.train()

    def make_test_function(self, force: bool = False) -> None:
        def test(_: Any) -> Logs:
            if self._evaluation is not None:
                self._evaluation.step()
                self._evaluation.advance()
                return self._evaluation.flat_logs
            return self._running_session.validate()

        self.test_function = test

    def make_predict_function(self, force: bool = False) -> None:
        def predict(data: Any) -> Any:
            step = getattr(self._thread, "predict_step", None)
            if step is None:
                raise GraphError(_NO_SINGLE_BATCHES)
            return step(data)

        self.predict_function = predict

    @contextlib.contextmanager
    def _predicting(self, step: Callable[[Any], Any]) -> Iterator[None]:
        """Within it, Keras' loop in this thread runs a predict step."""
        outer = getattr(self._thread, "predict_step", None)
        self._thread.predict_step = step
        try:
            yield
        finally:
            self._thread.predict_step = outer

    @property
    def _running_session(self) -> TrainingSession:
        if self._session is None:
            raise GraphError(_NO_SINGLE_BATCHES)
        return self._session

    def _validate(self, x: Any, **arguments: Any) -> Logs:
        """The validation of one epoch, called by Keras' `fit`."""
        session = self._running_session
        session.begin_validation()
        logs = super().evaluate(
            x,
            _use_cached_eval_dataset=True,
            return_dict=True,
            **{k: v for k, v in arguments.items() if k in ("verbose", "callbacks")},
        )
        return {**logs, **session.end_validation()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None of its own: each member's model holds its metrics."""
        return []

    def get_metrics_result(self) -> Logs:
        return {}

    # Saving --------------------------------------------------------------------------------------------------------

    def export(self, filepath: str | Path, format: str = "tf_saved_model", *, keep_devices: bool = False) -> Path:
        """Write a SavedModel as the next version under a folder: a signature a member, `serving_default` for all.

        Args:
            filepath: the folder that holds the versions.
            format: `tf_saved_model`, the only one for several models in one artefact.
            keep_devices: keep replicas and device names in the graph, for a server with the same devices.

        Returns:
            The folder of the new version.

        Raises:
            ExportError: if it cannot be written; earlier versions are untouched.
        """
        if format != "tf_saved_model":
            raise ExportError(
                f"a joint model is exported as `tf_saved_model`. Received: format={format!r}. For other formats export "
                f'a member alone: `joint.members["{next(iter(self._members))}"].model.export(..., format={format!r})`'
            )
        return export_saved_model(self, Path(filepath), keep_devices=keep_devices)

    def save(self, filepath: str | Path, overwrite: bool = True, zipped: bool | None = None, **arguments: Any) -> None:
        """Save all members, each with its settings and optimizer state, for `composer.load`.

        The file appears whole or not at all: an earlier one stays until the new one is on the disk.

        Args:
            filepath: a `.keras` file.
            overwrite: whether an earlier file may be replaced.
            zipped: a joint model is one file; only None and True are taken.
            **arguments: as in Keras.

        Raises:
            ComposerError: for a file of another kind, one that is there already, or one that cannot be written.
        """
        path = saving.place_to_save(filepath, overwrite=overwrite, zipped=zipped)
        write_atomically(path, lambda temporary: super(ComposedModel, self).save(temporary, **arguments))
