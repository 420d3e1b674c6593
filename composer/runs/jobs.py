"""A spec's whole job, from its text to trained members in a run folder: `composer fit` without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras

from composer.data_files.files import Rows
from composer.errors import ResumeError
from composer.language import nodes
from composer.language.parser import parse
from composer.runs.faults import faults_told, raise_faults, resumed_otherwise
from composer.runs.file_hashes import file_hashes
from composer.runs.job_checks import check_arguments, check_trainable, gaps_told
from composer.runs.job_rows import as_keras_takes, training_rows
from composer.runs.progress import FitListener, StopBetweenBatches, progress_callbacks
from composer.runs.ranking import Ranking, rankings
from composer.runs.requirements import check_has_data
from composer.runs.run_folder import MemberRecord, RunFolder, RunRecord, read_run
from composer.runs.run_recorder import RunRecorder
from composer.runtime.backup import read_backup
from composer.runtime.building import build_joint
from composer.runtime.composed_model import ComposedModel
from composer.runtime.settings import make_callbacks
from composer.source import SourceText


@dataclass(frozen=True)
class FitOptions:
    """How a spec is fitted, beyond what it says itself.

    Args:
        graph: the composition to take, by its `let` name.
        allow_python: whether factories that the spec names may run.
        epochs, batch_size: instead of what the spec says, for all members.
        seed: the base of all members' seeds, instead of the spec's.
    """

    graph: str | None = None
    allow_python: bool = False
    epochs: int | None = None
    batch_size: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class FitJob:
    """A spec ready to be trained: its models are loaded, its rows read and checked, and nothing is written yet."""

    source: SourceText
    options: FitOptions
    joint: ComposedModel
    rows: dict[str, Rows]


@dataclass(frozen=True)
class FitResult:
    """How a job went.

    Args:
        folder: the run folder.
        histories: member -> metric -> one value an epoch.
        interrupted: whether it was stopped by Ctrl-C. The members are saved as they were then.
        rankings: of each branch with copies, the best first.
    """

    folder: Path
    histories: dict[str, dict[str, list[float]]]
    interrupted: bool = False
    rankings: tuple[Ranking, ...] = ()

    def epochs(self, member: str) -> int:
        """How many epochs a member has been through."""
        return max(map(len, self.histories[member].values()), default=0)


def prepare_fit(source: SourceText, options: FitOptions = FitOptions()) -> FitJob:
    """Load the models and the rows that a spec names, and check that all of it can be trained.

    Raises:
        SpecError: with all faults of a stage.
        DeviceError: the machine lacks devices.
        DataError: a member has no rows, or rows that do not fit.
        GraphError: a model cannot be loaded, or a member has no optimizer or loss.

    Example:
        >>> model_a.save("a.keras")
        >>> np.savez("a.npz", x=xa, y=ya)
        >>> spec = SourceText('model a = "a.keras" data a = "a.npz" train a optimizer=sgd loss=mse parallel(a)')
        >>> result = run_fit(prepare_fit(spec, FitOptions(epochs=2)), Path("runs/first"))
        >>> result.epochs("a")
        2
    """
    tree = parse(source)
    if options.seed is not None:
        tree = with_seed(tree, options.seed)
    joint = build_joint(tree, source, {}, graph=options.graph, allow_python=options.allow_python)
    check_has_data(joint.plan, source)
    check_trainable(joint.members, source)
    rows = training_rows(joint, source, allow_python=options.allow_python)
    job = FitJob(source, options, joint, rows)
    check_arguments(joint.members, joint_arguments(job), source)
    return job


def run_fit(
    job: FitJob,
    path: Path,
    *,
    force: bool = False,
    resume: bool = False,
    checkpoint_every: int | None = None,
    spec_path: Path | None = None,
    listener: FitListener | None = None,
    should_stop: Callable[[], bool] | None = None,
    rank: str | None = None,
) -> FitResult:
    """Train all members and write the run folder. However it ends, what was trained is in the folder.

    While it goes on, a backup is kept in the folder; a run that was cut off is resumed from it.

    Args:
        job: what `prepare_fit` gave.
        path: the run folder; it must be new or empty.
        force: whether an earlier run in it may be replaced.
        resume: whether to go on with the run in the folder, which was started with the same job.
        checkpoint_every: joint steps after which to write the backup within an epoch too.
        spec_path: the file of the spec, from which its relative paths are found again later.
        listener: is told how it goes.
        should_stop: asked before each batch; where it says so, the run is interrupted.
        rank: the metric that the copies of a branch are ranked by; see `rankings`.

    Raises:
        ComposerError: the folder cannot be written, rows do not fit, a callback fails, or (`ResumeError`) what the job
            does is not what the run in the folder did.
    """
    if resume:
        folder = RunFolder(path)
        record = read_run(path).record.resume(_arguments(job, checkpoint_every))
    else:
        record = _record(job, spec_path, checkpoint_every)
        folder = RunFolder.create(path, force=force)
        folder.write_spec(job.source.text)
        folder.write_plan(job.joint.plan)
    backup = read_backup(folder.backup)
    recorder = RunRecorder(folder, job.joint, record, {} if backup is None else backup.histories, resume)
    own: dict[str, list[Any]] = {
        name: make_callbacks(name, member.plan.member.train, path) for name, member in job.joint.members.items()
    }
    told = progress_callbacks(listener, job.joint.members) if listener is not None else {}
    stopping = [StopBetweenBatches(should_stop)] if should_stop is not None else []
    callbacks = {name: [*own.get(name, ()), *told.get(name, ())] for name in [*own, "*"]}
    callbacks["*"] = [*stopping, *callbacks["*"]]
    interrupted = False
    try:
        with faults_told(path, job.joint.members, job.source), recorder, gaps_told():
            history = job.joint.fit(
                **joint_arguments(job),
                callbacks=recorder.callbacks(callbacks),
                backup_dir=folder.backup,
                checkpoint_every=checkpoint_every,
                verbose=0,
            )
            folder.write_plan(job.joint.plan)  # now it says what was batched
            for name, metrics in history.by_key.items():
                layer = job.joint.members[name].model.layer
                folder.write_keys(name, layer.column, layer.keys, metrics)
            raise_faults(history.faults)
    except KeyboardInterrupt:
        interrupted = True
    except ResumeError as error:
        raise resumed_otherwise(path, error) from error
    finally:
        _close_logs(own)
    ranked = rankings(job.joint.members, recorder.histories, rank)
    folder.keep_best(ranked)
    return FitResult(path, recorder.histories, interrupted, tuple(ranked))


def _close_logs(callbacks: Mapping[str, list[Any]]) -> None:
    """Keras closes them at the end of a training, which one that was interrupted does not reach."""
    for callback in (each for own in callbacks.values() for each in own):
        if isinstance(callback, keras.callbacks.CSVLogger) and callback.csv_file is not None:
            callback.csv_file.close()


def joint_arguments(job: FitJob) -> dict[str, Any]:
    """The arguments of `joint.fit`: the rows, and what the options overrule. The rest it finds in the spec."""
    arguments: dict[str, dict[str, Any]] = {"x": {}, "validation_data": {}, "epochs": {}, "batch_size": {}}
    for name, member in job.joint.members.items():
        rows = job.rows[name]
        arguments["x"][name] = as_keras_takes(member.model, rows)
        if rows.validation is not None:
            arguments["validation_data"][name] = as_keras_takes(member.model, rows.validation)
        if job.options.epochs is not None:
            arguments["epochs"][name] = job.options.epochs
        if job.options.batch_size is not None and rows.num_rows is not None:  # a dataset holds its own batches
            arguments["batch_size"][name] = job.options.batch_size
    return {key: values for key, values in arguments.items() if values}


def with_seed(tree: nodes.Spec, seed: int) -> nodes.Spec:
    """The spec with `seed` as the base of all seeds: what `train * seed=N` alone would say."""
    option = nodes.Option(nodes.Name("seed"), nodes.Literal(seed))
    statements: list[nodes.Statement] = []
    for statement in tree.statements:
        if isinstance(statement, nodes.Train):
            kept = tuple(each for each in statement.options if each.name.text != "seed")
            statement = replace(statement, options=(*kept, option) if statement.name is None else kept)
        statements.append(statement)
    if not any(isinstance(statement, nodes.Train) and statement.name is None for statement in statements):
        statements.append(nodes.Train(None, (option,)))
    return replace(tree, statements=tuple(statements))


def _record(job: FitJob, spec_path: Path | None, checkpoint_every: int | None) -> RunRecord:
    members = {
        name: MemberRecord(member.plan.member.seed, None, job.rows[name].features, job.rows[name].classes)
        for name, member in job.joint.members.items()
    }
    files = file_hashes(job.joint.plan.composition, job.source.folder)
    where = str(spec_path.absolute()) if spec_path is not None else None
    return RunRecord.start(_arguments(job, checkpoint_every), members, where, files)


def _arguments(job: FitJob, checkpoint_every: int | None) -> dict[str, Any]:
    options = job.options
    return {
        "graph": options.graph,
        "allow_python": options.allow_python,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "seed": options.seed,
        "checkpoint_every": checkpoint_every,
    }
