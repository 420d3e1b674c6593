"""A model source of the spec -> a `keras.Model`: `.keras`, `.h5`, a SavedModel folder, or a factory."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from composer.compiler.ir import Composition
from composer.diagnostics import Diagnostic
from composer.diagnostics.near import quoted_list
from composer.errors import ComposerWarning, GraphError
from composer.graph.factories import FactoryFault, call_factory, default_seed, seeded
from composer.graph.hints import near_files
from composer.graph.saved_models import SavedModelFault, is_saved_model, is_servable_only, load_saved_model
from composer.language import nodes
from composer.source import SourceText, located

__all__ = ["is_servable_only", "load_model", "load_models"]

H5_SUFFIXES = (".h5", ".hdf5")
_UNUSED_OPTIMIZER = r"Skipping variable loading for optimizer .* the saved optimizer has [0-2] variables"
"""What Keras says of a model that was compiled and never trained: its optimizer has no slots to load."""
_CUSTOM_CLASS = re.compile(r"Could not locate (?:class|function) '([^']+)'|Unknown (?:layer|object): '?([\w.>]+)'?")


def load_models(
    composition: Composition,
    folder: Path,
    *,
    allow_python: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    safe_mode: bool = True,
    source: SourceText | None = None,
) -> dict[str, keras.Model]:
    """Loads every model that the composition's members use and the spec gives a source for.

    Each is loaded under the seed of the first member that uses it as it is (no copy), so a run with the same spec
    starts from the same weights, and from the same state of its random layers.

    Args:
        composition: the composition; models that the caller passes in (source None) are left out.
        folder: where relative paths and modules are looked for: the spec's folder.
        allow_python, custom_objects, safe_mode: as in `load_model`.
        source: the spec, for the place of a fault.

    Returns:
        Model name -> model.

    Raises:
        GraphError: a model cannot be loaded; the message names it, the diagnostic (MG403-MG405) has the place.
    """
    seeds: dict[str, int] = {}
    for member in sorted(composition.members, key=lambda member: member.copy_index is not None):
        seeds.setdefault(member.model, member.seed)
    how: dict[str, Any] = {"allow_python": allow_python, "custom_objects": custom_objects, "safe_mode": safe_mode}
    models = {}
    for name, named in composition.models:
        if named is not None and name in seeds:
            try:
                models[name] = load_model(name, named, folder, seed=seeds[name], **how)
            except GraphError as error:
                code = "MG405" if isinstance(named, nodes.FactorySource) else "MG404"
                fault = Diagnostic(code, str(error), named.span, source)
                raise GraphError(str(error), (fault,)) from error
    return models


def load_model(
    name: str,
    source: nodes.Source,
    folder: Path,
    *,
    allow_python: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    safe_mode: bool = True,
    seed: int | None = None,
) -> keras.Model:
    """Loads the model that a `model` statement names.

    A `.keras` file is loaded with its compile state, or without it and with a warning where that state needs code
    which is not there. An `.h5` file comes without one (Keras 3 cannot read what such files say of losses). A
    SavedModel folder becomes a functional model with the names of its serving signature; it can predict and be
    exported, not trained. Variables are made on the device of the scope in which this is called.

    Args:
        name: the model's name in the spec, for messages.
        source: a path relative to `folder`, or a factory.
        folder: the spec's folder.
        allow_python: whether a factory may run.
        custom_objects: classes and functions by name, as in `keras.saving.load_model`.
        safe_mode: False allows files that hold Python code (lambdas) to run it.
        seed: what the random numbers of a factory, and of a file's dropout, start from; if None, it follows from
            `name`.

    Returns:
        The model.

    Raises:
        GraphError: the file is missing or no model, needs safe mode off or a class that is not registered; the factory
            is not allowed, not found, raised, or returned something else.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> model.save(folder / "wine.keras")
        >>> load_model("wine", nodes.PathSource("wine.keras"), folder).count_params()
        4
    """
    seed = default_seed(name) if seed is None else seed
    if isinstance(source, nodes.FactorySource):
        return _from_factory(name, source, folder, seed, allow_python)
    path = located(folder, source.path)
    if not path.exists():
        raise GraphError(f"the file of the model `{name}` is missing: {path}{near_files(path)}")
    if path.suffix == ".keras" or path.suffix.lower() in H5_SUFFIXES:
        with seeded(seed):  # files hold no state of dropout and its like: it is made anew
            return _from_file(name, path, dict(custom_objects or {}), safe_mode)
    if path.is_dir():
        return _from_saved_model(name, path)
    raise GraphError(
        f"the file of the model `{name}` is no model that can be read: {path}. Expected a `.keras` or `.h5` file or a "
        "SavedModel folder"
    )


def _from_factory(name: str, source: nodes.FactorySource, folder: Path, seed: int, allow_python: bool) -> keras.Model:
    try:
        model = call_factory(source, folder, seed=seed, allow_python=allow_python)
    except FactoryFault as fault:
        raise GraphError(f"the model `{name}` cannot be made: {fault}") from fault
    if not isinstance(model, keras.Model):
        hint = " A plain layer becomes one with `keras.Sequential([layer])`." if isinstance(model, keras.Layer) else ""
        raise GraphError(
            f"the model `{name}` cannot be made: the factory `{source.module}:{source.function}` returned a "
            f"{type(model).__module__}.{type(model).__qualname__}. Expected a keras.Model.{hint}"
        )
    return model


def _from_saved_model(name: str, path: Path) -> keras.Model:
    if not is_saved_model(path):
        versions = sorted((p.name for p in path.iterdir() if p.name.isdigit() and is_saved_model(p)), key=int)
        if versions:
            raise GraphError(
                f"the folder of the model `{name}` holds {len(versions)} exported version(s), not a model: {path}. "
                f"Name one of them: {quoted_list([f'{path.name}/{version}' for version in versions[-3:]])}"
            )
        raise GraphError(
            f"the folder of the model `{name}` is no SavedModel: {path} holds no `saved_model.pb`. Expected a "
            "SavedModel folder, or a `.keras` or `.h5` file"
        )
    try:
        return load_saved_model(path)
    except SavedModelFault as fault:
        raise GraphError(f"the SavedModel of the model `{name}` cannot be used: {path}: {fault}") from fault


def _from_file(name: str, path: Path, custom_objects: dict[str, Any], safe_mode: bool) -> keras.Model:
    with_state = path.suffix == ".keras"
    try:
        return _read(name, path, custom_objects, safe_mode, with_state)
    except Exception as error:
        if not with_state:
            raise GraphError(_explain(name, path, error)) from error
        first = error
    try:
        model = _read(name, path, custom_objects, safe_mode, with_state=False)
    except Exception as error:
        raise GraphError(_explain(name, path, error)) from error
    warnings.warn(
        f"the model `{name}` ({path}) was loaded without its optimizer, loss and metrics: {_first_line(first)} Give "
        "them in a `train` statement or to `compile`.",
        ComposerWarning,
        stacklevel=3,
    )
    return model


def _read(name: str, path: Path, custom_objects: dict[str, Any], safe_mode: bool, with_state: bool) -> keras.Model:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_UNUSED_OPTIMIZER)
        model = keras.saving.load_model(path, custom_objects=custom_objects, compile=with_state, safe_mode=safe_mode)
    if not isinstance(model, keras.Model):
        raise GraphError(f"the file of the model `{name}` holds a {type(model).__name__}, not a keras.Model: {path}")
    return model


def _explain(name: str, path: Path, error: Exception) -> str:
    """What a failed load means, and the mend. Keras says all of it in the text of its exceptions alone."""
    text = str(error)
    if isinstance(error, GraphError):
        return text
    if "safe_mode=False" in text:
        return (
            f"the model `{name}` holds Python code (a lambda) or an outside SavedModel, which is not run from a file: "
            f"{path}. Replace the lambda by a registered function or layer; or, if you trust the file, load it with "
            "`keras.saving.load_model(path, safe_mode=False)` and pass the model from Python, or do so in a factory "
            "`module:function`"
        )
    custom = _CUSTOM_CLASS.search(text)
    if custom:
        return (
            f"the model `{name}` needs `{custom[1] or custom[2]}`, which Keras does not know: {path}. Mark it with "
            "`@keras.saving.register_keras_serializable()` and import its module before loading, or give it in "
            "`custom_objects`; from the command line, a factory `module:function` that loads the file does both"
        )
    if "No model config found" in text or path.name.endswith(".weights.h5"):
        return (
            f"the file of the model `{name}` holds weights only, no architecture: {path}. Save the whole model with "
            "`model.save`"
        )
    if "accessible `.keras` zip file" in text or "file signature not found" in text:
        size = f" ({path.stat().st_size} bytes)" if path.is_file() else ""
        return f"the file of the model `{name}` is no `{path.suffix}` file, or it is damaged: {path}{size}"
    return (
        f"the file of the model `{name}` cannot be loaded by Keras {keras.__version__}: {path}: {_first_line(error)} "
        "If it was saved by Keras 2, load it with `tf_keras` and save it anew with Keras 3"
    )


def _first_line(error: Exception, width: int = 300) -> str:
    line = " ".join(str(error).split("Full object config")[0].split("\n\n")[0].split())
    line = line if len(line) <= width else f"{line[:width]}..."
    return line if line.endswith(".") else f"{line}."
