"""From the arguments of `fit`, `evaluate` and `predict` to rows, runs and programs by member."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from composer.engine.feed import ArrayRows, Feed, Rows, array_stream, joint_feed
from composer.engine.programs import JointProgram, to_python
from composer.engine.streams import StreamRows
from composer.errors import ComposerWarning, DataError
from composer.graph.keyed import KeyedModel
from composer.runtime.arguments import FitRequest, counts
from composer.runtime.backup import backup_writer
from composer.runtime.bundling import bundled_training
from composer.runtime.checks import check_rows
from composer.runtime.compiling import check_compiled
from composer.runtime.conditions import conditions, described_rows
from composer.runtime.controller import FitController
from composer.runtime.data import MemberData, member_data, split_validation, weighted_by_class
from composer.runtime.history import JointHistory, check_log_names
from composer.runtime.keyed import keyed_rows, keys_of, with_keys
from composer.runtime.members import ByMember, Member
from composer.runtime.programs import ProgramCache
from composer.runtime.session import MemberRun, TrainingSession
from composer.runtime.target_gaps import without_gaps

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel

DEFAULT_BATCH_SIZE = 32  # Keras'


@dataclass(frozen=True)
class FitRows:
    """The rows of one `fit`: of every member to train on, of some to validate on.

    Args:
        training, validation: by member.
        described: by member, what a backup keeps of its rows; empty where there is none.
    """

    training: dict[str, Rows]
    validation: dict[str, Rows]
    described: dict[str, dict[str, Any]]


def training_rows(joint: ComposedModel, request: FitRequest, x: Any, y: Any, *, backed_up: bool = False) -> FitRows:
    """Check and convert the rows of all members.

    Args:
        joint: whose members they are.
        request, x, y: the arguments of `fit`.
        backed_up: whether a backup is to know the rows again.

    Raises:
        DataError: if a member has no rows, or rows that do not fit.
    """
    names, members = joint._by_member, joint.members
    given = member_data(names, with_keys(members, names, x), y, request.sample_weight)
    missing = [name for name in members if name not in given]
    if missing:
        told = ", ".join(f"`{name}`" for name in missing)
        raise DataError(
            f"no rows for {told}: `fit` trains all members. Give rows for each, or compose only those to train"
        )
    validation = {} if request.validation_data is None else _validation_data(members, names, request.validation_data)
    rows = FitRows({}, {}, {})
    for name, member in members.items():
        data = without_gaps(member, given[name])
        check_rows(member, data, targets=True)
        if request.validation_split[name] and name not in validation:
            data, validation[name] = split_validation(name, data, request.validation_split[name], keys_of(member, data))
        if request.class_weight[name] is not None:
            data = weighted_by_class(name, data, request.class_weight[name])
        if backed_up:
            rows.described[name] = {"rows": described_rows(data)}
        rows.training[name] = member_rows(
            member,
            data,
            request.batch_size[name],
            request.steps_per_epoch[name],
            shuffle=request.shuffle[name],
            first_epoch=request.initial_epoch[name],
        )
        _warn_of_one_pass(name, rows.training[name], request.epochs[name] - request.initial_epoch[name])
    _set_auto_groups(joint, request, rows.training)
    for name, given_data in validation.items():
        data = without_gaps(members[name], given_data)
        check_rows(members[name], data, targets=True)
        if backed_up:
            rows.described[name]["validation rows"] = described_rows(data)
        size = request.validation_batch_size[name]
        if size is None and data.dataset is None:  # that of the training rows says nothing of a dataset
            size = request.batch_size[name]
        rows.validation[name] = member_rows(
            members[name], data, size, request.validation_steps[name], steps_argument="validation_steps"
        )
    return rows


def _validation_data(members: Mapping[str, Member], names: ByMember, given: Any) -> dict[str, MemberData]:
    """Validation rows by member: `{member: (x, y)}`, or as Keras has it `({member: x}, {member: y})`."""
    by_part = isinstance(given, tuple) and len(names.names) > 1 and all(isinstance(part, Mapping) for part in given)
    if by_part and len(given) in (2, 3):
        return member_data(names, with_keys(members, names, given[0]), *given[1:])
    return member_data(names, with_keys(members, names, given))


def evaluation_rows(
    joint: ComposedModel, x: Any, y: Any, sample_weight: Any, batch_size: Any, steps: Any
) -> dict[str, Rows]:
    """Check and convert the rows of the members to evaluate.

    Raises:
        DataError: if rows do not fit their member.
        GraphError: if a member is not compiled.
    """
    given = member_data(joint._by_member, with_keys(joint.members, joint._by_member, x), y, sample_weight)
    check_compiled({name: joint.members[name] for name in given})
    sizes = counts(joint._by_member, "batch_size", batch_size)
    taken = counts(joint._by_member, "steps", steps)
    rows: dict[str, Rows] = {}
    for name, member in joint.members.items():
        if name in given:
            data = without_gaps(member, given[name])
            check_rows(member, data, targets=True)
            rows[name] = member_rows(member, data, sizes[name], taken[name], steps_argument="steps")
    return rows


def prediction_rows(joint: ComposedModel, x: Any, batch_size: Any, steps: Any) -> dict[str, Rows | None]:
    """Check and convert the rows of the members to predict; None for a member that was given 0 rows.

    Raises:
        DataError: if rows do not fit their member.
    """
    given = member_data(joint._by_member, with_keys(joint.members, joint._by_member, x), targets=False)
    sizes = counts(joint._by_member, "batch_size", batch_size)
    taken = counts(joint._by_member, "steps", steps)
    rows: dict[str, Rows | None] = {}
    for name, data in given.items():
        member = joint.members[name]
        check_rows(member, data, targets=False)
        empty = data.num_rows == 0 if data.dataset is None else data.adapter.num_batches == 0
        rows[name] = None if empty else member_rows(member, data, sizes[name], taken[name], steps_argument="steps")
    return rows


def member_rows(
    member: Member,
    data: MemberData,
    batch_size: int | None,
    steps: int | None = None,
    *,
    steps_argument: str = "steps_per_epoch",
    shuffle: bool = False,
    first_epoch: int = 0,
) -> Rows:
    """A member's rows in batches. Of a grouped member the batch size counts flat rows.

    Args:
        member: whose rows they are.
        data: the rows.
        batch_size: of arrays; of what yields batches it must be None.
        steps: batches an epoch; None for all there are.
        steps_argument: the name under which the caller gave them.
        shuffle: whether each epoch has an order of its own.
        first_epoch: the epoch that the first order belongs to.

    Raises:
        DataError: for a batch size beside batches, one that is no multiple of the group, no rows, or no end of them.
    """
    if data.dataset is not None:
        return _stream_rows(member, data, batch_size, steps, steps_argument, shuffle)
    if data.num_rows == 0:
        raise DataError(f"`{member.name}` has no rows")
    rows = _array_rows(member, data, batch_size or _default_batch_size(member, data.num_rows, steps), shuffle)
    sparse = any(isinstance(leaf, tf.SparseTensor) for leaf in keras.tree.flatten(rows.arrays))
    if sparse:  # there is no taking rows out of them but by a dataset
        steps = steps or rows.num_batches
    return rows if steps is None else array_stream(rows, steps, first_epoch)


def _stream_rows(
    member: Member, data: MemberData, batch_size: int | None, steps: int | None, steps_argument: str, shuffle: bool
) -> StreamRows:
    name = member.name
    if batch_size is not None:
        raise DataError(f"`{name}` comes as a dataset, which holds its own batches: leave out its `batch_size`")
    order = getattr(data.adapter, "py_dataset", None) if shuffle else None
    rows = StreamRows(data.adapter, data.dataset, steps, order)
    if rows.num_batches == 0:
        raise DataError(f"`{name}` has no rows: its dataset is empty")
    if rows.never_ends:
        raise DataError(f"the rows of `{name}` never end. Say how many batches are one epoch: `{steps_argument}=n`")
    if order is not None:
        order.shuffle(member.plan.member.seed, by_pass=steps is not None)
    return rows


def _array_rows(member: Member, data: MemberData, batch_size: int, shuffle: bool) -> ArrayRows:
    group = member.plan.member.group
    if isinstance(group, int) and batch_size % group:
        near = max(group, batch_size // group * group)
        raise DataError(
            f"the batch size of `{member.name}` counts flat rows and must be a multiple of its group of {group}. "
            f"Received: {batch_size}; {near} would do"
        )
    with tf.device("/device:CPU:0"):
        # A dataset would pack a list of arrays into one tensor.
        arrays = keras.tree.map_structure(_as_tensor, keras.tree.lists_to_tuples(data.arrays))
    rows = ArrayRows(arrays, data.num_rows, batch_size, shuffle, member.plan.member.seed)
    return keyed_rows(member.model, rows) if isinstance(member.model, KeyedModel) else rows


def _default_batch_size(member: Member, num_rows: int, steps: int | None) -> int:
    """Keras': 32 rows, or as many as make the number of steps asked for; whole groups of a grouped member."""
    group = member.plan.member.group
    group = group if isinstance(group, int) else 1
    return group * (DEFAULT_BATCH_SIZE if steps is None else math.ceil(num_rows / steps / group))


