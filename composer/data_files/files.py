"""The rows a `data` statement names -> `Rows`: arrays from files, or what a factory returns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from composer.catalog import ModelSignature
from composer.compiler.ir import DataSource
from composer.data_files.array_files import read_npy, read_npz
from composer.data_files.row_checks import RowFault, check_rows, named_inputs
from composer.data_files.table_files import TABLE_SUFFIXES, Columns, read_table
from composer.errors import ComposerWarning, DataError
from composer.graph.factories import FactoryFault, call_factory, default_seed
from composer.graph.hints import near_files
from composer.graph.keyed import last_rows
from composer.language import nodes
from composer.source import located

Arrays: TypeAlias = "np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]"

_KINDS = "`.npz`, `.npy`, `.csv` or `.parquet`"


@dataclass(frozen=True)
class Rows:
    """The rows of one member.

    Args:
        x: what the model takes: an array with the rows on its first axis, a dict of arrays by input name where the
            model has several inputs, or a `tf.data.Dataset` (then `y` and `sample_weight` are None).
        y: the targets, an array or a dict by output name; None where there are none.
        sample_weight: a weight for each row, or None.
        validation: further rows to validate on, or None.
        features: the columns x was made of, in their order; empty where x comes from no table.
        classes: target column -> the strings its class indices stand for; columns with numbers are not in it.
    """

    x: Any
    y: Arrays | None = None
    sample_weight: np.ndarray[Any, Any] | None = None
    validation: Rows | None = None
    features: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def num_rows(self) -> int | None:
        """How many rows there are; None for a dataset."""
        return None if isinstance(self.x, tf.data.Dataset) else len(keras.tree.flatten(self.x)[0])


def load_rows(
    member: str,
    data: DataSource,
    folder: Path,
    signature: ModelSignature | None = None,
    *,
    allow_python: bool = False,
    targets: bool = True,
    key: str | None = None,
) -> Rows:
    """Reads the rows of a member.

    | source | x, y, sample_weight |
    | --- | --- |
    | `a.npz` | the arrays `x`, `y` and, optional, `sample_weight`; of a model with several inputs or outputs
    `x_<input>` and `y_<output>` | | `a_x.npy` | x; y is `a_y.npy` beside it and the weights, optional,
    `a_sample_weight.npy` (`x.npy` goes with `y.npy`) | | `a.csv`, `a.parquet` | columns by name: `target=` to y,
    `features=` (all the rest, if left out) to x | | `module:function(...)` | `(x, y)`, `(x, y, sample_weight)` or a
    `tf.data.Dataset` that the function returns |

    Columns with numbers become float32 features (of the input's own type where that is an integer or a string) and
    int64 or float32 targets. A target of strings becomes class indices in sorted order. Nothing is unpickled.

    Args:
        member: the member's name, for messages.
        data: its `data` statement.
        folder: the spec's folder.
        signature: of its model; None where nothing is known.
        allow_python: whether a factory may run.
        targets: whether y is needed, as it is to fit and to evaluate. If False, y is None where the file has none, and
            a target column that is there does not count as a feature.
        key: the column that tells whose model a row is for, of a member with a model for each key; `signature` is
            without it. Then x is a dict, with the keys as strings under this name.

    Returns:
        The rows, with the validation rows that `validation=` names: the last ones, as Keras' `validation_split` cuts
        them, or those of another file, whose classes and features are those of the first.

    Raises:
        DataError: a file, array or column is missing, empty or of the wrong kind, or lengths and shapes do not fit; the
            message names the member, the file, the column and the mend.
    """
    loader = _Loader(member, data, folder, signature, allow_python, targets, key)
    option = ""
    try:
        rows = loader.load(data.source, Columns(data.target, data.features, key=key))
        option = "validation"
        if isinstance(data.validation, str):
            columns = Columns(data.target, rows.features or None, rows.classes, key)
            return replace(rows, validation=loader.load(nodes.PathSource(data.validation), columns))
        return rows if data.validation is None else _split(rows, data.validation, key)
    except RowFault as fault:
        told = f"the data of `{member}` cannot be used: {fault}"
        raise DataError(told, code=fault.code, member=member, mend=fault.mend, option=option) from fault


@dataclass(frozen=True)
class _Loader:
    """One call of `load_rows`: what stays the same for the training and the validation rows."""

    member: str
    data: DataSource
    folder: Path
    signature: ModelSignature | None
    allow_python: bool
    targets: bool
    key: str | None

    def load(self, source: nodes.Source, columns: Columns) -> Rows:
        if isinstance(source, nodes.FactorySource):
            rows = self._from_factory(source)
            label = f"`{source.module}:{source.function}`"
        else:
            path = located(self.folder, source.path)
            rows = self._from_path(path, columns)
            label = str(path)
        keys = None
        if self.key is not None:
            rows, keys = self._without_keys(label, rows)
        if isinstance(rows.x, tf.data.Dataset):
            return rows
        check_rows(label, rows.x, rows.y, rows.sample_weight, self.signature)
        if self.targets and rows.y is None:
            raise RowFault("MG505", f"{label} has no targets", mend=_how_to_name_targets(label))
        self._warn_of_gaps(label, rows.y)
        return rows if keys is None else replace(rows, x=self._with_keys(keys, rows.x))

    def _without_keys(self, label: str, rows: Rows) -> tuple[Rows, np.ndarray[Any, Any]]:
        if not isinstance(rows.x, dict) or self.key not in rows.x:
            raise RowFault(
                "MG504",
                f"{label} does not tell the `{self.key}` of each row",
                mend=f"expected a table with the column `{self.key}`, or a factory that returns x as a dict with it",
            )
        inputs = {name: array for name, array in rows.x.items() if name != self.key}
        x = next(iter(inputs.values())) if len(inputs) == 1 else inputs
        return replace(rows, x=x), np.asarray(rows.x[self.key])

    def _with_keys(self, keys: np.ndarray[Any, Any], x: Any) -> dict[str, Any]:
        assert self.key is not None
        names = [tensor.name for tensor in self.signature.inputs] if self.signature else ["x"]
        return {self.key: keys.astype(str).astype(object), **(x if isinstance(x, dict) else {names[0]: x})}

    def _from_path(self, path: Path, columns: Columns) -> Rows:
        suffix = path.suffix.lower()
        if suffix in (".tfrecord", ".tfrecords"):
            raise RowFault(
                "MG503",
                f"{path}: `.tfrecord` files are not supported yet",
                mend=f"expected {_KINDS}, or a factory `module:function` that returns a `tf.data.Dataset`",
            )
        if suffix not in (".npz", ".npy", *TABLE_SUFFIXES):
            raise RowFault(
                "MG503",
                f"{path} is of no kind that can be read",
                mend=f"expected {_KINDS}, or a factory `module:function`",
            )
        if not path.is_file():
            told = f"{path} is a folder" if path.is_dir() else f"the file {path} is missing{near_files(path)}"
            raise RowFault("MG502", told)
        if path.stat().st_size == 0:
            raise RowFault("MG509", f"the file {path} is empty")
        if suffix in TABLE_SUFFIXES:
            table = read_table(path, columns, self.signature, self.targets)
            x = table.x
            if table.keys is not None and self.key is not None:
                x = {self.key: table.keys, **(x if isinstance(x, dict) else {"x": x})}
            return Rows(x, table.y, None, None, table.features, table.classes)
        if columns.targets or columns.features:
            raise RowFault(
                "MG504",
                f"`target=` and `features=` name columns of a table, and {path} holds arrays",
                mend="leave them out",
            )
        if suffix == ".npz":
            return Rows(*read_npz(path, self.signature, self.targets))
        return Rows(*read_npy(path, self.targets))

    def _from_factory(self, source: nodes.FactorySource) -> Rows:
        label = f"{source.module}:{source.function}"
        try:
            found = call_factory(source, self.folder, seed=default_seed(self.member), allow_python=self.allow_python)
        except FactoryFault as fault:
            raise RowFault("MG513", str(fault)) from fault
        if isinstance(found, tf.data.Dataset):
            return Rows(found)
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            got = f"a tuple of {len(found)}" if isinstance(found, tuple) else f"a {type(found).__qualname__}"
            raise RowFault(
                "MG513",
                f"the factory `{label}` returned {got}",
                mend="expected `(x, y)`, `(x, y, sample_weight)` or a `tf.data.Dataset`",
            )
        x, y, weight = (*found, None) if len(found) == 2 else found
        inputs = [tensor.name for tensor in self.signature.inputs] if self.signature else []
        outputs = [tensor.name for tensor in self.signature.outputs] if self.signature else []
        if self.key is not None and isinstance(x, Mapping):
            keyed = {str(name): np.asarray(array) for name, array in x.items()}
            return Rows(keyed, None if y is None else named_inputs(f"y of `{label}`", y, outputs), weight)
        return Rows(
            named_inputs(f"x of `{label}`", x, inputs),
            None if y is None else named_inputs(f"y of `{label}`", y, outputs),
            None if weight is None else np.asarray(weight),
        )

    def _warn_of_gaps(self, label: str, y: Arrays | None) -> None:
        parts = y.items() if isinstance(y, dict) else [("", y)] if y is not None else []
        for name, array in parts:
            if not np.issubdtype(array.dtype, np.floating):
                continue
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if bad.any():
                warnings.warn(
                    f"the targets{f' `{name}`' if name else ''} of `{self.member}` hold NaN or infinity in "
                    f"{int(bad.sum())} of {len(array)} rows, first in row {int(bad.argmax())} ({label}): its loss will "
                    "be NaN. Leave these rows out or fill them",
                    ComposerWarning,
                    stacklevel=5,
                )


def _how_to_name_targets(label: str) -> str:
    if label.endswith(TABLE_SUFFIXES):
        return "name the column with `target=`"
    return "return `(x, y)`" if label.startswith("`") else "add them as `y`"


def _split(rows: Rows, fraction: float, key: str | None = None) -> Rows:
    """Cuts the last rows off for validation, at the row where Keras' `validation_split` cuts; of each key, if there
    is one."""
    if isinstance(rows.x, tf.data.Dataset):
        raise RowFault(
            "MG511",
            f"`validation={fraction}` cuts rows off arrays, and the factory returned a `tf.data.Dataset`",
            mend="give the path of a file, or cut the dataset in the factory with `take` and `skip`",
        )
    count = rows.num_rows or 0
    if not 0 < fraction < 1:
        raise RowFault(
            "MG511",
            f"`validation={fraction}` is no fraction",
            mend="expected a number between 0 and 1, both excluded",
        )
    cut = math.floor(count * (1.0 - fraction))
    if cut in (0, count):
        raise RowFault(
            "MG511",
            f"`validation={fraction}` of {count} row(s) leaves {cut} to train on and {count - cut} to validate on",
            mend="expected at least one of each: give more rows or another fraction",
        )

    last = np.arange(count) >= cut if key is None else last_rows(rows.x[key], fraction)

    def part(arrays: Any, which: np.ndarray[Any, Any]) -> Any:
        return keras.tree.map_structure(lambda array: array[which], arrays) if arrays is not None else None

    head, tail = (
        replace(rows, x=part(rows.x, which), y=part(rows.y, which), sample_weight=part(rows.sample_weight, which))
        for which in (~last, last)
    )
    return replace(head, validation=tail)
