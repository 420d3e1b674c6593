"""What a job must fulfil before its run folder is made: `fit` is to find nothing to refuse after that."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import keras
import numpy as np

from composer.compiler.faults import Faults
from composer.data_files.files import Rows
from composer.diagnostics import render_text
from composer.errors import ComposerWarning, DataError, GraphError
from composer.graph.models import is_servable_only
from composer.graph.views import overrides
from composer.runs.requirements import report_not_compiled
from composer.runs.row_faults import RowFaults
from composer.runtime.checks import check_rows
from composer.runtime.compiling import check_compiled
from composer.runtime.data import member_data, weighted_by_class
from composer.runtime.members import ByMember, Member
from composer.runtime.sharing import check_shared
from composer.source import SourceText


def check_trainable(members: Mapping[str, Member], source: SourceText) -> None:
    """Refuse members that lack an optimizer or a loss, or cannot be trained as they are.

    Args:
        members: by name.
        source: the spec.

    Raises:
        GraphError: it names the member and what to add to the spec.
    """
    faults = Faults(source)
    for member in members.values():
        _check_settings(member, faults)
    if errors := faults.errors:
        raise GraphError(render_text(errors), errors)
    check_compiled(members)
    check_shared(members, source)


def _check_settings(member: Member, faults: Faults) -> None:
    model, train = member.trainer, member.plan.member.train
    if is_servable_only(member.model):
        raise GraphError(
            f"`{member.name}` comes from a SavedModel folder, which can predict and be exported, not trained. Give its "
            "`.keras` file, or leave it out of this composition"
        )
    own_way = overrides(member.model, "train_step") or overrides(member.model, "compute_loss")
    if not getattr(model, "compiled", False):
        report_not_compiled(member.plan.member, faults)
    elif (
        train.optimizer is None
        and (train.loss is not None or train.metrics is not None)
        and _is_default(model.optimizer)
    ):
        report_not_compiled(member.plan.member, faults, "optimizer")
    elif model.loss is None and not model.losses and not own_way:
        report_not_compiled(member.plan.member, faults, "loss")


def check_labels(member: Member, rows: Rows) -> None:
    """Refuse class labels that the model has no output for: TensorFlow fails on them on a CPU and yields NaN on a GPU.

    Raises:
        DataError: it names the member, the label and the number of classes.
    """
    loss = getattr(member.trainer, "loss", None)
    name = loss if isinstance(loss, str) else getattr(loss, "name", "")
    outputs = member.signature.outputs
    if name != "sparse_categorical_crossentropy" or len(outputs) != 1 or not outputs[0].shape:
        return
    classes = outputs[0].shape[-1]
    for part in (rows, rows.validation):
        if classes is None or part is None or not isinstance(part.y, np.ndarray) or part.y.dtype.kind not in "iuf":
            continue
        lowest, highest = (part.y.min(), part.y.max()) if part.y.size else (0, 0)
        if lowest < 0 or highest >= classes:
            wrong = lowest if lowest < 0 else highest
            raise DataError(
                f"the targets of `{member.name}` hold the class {wrong:g}, but its model tells {classes} classes "
                f"apart, 0 to {classes - 1}",
                code="MG507",
                member=member.name,
                mend="number the classes from 0, or give the model an output for each class",
            )


def check_arguments(
    members: Mapping[str, Member], arguments: Mapping[str, Mapping[str, Any]], source: SourceText
) -> None:
    """Refuse rows and batch sizes that `joint.fit` would refuse.

    Args:
        members: by name.
        arguments: of `joint.fit`, each by member.
        source: the spec.

    Raises:
        DataError: its diagnostics name the members.
    """
    faults = RowFaults(members, source)
    with gaps_told():
        for argument in ("x", "validation_data"):
            for name, rows in arguments.get(argument, {}).items():
                with faults.of(name, "validation" if argument == "validation_data" else ""):
                    _check_rows(members[name], rows, is_validation=argument == "validation_data")
    for name, size in arguments.get("batch_size", {}).items():
        with faults.of(name):
            _check_group(members[name], size)
    faults.raise_errors()


def _check_rows(member: Member, rows: Any, *, is_validation: bool) -> None:
    (data,) = member_data(ByMember({member.name: (member.name,)}), {member.name: rows}).values()
    check_rows(member, data, targets=True)
    weights = member.plan.member.train.class_weight
    if weights is not None and not is_validation:
        weighted_by_class(member.name, data, cast("dict[int, float]", weights.to_dict()))


def _check_group(member: Member, batch_size: int) -> None:
    group = member.plan.member.group
    if isinstance(group, int) and batch_size % group:
        raise DataError(
            f"the batch of `{member.name}` must hold whole groups of {group} rows. Received: {batch_size} rows a batch",
            code="MG512",
            member=member.name,
            option="batch",
        )


@contextmanager
def gaps_told() -> Iterator[None]:
    """Leaves out the warning of NaN among targets: reading the rows has told of it, with the file and the row."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the targets of .* hold .* NaN", ComposerWarning)
        yield


def _is_default(optimizer: Any) -> bool:
    """Whether an optimizer is the fresh RMSprop that Keras takes where none is given."""
    if not isinstance(optimizer, keras.optimizers.RMSprop) or int(optimizer.iterations.numpy()):
        return False
    plain = keras.optimizers.RMSprop().get_config()
    return {**optimizer.get_config(), "name": plain["name"]} == plain
