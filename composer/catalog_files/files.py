"""`signature_of_file`: a `.keras` archive or a SavedModel folder -> `ModelSignature`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from composer.catalog import ModelSignature
from composer.catalog_files.model_config import signature_of_config
from composer.catalog_files.walk import is_model
from composer.compiler import ir
from composer.language import nodes

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_MOST_BYTES = 64 * 2**20  # far above any real config: a file that claims more is not read into memory


def signature_of_file(path: Path) -> ModelSignature | None:
    """What a model file tells of its model without being loaded.

    Args:
        path: a `.keras` file, or a folder that holds a SavedModel.

    Returns:
        For a `.keras` file its inputs, outputs and sizes, each size None where a layer is not known here. For a
        SavedModel folder that it cannot be trained. None where nothing is told: other kinds of file, classes of the
        user's own, and files that are missing or damaged, which loading them reports.

    Example:
        >>> model_a.save("a.keras")  # 3 inputs, 8 hidden units, 1 output
        >>> signature_of_file(Path("a.keras")).parameters
        41
    """
    if path.is_dir():
        return ModelSignature((), (), trainable=False) if (path / "saved_model.pb").is_file() else None
    config = _read_config(path)
    return None if config is None else signature_of_config(config)


def fault_of_file(path: Path) -> str | None:
    """What is wrong with a model file as a file; None where nothing is, or for a folder.

    Only what can be told without loading the model.
    """
    if path.is_dir():
        return None
    try:
        if path.suffix == ".keras":
            return _fault_of_archive(path)
        with path.open("rb") as file:
            return None if file.read(len(_HDF5)) == _HDF5 else "it is no HDF5 file"
    except OSError as error:
        return error.strerror or type(error).__name__


def _fault_of_archive(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            missing = {_CONFIG, _WEIGHTS}.difference(archive.namelist())
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError):
        return "it is no archive, or was cut off"
    return f"it lacks `{min(missing)}`" if missing else None


def is_compiled(path: Path) -> bool | None:
    """Whether a `.keras` file holds a model that was compiled; None where that is not told."""
    config = _read_config(path)
    if config is None or not is_model(config) or "compile_config" not in config:
        return None
    return bool(config["compile_config"])


def catalog_of(named: nodes.Spec | ir.Composition, folder: Path) -> dict[str, ModelSignature | None]:
    """What the files that a spec or a composition names tell, by model name; None for factories and passed models.

    Args:
        named: what names the models.
        folder: the folder that relative paths start from.
    """
    return {name: _signature(source, folder) for name, source in _sources(named)}


def _sources(named: nodes.Spec | ir.Composition) -> Iterable[tuple[str, nodes.Source | None]]:
    if isinstance(named, ir.Composition):
        return named.models
    return ((s.name.text, s.source) for s in named.statements if isinstance(s, nodes.Model))


def _signature(source: nodes.Source | None, folder: Path) -> ModelSignature | None:
    return signature_of_file(folder / source.path) if isinstance(source, nodes.PathSource) else None


def _read_config(path: Path) -> dict[str, Any] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_CONFIG).file_size > _MOST_BYTES:
                return None
            config = json.loads(archive.read(_CONFIG))
    except (
        OSError,
        KeyError,
        ValueError,
        RecursionError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        EOFError,
    ):
        return None
    except Exception as error:  # zlib.error has no public base but Exception
        if type(error).__module__ != "zlib":
            raise
        return None
    return config if isinstance(config, dict) else None
