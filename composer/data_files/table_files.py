"""`.csv` and `.parquet` files -> x and y by column name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from composer.catalog import ModelSignature
from composer.data_files.csv_files import is_number, read_csv, read_header
from composer.data_files.parquet_files import parquet_columns, read_parquet
from composer.data_files.row_checks import Array, Arrays, RowFault
from composer.graph.hints import listed, near

TABLE_SUFFIXES = (".csv", ".parquet")
_GAPS = {"", "na", "n/a", "nan", "none", "null", "?", "-"}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    Args:
        targets: to y; None where there are none.
        features: to x, in this order; None for all the rest.
        classes: target column -> the strings its class indices stand for, where an earlier file has settled them.
        key: the column that tells whose model a row is for; None where there is one model.
    """

    targets: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    classes: Mapping[str, tuple[str, ...]] | None = None
    key: str | None = None


@dataclass(frozen=True)
class Table:
    """A table as x and y, with the columns x was made of, the strings that class indices stand for, and the keys."""

    x: Arrays
    y: Arrays | None
    features: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Array | None = None


def read_table(path: Path, columns: Columns, signature: ModelSignature | None, targets: bool) -> Table:
    """Reads x and y from a table.

    Args:
        path: a `.csv` or `.parquet` file.
        columns: which columns are what.
        signature: of the model, or None.
        targets: whether the target columns have to be there.

    Returns:
        x of shape (rows, features), or a dict of columns for a model with one input a feature; y of shape (rows,), or
        (rows, targets), or a dict for a model with one output a target.

    Raises:
        RowFault: a column is missing, empty or of a kind that is not taken.
    """
    csv = path.suffix.lower() == ".csv"
    names = read_header(path) if csv else parquet_columns(path)
    wanted = columns.targets or ()
    _require(path, names, wanted if targets else (), "target")
    _require(path, names, columns.features or (), "feature")
    key = () if columns.key is None else (columns.key,)
    _require(path, names, key, "key")
    target_names = tuple(name for name in wanted if name in names)
    if len(target_names) < len(wanted):
        target_names = ()  # some are there, some are not: without targets none is needed
    features = columns.features or tuple(name for name in names if name not in (*wanted, *key))
    if not features:
        raise RowFault("MG504", f"{path} has no feature columns: all of {listed(names)} are targets")
    ignored = [name for name in names if name not in (*features, *target_names, *key)]
    strings = {*_text_features(features, signature), *(columns.classes or {}), *key} - set(ignored)
    found = (
        read_csv(path, names, either=target_names, strings=strings, ignored=ignored)
        if csv
        else read_parquet(path, list(dict.fromkeys([*features, *target_names, *key])))
    )
    if not len(found[features[0]]):
        raise RowFault("MG509", f"{path} has no rows below its column names")
    classes: dict[str, tuple[str, ...]] = {}
    y = [_target(path, name, found[name], columns.classes, classes) for name in target_names]
    return Table(
        _features(path, features, found, signature),
        _joined_targets(path, target_names, y, signature),
        features,
        classes,
        found[columns.key].astype(str) if columns.key is not None else None,
    )


def _require(path: Path, names: list[str], wanted: tuple[str, ...], kind: str) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise RowFault(
            "MG504", f"{path} has no column `{missing[0]}` (a {kind}); it has {listed(names)}{near(missing[0], names)}"
        )


def _text_features(features: tuple[str, ...], signature: ModelSignature | None) -> set[str]:
    """The features that go to inputs which take strings."""
    inputs = signature.inputs if signature else ()
    if len(inputs) == 1:
        return set(features) if inputs[0].dtype == "string" else set()
    return {tensor.name for tensor in inputs if tensor.dtype == "string"} & set(features)