def _as_tensor(array: Any) -> Any:
    return array if isinstance(array, (tf.RaggedTensor, tf.SparseTensor)) else tf.convert_to_tensor(array)


def _warn_of_one_pass(name: str, rows: Rows, num_epochs: int) -> None:
    """A generator yields its batches once; then Keras finds no more than the two it had looked at."""
    if isinstance(rows, StreamRows) and rows.yields_once and rows.steps is None and num_epochs > 1:
        warnings.warn(
            f"the rows of `{name}` are a generator, which yields them once, but it is to train for {num_epochs} "
            "epochs: from the second on they are its first two batches, as in Keras' own `fit`. Say how many batches "
            "are one epoch (`steps_per_epoch`), or pass a `tf.data.Dataset` or a `keras.utils.PyDataset`",
            ComposerWarning,
            stacklevel=4,
        )


@dataclass(frozen=True)
class Fit:
    """One `fit`, ready to begin.

    Args:
        session: what it steps.
        callbacks: what Keras' loop is to call, in this order.
        initial_epoch: the epoch to begin with.
    """

    session: TrainingSession
    callbacks: list[keras.callbacks.Callback]
    initial_epoch: int


def begin(
    joint: ComposedModel,
    programs: ProgramCache,
    request: FitRequest,
    rows: FitRows,
    history: JointHistory,
    backup_dir: str | Path | None,
    checkpoint_every: int | None,
) -> Fit:
    """Make all that one `fit` needs; where there is a backup, it is to go on from there.

    Raises:
        DataError: for a `checkpoint_every` that makes no sense.
        ComposerError: if the backup is of another training, or cannot be read or written.
    """
    if checkpoint_every is not None and (backup_dir is None or checkpoint_every < 1):
        raise DataError(
            "`checkpoint_every` is a number of steps, at least 1, beside a `backup_dir` to write to. Received: "
            f"checkpoint_every={checkpoint_every}, backup_dir={backup_dir}"
        )
    stepped = session(joint, programs, request, rows, history, halt=checkpoint_every)
    callbacks = [FitController(stepped), *request.joint_callbacks, history]
    first = min(run.epochs.start for run in stepped.runs.values())
    if backup_dir is not None:
        needed = conditions(stepped, request, rows.described, joint.spec_text)
        writer = backup_writer(Path(backup_dir), checkpoint_every, stepped, callbacks[1:], needed)
        callbacks.append(writer)
        first = first if writer.first_epoch is None else writer.first_epoch
    return Fit(stepped, callbacks, first)


