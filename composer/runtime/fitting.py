"""From the arguments of `fit`, `evaluate` and `predict` to rows, runs and programs by member."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from composer.engine.feed import ArrayRows, DatasetRows, Feed, Rows, joint_feed
from composer.engine.programs import JointProgram, to_python
from composer.errors import DataError
from composer.runtime.arguments import FitRequest, batch_sizes
from composer.runtime.checks import check_rows
from composer.runtime.compiling import check_compiled
from composer.runtime.data import MemberData, member_data, split_validation, weighted_by_class
from composer.runtime.history import JointHistory, check_log_names
from composer.runtime.members import ByMember, Member
from composer.runtime.outputs import as_numpy
from composer.runtime.programs import ProgramCache
from composer.runtime.session import MemberRun, TrainingSession

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel

DEFAULT_BATCH_SIZE = 32  # Keras'


@dataclass(frozen=True)
class FitRows:
    """The rows of one `fit`: of every member to train on, of some to validate on."""

    training: dict[str, Rows]
    validation: dict[str, Rows]


def training_rows(joint: ComposedModel, request: FitRequest, x: Any, y: Any) -> FitRows:
    """Check and convert the rows of all members.

    Raises:
        DataError: if a member has no rows, or rows that do not fit.
    """
    names, members = joint._by_member, joint.members
    given = member_data(names, x, y, request.sample_weight)
    missing = [name for name in members if name not in given]
    if missing:
        told = ", ".join(f"`{name}`" for name in missing)
        raise DataError(
            f"no rows for {told}: `fit` trains all members. Give rows for each, or compose only those to train"
        )
    validation = {} if request.validation_data is None else _validation_data(names, request.validation_data)
    rows = FitRows({}, {})
    for name, member in members.items():
        data = given[name]
        check_rows(member, data, targets=True)
        if request.validation_split[name] and name not in validation:
            data, validation[name] = split_validation(name, data, request.validation_split[name])
        if request.class_weight[name] is not None:
            data = weighted_by_class(name, data, request.class_weight[name])
        rows.training[name] = member_rows(member, data, request.batch_size[name], shuffle=request.shuffle[name])
    _set_auto_groups(joint, request, rows.training)
    for name, data in validation.items():
        check_rows(members[name], data, targets=True)
        size = request.validation_batch_size[name]
        if size is None and data.dataset is None:  # that of the training rows says nothing of a dataset
            size = request.batch_size[name]
        rows.validation[name] = member_rows(members[name], data, size)
    _check_validation_lengths(request, rows.validation)
    return rows


def _validation_data(names: ByMember, given: Any) -> dict[str, MemberData]:
    """Validation rows by member: `{member: (x, y)}`, or as Keras has it `({member: x}, {member: y})`."""
    by_part = isinstance(given, tuple) and len(names.names) > 1 and all(isinstance(part, Mapping) for part in given)
    return member_data(names, *given) if by_part and len(given) in (2, 3) else member_data(names, given)


def evaluation_rows(joint: ComposedModel, x: Any, y: Any, sample_weight: Any, batch_size: Any) -> dict[str, Rows]:
    """Check and convert the rows of the members to evaluate.

    Raises:
        DataError: if rows do not fit their member.
        GraphError: if a member is not compiled.
    """
    given = member_data(joint._by_member, x, y, sample_weight)
    check_compiled({name: joint.members[name] for name in given})
    sizes = batch_sizes(joint._by_member, batch_size)
    for name, data in given.items():
        check_rows(joint.members[name], data, targets=True)
    return {name: member_rows(joint.members[name], data, sizes[name]) for name, data in given.items()}


def prediction_rows(joint: ComposedModel, x: Any, batch_size: Any) -> dict[str, Rows | None]:
    """Check and convert the rows of the members to predict; None for a member that was given 0 rows.

    Raises:
        DataError: if rows do not fit their member.
    """
    given = member_data(joint._by_member, x, targets=False)
    sizes = batch_sizes(joint._by_member, batch_size)
    rows: dict[str, Rows | None] = {}
    for name, data in given.items():
        check_rows(joint.members[name], data, targets=False)
        empty = data.num_rows == 0 if data.dataset is None else DatasetRows(data.dataset).num_batches == 0
        rows[name] = None if empty else member_rows(joint.members[name], data, sizes[name])
    return rows


def member_rows(member: Member, data: MemberData, batch_size: int | None, *, shuffle: bool = False) -> Rows:
    """A member's rows in batches. Of a grouped member the batch size counts flat rows.

    Raises:
        DataError: for a batch size beside a dataset, one that is no multiple of the group, or no rows.
    """
    if data.dataset is not None:
        if batch_size is not None:
            raise DataError(
                f"`{member.name}` comes as a dataset, which holds its own batches: leave out its `batch_size`"
            )
        dataset = DatasetRows(data.dataset)
        if dataset.num_batches == 0:
            raise DataError(f"`{member.name}` has no rows: its dataset is empty")
        return dataset
    if data.num_rows == 0:
        raise DataError(f"`{member.name}` has no rows")
    group = member.plan.member.group
    if isinstance(group, int):
        if batch_size is not None and batch_size % group:
            near = max(group, batch_size // group * group)
            raise DataError(
                f"the batch size of `{member.name}` counts flat rows and must be a multiple of its group of {group}. "
                f"Received: {batch_size}; {near} would do"
            )
        batch_size = batch_size or group * DEFAULT_BATCH_SIZE
    with tf.device("/device:CPU:0"):
        # A dataset would pack a list of arrays into one tensor.
        arrays = keras.tree.map_structure(tf.convert_to_tensor, keras.tree.lists_to_tuples(data.arrays))
    return ArrayRows(arrays, data.num_rows, batch_size or DEFAULT_BATCH_SIZE, shuffle, member.plan.member.seed)


def session(
    joint: ComposedModel, programs: ProgramCache, request: FitRequest, rows: FitRows, history: JointHistory
) -> TrainingSession:
    """Everything one `fit` steps, ready to begin."""
    units = [member.unit for member in joint.members.values()]
    feed = joint_feed(rows.training)
    program = programs.training(units, feed)
    validation: tuple[Feed, JointProgram] | None = None
    if rows.validation:
        validation_feed = joint_feed(rows.validation)
        validating = [unit for unit in units if unit.name in rows.validation]
        validation = (validation_feed, programs.testing(validating, validation_feed))
    check_log_names(program.log_names, validation[1].log_names if validation else {})
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
            running=programs.running[name],
            validation_freq=request.validation_freq[name] if name in rows.validation else None,
        )
    return TrainingSession(runs, feed, program, validation)


def prediction_step(
    program: JointProgram, taken: list[dict[str, Any]], *, endless: bool
) -> Callable[[list[Any]], tf.Tensor]:
    """A predict function for Keras' loop that puts each step's outputs into `taken`, as arrays by member that had a
    batch.

    The loop itself gets a placeholder a step: its own way of joining steps wants the same members in each.
    """

    def step(data: list[Any]) -> tf.Tensor:
        ran, results = program(data[0])
        names = [name for name, flag in zip(program.names, ran.numpy(), strict=True) if flag]
        if endless and not names and taken:
            raise StopIteration
        taken.append({name: keras.tree.map_structure(as_numpy, results[name]) for name in names})
        return tf.zeros((1,))

    return step


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


def _check_validation_lengths(request: FitRequest, rows: Mapping[str, Rows]) -> None:
    """Keras fixes the number of validation steps in the first validation; with unlike frequencies that may be too
    few."""
    freqs = {str(request.validation_freq[name]) for name in rows}
    if len(freqs) > 1:
        for name, source in rows.items():
            if source.num_batches is None:
                raise DataError(
                    f"the validation dataset of `{name}` cannot tell its length, and the members validate at different "
                    "frequencies, which is not supported yet. Add "
                    "`.apply(tf.data.experimental.assert_cardinality(n))` to it"
                )


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
def quiet_about_lengths(*feeds: Feed | None) -> Iterator[None]:
    """Keras warns when a dataset of unknown length ends; that is how such a dataset's epoch ends."""
    if not any(feed.endless for feed in feeds if feed is not None):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your input ran out of data", category=UserWarning)
        yield
