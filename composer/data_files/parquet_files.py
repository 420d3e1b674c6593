"""A `.parquet` file -> its columns, through pyarrow where it is installed (pandas brings it or asks for it)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from composer.data_files.row_checks import Array, RowFault


def parquet_columns(path: Path) -> list[str]:
    """The column names of the file.

    Raises:
        RowFault: pyarrow is not installed, or the file is no Parquet file.
    """
    parquet = _pyarrow(path)
    try:
        return list(parquet.read_schema(path).names)
    except Exception as error:  # pyarrow's own errors, which cannot be named where it is not installed
        raise RowFault("MG503", f"{path} cannot be read as a Parquet file: {' '.join(str(error).split())}") from error


def read_parquet(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Reads some columns: numbers and truth values as numbers, the rest as strings.

    Raises:
        RowFault: a column has gaps, or cells that are neither numbers nor strings.
    """
    table = _pyarrow(path).read_table(path, columns=list(names))
    return {name: _column(path, name, table.column(name)) for name in names}


def _pyarrow(path: Path) -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RowFault(
            "MG503",
            f"{path} needs pyarrow to be read",
            mend="install it (`pip install pyarrow`), or save the rows as `.csv` or `.npz`",
        ) from error


def _column(path: Path, name: str, column: Any) -> Array:
    if column.null_count:
        raise RowFault(
            "MG510",
            f"the column `{name}` of {path} has {column.null_count} empty cell(s)",
            mend="fill them, leave the rows out, or leave the column out with `features=[...]`",
        )
    array = np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))
    if array.dtype.kind in "fiub":
        return array.astype(np.float64) if array.dtype.kind == "b" else array
    if all(isinstance(cell, str) for cell in array.tolist()):
        return array.astype(str)
    raise RowFault(
        "MG510", f"the column `{name}` of {path} is of the type {column.type}", mend="expected numbers or strings"
    )