def session(
    joint: ComposedModel,
    programs: ProgramCache,
    request: FitRequest,
    rows: FitRows,
    history: JointHistory,
    *,
    halt: int | None = None,
) -> TrainingSession:
    """Everything one `fit` steps, ready to begin. See `Pass` for `halt`."""
    everyone = [member.unit for member in joint.members.values()]
    bundling = bundled_training(everyone, rows.training, rows.validation, programs, joint.plan.composition.fuse)
    joint.note(bundling.notes)
    history.keyed = bundling.keyed
    units = [unit for unit in everyone if unit.name not in bundling.names]
    feed = joint_feed(rows.training, bundling.names)
    program = programs.training(units, feed)
    validation: tuple[Feed, JointProgram] | None = None
    if rows.validation:
        validation_feed = joint_feed(rows.validation, bundling.names)
        validating = [unit for unit in units if unit.name in rows.validation]
        validation = (validation_feed, programs.testing(validating, validation_feed))
    names = {name: logged for state in bundling.bundles.states for name, logged in state.log_names.items()}
    validated = {name: logged for name, logged in names.items() if name in rows.validation}
    check_log_names({**program.log_names, **names}, {**(validation[1].log_names if validation else {}), **validated})
    runs = {}
    for name, member in joint.members.items():
        own = keras.callbacks.CallbackList(
            request.callbacks[name],
            add_history=True,
            model=member.model,
            epochs=request.epochs[name],
            steps=feed.num_batches[name],
            verbose=0,
        )
        history.members[name] = member.model.history
        runs[name] = MemberRun(
            member=member,
            callbacks=own,
            epochs=range(request.initial_epoch[name], request.epochs[name]),
            running=programs.running.get(name) if name not in bundling.names else None,
            validation_freq=request.validation_freq[name] if name in rows.validation else None,
        )
    kept = (history.faults, request.on_error, request.joint_callbacks, halt, bundling.bundles)
    return TrainingSession(runs, feed, program, validation, *kept)


