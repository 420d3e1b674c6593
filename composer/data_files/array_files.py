"""`.npz` and `.npy` files -> arrays; nothing in them is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from composer.catalog import ModelSignature
from composer.data_files.row_checks import Array, Arrays, RowFault
from composer.graph.hints import listed, near, near_files

Parts: TypeAlias = "tuple[Arrays, Arrays | None, Array | None]"

WEIGHT = "sample_weight"


def read_npz(path: Path, signature: ModelSignature | None, targets: bool) -> Parts:
    """Reads x, y and sample_weight from an archive of arrays.

    Args:
        path: the file.
        signature: of the model: with several inputs or outputs the arrays are called `x_<input>` and `y_<output>`.
            Where it is None, the names in the file decide.
        targets: whether y has to be there.

    Returns:
        x, y and sample_weight; the latter two None where they are not in the file.

    Raises:
        RowFault: the file is damaged, holds Python objects, or lacks an array.
    """
    arrays = _load(path)
    if not isinstance(arrays, dict):
        raise RowFault(
            "MG503",
            f"{path} holds a single array",
            mend="expected an archive with `x` and `y`, as `np.savez` writes",
        )
    inputs = [tensor.name for tensor in signature.inputs] if signature else None
    outputs = [tensor.name for tensor in signature.outputs] if signature else None
    x = _take(path, arrays, "x", inputs, required=True)
    y = _take(path, arrays, "y", outputs, required=targets)
    if WEIGHT not in arrays:
        slip = next((name for name in arrays if near(name, [WEIGHT])), None)
        if slip:
            raise RowFault("MG504", f"{path} has an array `{slip}`{near(slip, [WEIGHT])}")
    assert x is not None
    return x, y, arrays.get(WEIGHT)


def read_npy(path: Path, targets: bool) -> Parts:
    """Reads x from `a_x.npy`, y from `a_y.npy` beside it and, where it exists, sample_weight from
    `a_sample_weight.npy`.

    Args:
        path: the file with x: its name is `x.npy` or ends in `_x.npy`; any name will do where no targets are needed.
        targets: whether y has to be there.

    Returns:
        x, y and sample_weight; the latter two None where their files are not there.

    Raises:
        RowFault: the name does not say which file is its partner, or that is missing; or a file is damaged.
    """
    if not (others := _others(path)):
        if targets:
            raise RowFault(
                "MG505",
                f"{path} is one array, and its name does not say where the targets are",
                mend="expected a pair `NAME_x.npy` and `NAME_y.npy` (name the first), or one `.npz` with `x` and `y`",
            )
        return _load_array(path), None, None
    partner, weights = others
    if targets and not partner.is_file():
        told = f"the file {partner}, the targets of {path.name}, is missing{near_files(partner)}"
        raise RowFault("MG502", told)
    return (
        _load_array(path),
        _load_array(partner) if partner.is_file() else None,
        _load_array(weights) if weights.is_file() else None,
    )


def beside(path: Path) -> tuple[Path, ...]:
    """The files that are read with one of rows: the targets and the weights beside `NAME_x.npy`, as far as they are
    there."""
    return tuple(other for other in _others(path) if other.is_file())


def _others(path: Path) -> tuple[Path, ...]:
    """Where the targets and the weights of x would be; nothing for a file whose name does not say."""
    if path.name != "x.npy" and not path.name.endswith("_x.npy"):
        return ()
    stem = path.name.removesuffix("x.npy")
    return path.with_name(f"{stem}y.npy"), path.with_name(f"{stem}{WEIGHT}.npy")


def _load_array(path: Path) -> Array:
    array = _load(path)
    if isinstance(array, dict):
        raise RowFault("MG503", f"{path} is an archive of arrays", mend="name it `.npz`")
    return array


def _load(path: Path) -> Array | dict[str, Array]:
    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open
            loaded: Any = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile, OSError, KeyError) as error:
        if "allow_pickle" in str(error):
            raise RowFault(
                "MG503",
                f"{path} holds Python objects, or is no NumPy file; neither is read, since unpickling runs code",
                mend="save arrays of numbers or strings with `np.save` or `np.savez`",
            ) from error
        raise RowFault("MG503", f"{path} cannot be read as a NumPy file: {' '.join(str(error).split())}") from error


def _take(
    path: Path, arrays: dict[str, Array], kind: str, names: Sequence[str] | None, *, required: bool
) -> Arrays | None:
    """The arrays of x or y: `x`, or `x_<input>` for each of several inputs."""
    prefixed = [name.removeprefix(f"{kind}_") for name in arrays if name.startswith(f"{kind}_")]
    if names is None:
        names = prefixed if kind not in arrays and prefixed else [kind]
    if len(names) == 1:
        key = kind if kind in arrays else f"{kind}_{names[0]}"
        if key in arrays:
            return arrays[key]
        expected = [kind]
    else:
        expected = [f"{kind}_{name}" for name in names]
        if all(key in arrays for key in expected):
            return {name: arrays[f"{kind}_{name}"] for name in names}
        if not required and not any(key in arrays for key in expected):
            return None
    if not required and len(names) == 1:
        return None
    missing = [key for key in expected if key not in arrays]
    code = "MG505" if kind == "y" and "y" not in arrays and not prefixed else "MG504"
    told = f"{path} lacks {listed(missing)}; it has {listed(arrays) or 'no arrays'}{near(missing[0], arrays)}"
    raise RowFault(code, told)
