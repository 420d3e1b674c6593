"""What callbacks write, compared by what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf

Values = dict[str, np.ndarray]


def written(folder: Path) -> dict[str, Path]:
    """Everything in a folder by its path there; event files, whose names hold the time and the host, by their kind."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {_name(path.relative_to(folder)): path for path in files}


def contents(path: Path) -> Values:
    """The numbers and texts that a file holds, by name."""
    readers: dict[str, Callable[[Path], Values]] = {".keras": _model, ".h5": _weights}
    if ".tfevents." in path.name:
        return _scalars(path)
    return readers.get(path.suffix, _text)(path)


def _name(path: Path) -> str:
    return str(path.with_name("events")) if ".tfevents." in path.name else str(path)


def _text(path: Path) -> Values:
    return {"text": np.array(path.read_text(encoding="utf-8"))}


def _model(path: Path) -> Values:
    model = keras.saving.load_model(path)
    kept = {"weights": model.variables, "optimizer": model.optimizer.variables}
    return {f"{of} {i}": np.array(variable) for of, many in kept.items() for i, variable in enumerate(many)}


def _weights(path: Path) -> Values:
    found: Values = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.array(item)

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def _scalars(path: Path) -> Values:
    return {f"{tag} {step}": value for tag, step, value in _events(path)}


def _events(path: Path) -> Iterator[tuple[str, int, np.ndarray]]:
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars" and "time" not in value.tag:
                yield value.tag, event.step, tf.make_ndarray(value.tensor)