def without_shared_models(members: Mapping[str, Member], names: Iterable[str]) -> list[list[str]]:
    """Members in groups none of which holds one model twice: its metrics can count for one member at a time."""
    groups: list[list[str]] = []
    for name in names:
        model = members[name].trainer
        free = (group for group in groups if all(members[other].trainer is not model for other in group))
        group = next(free, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def plain(logs: Mapping[str, Any]) -> dict[str, Any]:
    return to_python(dict(logs))


def _set_auto_groups(joint: ComposedModel, request: FitRequest, rows: dict[str, Rows]) -> None:
    """`group=auto`: batch sizes that give all members the same number of steps an epoch.

    The member with the most steps among those without `group=auto` sets the pace; the batch of a grouped one becomes
    as many joint batches as it needs to keep up.
    """
    auto = [name for name, member in joint.members.items() if member.plan.member.group == "auto"]
    auto = [name for name in auto if request.batch_size[name] is None and isinstance(rows[name], ArrayRows)]
    paces = [source.num_batches for name, source in rows.items() if name not in auto and source.num_batches]
    for name in auto:
        source = rows[name]
        assert isinstance(source, ArrayRows)
        pace = max(paces) if paces else source.num_batches or 1
        group = max(1, math.ceil(source.num_rows / pace / DEFAULT_BATCH_SIZE))
        rows[name] = ArrayRows(source.arrays, source.num_rows, group * DEFAULT_BATCH_SIZE, source.shuffle, source.seed)


@contextmanager
def reading(*feeds: Feed | None) -> Iterator[None]:
    """Within it, feeds are read by Keras' loop; then their streams are let go of, however it ended.

    Keras warns when a dataset of unknown length ends; that is how an epoch of streams ends.
    """
    there = [feed for feed in feeds if feed is not None]
    try:
        with warnings.catch_warnings() if any(feed.endless for feed in there) else nullcontext():
            if any(feed.endless for feed in there):
                warnings.filterwarnings("ignore", message="Your input ran out of data", category=UserWarning)
            yield
    finally:
        for feed in there:
            feed.release()
