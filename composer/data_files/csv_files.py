"""A `.csv` file -> its columns: numbers by NumPy's C parser, strings where a column may hold them."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from composer.data_files.row_checks import Array, RowFault

ENCODING = "utf-8-sig"  # spreadsheets write a byte-order mark
_BAD_CELL = re.compile(r"could not convert string .* at row \d+, column (\d+)", re.DOTALL)


def read_header(path: Path) -> list[str]:
    """The column names: the first line of the file.

    Raises:
        RowFault: it is empty, holds numbers, is not separated by commas, or names a column twice.
    """
    with _open(path) as file:
        return _header(path, file)


def read_csv(
    path: Path, names: Sequence[str], *, either: Iterable[str], strings: Iterable[str], ignored: Iterable[str]
) -> dict[str, Array]:
    """Reads all rows.

    Args:
        path: the file.
        names: its column names, from `read_header`.
        either: columns that may hold numbers or strings; if one cell is no number, all of them come as strings.
        strings: columns that come as strings, whatever they hold.
        ignored: columns that are left out, whatever they hold.

    Returns:
        Column name -> float64 numbers, or strings.

    Raises:
        RowFault: a cell of another column is empty or no number, or a row has more or fewer cells than there are
            columns.
    """
    readers: dict[str, _Strings] = {name: _Strings() for name in strings}
    ignored = set(ignored)
    flexible = {*either, *ignored}
    converters: dict[int | str, Callable[[str], Any]] = {
        index: readers[name] for index, name in enumerate(names) if name in readers
    }
    while True:
        try:
            table = _parse(path, converters)
            break
        except ValueError as error:  # the first cell that is no number: take its column as strings and start again
            index = _bad_column(error, names)
            if index is None or index in converters or names[index] not in flexible:
                raise _located(path, names, {*flexible, *readers}, str(error)) from error
            if names[index] not in ignored:
                readers[names[index]] = _Strings()
            converters[index] = readers.get(names[index], _nothing)
    if not len(table):
        raise RowFault("MG509", f"{path} has no rows below its column names")
    if table.shape[1] != len(names):
        raise _located(path, names, names, f"{table.shape[1]} columns and {len(names)} names")
    return {
        name: readers[name].take(table[:, index]) if name in readers else table[:, index]
        for index, name in enumerate(names)
        if name not in ignored
    }


class _Strings:
    """A converter of cells: gives each string a number, and the strings back at the end."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __call__(self, cell: str) -> float:
        return self._codes.setdefault(cell.strip(), len(self._codes))

    def take(self, codes: Array) -> Array:
        return np.array(list(self._codes), dtype=str)[codes.astype(np.int64)]


def _nothing(cell: str) -> float:
    return 0.0


def _open(path: Path) -> TextIO:
    return path.open(encoding=ENCODING, newline="")


def _parse(path: Path, converters: dict[int | str, Callable[[str], Any]]) -> Array:
    try:
        with _open(path) as file, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="loadtxt: input contained no data", category=UserWarning)
            next(csv.reader(file))
            table: Array = np.loadtxt(
                file,
                dtype=np.float64,
                delimiter=",",
                comments=None,
                quotechar='"',
                ndmin=2,
                converters=converters or None,
                encoding=None,  # so that converters get strings under NumPy 1 as well
            )
            return table
    except UnicodeDecodeError as error:
        raise RowFault("MG503", f"{path} is no UTF-8 text (byte {error.start})", mend="save it as UTF-8") from error


def _header(path: Path, file: TextIO) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader(file), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise RowFault("MG503", f"{path} is no UTF-8 text with comma-separated values: {error}") from error
    if not any(names):
        raise RowFault("MG504", f"the first line of {path} is empty", mend="expected the names of the columns")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        mark = next(mark for mark in ";\t|" if mark in names[0])
        raise RowFault("MG503", f"the columns of {path} are separated by {mark!r}", mend="expected commas")
    if "" in names:
        raise RowFault(
            "MG504",
            f"column {names.index('') + 1} of {path} has no name",
            mend="give it one, or leave it out (pandas: `index=False`)",
        )
    if _is_data(names):
        raise RowFault(
            "MG504",
            f"the first line of {path} holds numbers ({', '.join(names[:3])}, ...)",
            mend="expected the names of the columns: add a line with them",
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RowFault("MG504", f"{path} has two columns `{twice}`", mend="expected a name of its own for each")
    return names


def _is_data(names: Sequence[str]) -> bool:
    """Whether a first line is a row of numbers; 0, 1, 2, ... are names that some tools give."""
    if not all(is_number(name) for name in names):
        return False
    return names not in ([str(i) for i in range(len(names))], [str(i + 1) for i in range(len(names))])


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _bad_column(error: ValueError, names: Sequence[str]) -> int | None:
    found = _BAD_CELL.search(str(error))
    index = int(found[1]) - 1 if found else len(names)
    return index if index < len(names) else None


def _located(path: Path, names: Sequence[str], text: Iterable[str], otherwise: str) -> RowFault:
    """The first row with a wrong number of cells or a cell that is no number, with its line."""
    text = set(text)
    with _open(path) as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                told = f"line {reader.line_num} of {path} has {len(row)} cells, and there are {len(names)} columns"
                return RowFault("MG510", told)
            for name, cell in zip(names, row, strict=True):
                if name not in text and not is_number(cell):
                    return _bad_cell(path, reader.line_num, name, cell)
    return RowFault("MG503", f"{path} cannot be read as a table: {otherwise}")


def _bad_cell(path: Path, line: int, name: str, cell: str) -> RowFault:
    if not cell.strip():
        return RowFault(
            "MG510",
            f"the column `{name}` of {path} has an empty cell in line {line}",
            mend="fill it, leave the row out, or leave the column out with `features=[...]`",
        )
    return RowFault(
        "MG510",
        f"the column `{name}` of {path} holds {cell!r} in line {line}, which is no number, and it is a feature",
        mend="turn it into numbers, name it as `target=`, or leave it out with `features=[...]`",
    )
