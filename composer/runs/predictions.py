"""Predictions by member -> one file a member."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from composer.data_files.row_checks import Array
from composer.runs.run_files import check_prediction_files, prediction_files
from composer.runtime.atomic_files import make_folder, write_atomically

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # the same predictions make the same file


def write_predictions(folder: Path, predictions: Mapping[str, Any], *, force: bool = False) -> dict[str, Path]:
    """Writes what `predict` returned.

    Args:
        folder: made where it is missing.
        predictions: member -> an array, or a dict, list or nested structure of arrays.
        force: whether files of an earlier prediction may be replaced.

    Returns:
        Member -> its file: `<member>.npy` for an array; `<member>.npz` for a structure, with the dict's keys as the
        names of its arrays, positions in lists, and both joined by a dot where they are nested.

    Raises:
        ComposerError: a file exists, or cannot be written.
    """
    check_prediction_files(folder, list(predictions), force=force)
    files = {name: prediction_files(folder, name)[keras.tree.is_nested(value)] for name, value in predictions.items()}
    make_folder(folder)
    for name, path in files.items():
        write = _write_npz if path.suffix == ".npz" else _write_npy
        write_atomically(path, partial(write, value=predictions[name]))
    return files


def _flat(structure: Any, prefix: str = "") -> dict[str, Array]:
    if not keras.tree.is_nested(structure):
        return {prefix: _storable(structure)}
    parts = structure.items() if isinstance(structure, Mapping) else enumerate(structure)
    flat: dict[str, Array] = {}
    for key, part in parts:
        flat.update(_flat(part, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _storable(value: Any) -> Array:
    """The array without Python objects, which would have to be pickled: a string model predicts bytes as objects."""
    array = np.asarray(value)
    if array.dtype != object:
        return array
    strings = [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in array.ravel()]
    return np.array(strings, dtype=str).reshape(array.shape)


def _write_npy(path: Path, value: Any) -> None:
    np.save(path, _storable(value), allow_pickle=False)


def _write_npz(path: Path, value: Any) -> None:
    """As `np.savez`, which takes no array called `file`."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in _flat(value).items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _FIRST_DATE), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