def _features(
    path: Path, features: tuple[str, ...], found: Mapping[str, Array], signature: ModelSignature | None
) -> Arrays:
    inputs = signature.inputs if signature else ()
    if len(inputs) <= 1:
        dtype = inputs[0].dtype if inputs else "float32"
        width = inputs[0].shape[1:] if inputs and inputs[0].shape else None
        if width is not None and len(width) == 1 and width[0] not in (None, len(features)):
            raise RowFault(
                "MG506",
                f"{path} has {len(features)} feature columns ({listed(features)}), and the model takes {width[0]}",
                mend="name the right ones with `features=[...]`",
            )
        return np.stack([_feature(path, name, found[name], dtype) for name in features], axis=1)
    if {tensor.name for tensor in inputs} != set(features):
        raise RowFault(
            "MG506",
            f"the model has the inputs {listed(t.name for t in inputs)}, and the feature columns of {path} are "
            f"{listed(features)}",
            mend="expected one column for each input, of its name; give wider inputs as `.npz`",
        )
    return {tensor.name: _feature(path, tensor.name, found[tensor.name], tensor.dtype)[:, None] for tensor in inputs}


def _feature(path: Path, name: str, column: Array, dtype: str) -> Array:
    """A column in the input's own type: a float input takes float32, an integer input whole numbers only."""
    if dtype == "string":
        return column.astype(str)
    if column.dtype.kind not in "fiub":
        raise RowFault(
            "MG510",
            f"the column `{name}` of {path} holds strings such as {str(column[0])!r}, and it is a feature",
            mend="turn it into numbers, name it as `target=`, or leave it out with `features=[...]`",
        )
    if not np.issubdtype(np.dtype(dtype), np.integer):
        return column.astype(np.float32)
    whole = column.astype(np.int64)
    if not np.array_equal(whole, column):
        row = int(np.flatnonzero(whole != column)[0])
        raise RowFault(
            "MG510",
            f"the column `{name}` of {path} holds {column[row]} in row {row}, and the model's input takes {dtype}",
        )
    return whole.astype(dtype)


def _target(
    path: Path,
    name: str,
    column: Array,
    settled: Mapping[str, tuple[str, ...]] | None,
    classes: dict[str, tuple[str, ...]],
) -> Array:
    """A target column: whole numbers as int64, others as float32, strings as the index of their class."""
    known = (settled or {}).get(name)
    if known is None and column.dtype.kind in "fiub":
        whole = np.isfinite(column).all() and (column == np.round(column)).all()
        return column.astype(np.int64 if whole else np.float32)
    strings = column.astype(str)
    found = np.unique(strings)
    if known is None:
        _check_classes(path, name, found.tolist())
        known = tuple(found.tolist())
    unknown = [label for label in found.tolist() if label not in known]
    if unknown:
        raise RowFault(
            "MG510",
            f"the column `{name}` of {path} holds the class {unknown[0]!r}, and the training rows have only "
            f"{listed(known)}",
        )
    classes[name] = known
    return np.searchsorted(np.array(known), strings).astype(np.int64)


def _check_classes(path: Path, name: str, labels: list[str]) -> None:
    """Refuses a column of numbers with gaps, which would pass for one of classes."""
    gap = next((label for label in labels if label.lower() in _GAPS), None)
    fractional = any(is_number(label) and not label.lstrip("+-").isdigit() for label in labels)
    if gap is None and not fractional:
        return
    odd = gap if gap is not None else next((label for label in labels if not is_number(label)), "")
    raise RowFault(
        "MG510",
        f"the column `{name}` of {path}, a target, holds {odd!r} among its values",
        mend="expected numbers alone, or the names of classes: fill the gaps or leave their rows out",
    )


def _joined_targets(
    path: Path, names: tuple[str, ...], targets: list[Array], signature: ModelSignature | None
) -> Arrays | None:
    if not targets:
        return None
    outputs = [tensor.name for tensor in signature.outputs] if signature else []
    if len(outputs) > 1:
        if set(outputs) != set(names):
            raise RowFault(
                "MG507",
                f"the model has the outputs {listed(outputs)}, and the target columns of {path} are {listed(names)}",
                mend="expected one column for each output, of its name; give wider targets as `.npz`",
            )
        return dict(zip(names, targets, strict=True))
    return targets[0] if len(targets) == 1 else np.stack(targets, axis=1)
