"""The rows of a job: those that `data` statements name, or files given by member, as a joint model takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from composer.catalog import ModelSignature
from composer.compiler.ir import DataSource
from composer.data_files.files import Rows, load_rows
from composer.data_files.table_files import TABLE_SUFFIXES
from composer.errors import DataError
from composer.graph.hints import listed, near
from composer.graph.signatures import output_structure, own_names
from composer.language.nodes import PathSource
from composer.runs.job_checks import check_labels
from composer.runs.row_faults import RowFaults
from composer.runs.run_folder import MemberRecord
from composer.runtime.members import Member
from composer.source import SourceText

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel


def training_rows(joint: ComposedModel, source: SourceText, *, allow_python: bool = False) -> dict[str, Rows]:
    """The rows of every member, with those to validate on, from its `data` statement.

    Copies that read the same file share its arrays.

    Args:
        joint: whose members have a `data` statement each.
        source: the spec.
        allow_python: whether factories may run.

    Raises:
        DataError: rows are missing or do not fit; its diagnostics name the members.
    """
    rows: dict[str, Rows] = {}
    faults = RowFaults(joint.members, source)
    read: list[tuple[DataSource, ModelSignature, Rows]] = []
    for name, member in joint.members.items():
        data = member.plan.member.data
        assert data is not None  # `check_has_data` has seen to it
        with faults.of(name):
            found = next((r for seen, signature, r in read if seen == data and signature == member.signature), None)
            if found is None:
                signature, key = _without_key(member)
                found = load_rows(name, data, source.folder, signature, allow_python=allow_python, key=key)
                if isinstance(data.source, PathSource):  # what a factory returns may depend on the member's seed
                    read.append((data, member.signature, found))
            check_labels(member, found)
            rows[name] = found
    faults.raise_errors()
    return rows


def given_rows(
    joint: ComposedModel, files: Mapping[str, Path], records: Mapping[str, MemberRecord] | None = None
) -> dict[str, Any]:
    """The inputs that files hold, by member, to predict for.

    Args:
        joint: whose members they are for.
        files: by member, or by branch for all of its members.
        records: what a run knows of the columns each member was trained on.

    Raises:
        DataError: a name is no member, or rows are missing or do not fit.
    """
    branches: dict[str, list[str]] = {}
    for name, member in joint.members.items():
        branches.setdefault(member.plan.member.branch, []).append(name)
    inputs: dict[str, Any] = {}
    for key, path in files.items():
        if key not in joint.members and key not in branches:
            known = list(dict.fromkeys([*joint.members, *branches]))
            told = f"there is no member `{key}` to predict with; there are {listed(known)}{near(key, known)}"
            raise DataError(told, code="MG206")
        for name in [key] if key in joint.members else branches[key]:
            record = (records or {}).get(name, MemberRecord())
            source = _source_of(joint.members[name], path, record)
            signature, column = _without_key(joint.members[name])
            inputs[name] = load_rows(name, source, Path(), signature, targets=False, key=column).x
    return {name: inputs[name] for name in joint.members if name in inputs}


def _without_key(member: Member) -> tuple[ModelSignature, str | None]:
    """What a member's model takes beside keys, and the column of these."""
    key = member.plan.member.per
    inputs = tuple(tensor for tensor in member.signature.inputs if tensor.name != key)
    return replace(member.signature, inputs=inputs), key


def as_keras_takes(model: keras.Model, rows: Rows) -> Any:
    """Rows as `fit` takes them: the dataset, `(x, y)` or `(x, y, sample_weight)`.

    Targets by output name are brought to the structure of the model's outputs, which Keras wants them in.
    """
    if isinstance(rows.x, tf.data.Dataset):
        return rows.x
    y = rows.y
    outputs = output_structure(model)
    if isinstance(y, dict) and not isinstance(outputs, dict) and keras.tree.is_nested(outputs):
        names = own_names(outputs, "output")
        if set(names) == set(y):
            y = keras.tree.pack_sequence_as(outputs, [y[name] for name in names])
    return (rows.x, y) if rows.sample_weight is None else (rows.x, y, rows.sample_weight)


def _source_of(member: Member, path: Path, record: MemberRecord) -> DataSource:
    """A file of rows, read as the member's `data` statement says; a table by the columns it was trained on."""
    source = PathSource(str(path.absolute()))
    if path.suffix.lower() not in TABLE_SUFFIXES:
        return DataSource(source)
    stated = member.plan.member.data
    target = stated.target if stated is not None else None
    features = record.features or (stated.features if stated is not None else None)
    return DataSource(source, target, features)
