"""A factory source `package.module:function(arguments)` -> what the function returns.

The one place where a spec makes Python code run. It is refused unless the caller allows it.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import random
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import numpy as np
import tensorflow as tf

from composer.errors import ComposerError
from composer.graph.hints import near
from composer.language import nodes

NUMPY_SEEDS = 2**32  # NumPy takes no larger one


class FactoryFault(Exception):  # noqa: N818 - never leaves composer: the caller says which member it belongs to
    """Why a factory gave nothing, in words without the member's name; `load_model` and `load_rows` add it."""


def call_factory(source: nodes.FactorySource, folder: Path, *, seed: int, allow_python: bool) -> object:
    """Imports the factory's module, with the spec's folder first on the path, and calls the function under its own
    seed.

    Args:
        source: the factory as the spec names it.
        folder: the spec's folder; modules in it are found first.
        seed: what Python's, NumPy's, Keras' and TensorFlow's random numbers start from during the call.
        allow_python: whether the caller allows the spec to run Python code.

    Returns:
        What the function returned; the caller judges its type.

    Raises:
        FactoryFault: it is not allowed, not found, refuses its arguments, or raised.
    """
    label = f"{source.module}:{source.function}"
    if not allow_python:
        raise FactoryFault(
            f"the source `{label}` runs Python code, and that is not allowed. If you trust this spec, allow it with "
            "`--allow-python` on the command line or `allow_python=True` in Python"
        )
    arguments = {option.name.text: python_value(option.value, label) for option in source.arguments}
    with folder_on_path(folder, source.module):
        function = _find_function(source, folder, label)
        _check_arguments(function, arguments, label)
        with seeded(seed):
            return _call(function, arguments, label)


def default_seed(name: str) -> int:
    """The seed of something that has none of its own: it depends on the name alone."""
    return zlib.crc32(name.encode())


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Starts all random numbers from `seed` and, at the end, sets them back as far as they can be.

    Weights and layer seeds that nobody has seeded come from Python's generator, so a model built in here depends on the
    seed alone. Python's and NumPy's generators go on afterwards as if nothing had happened. TensorFlow's global seed
    is set
    back, but its count of draws cannot be read: unseeded random operations start anew from that seed. Keras' global
    generator, which only `keras.random` functions called without a seed draw from, is left alone.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    tensorflow_seed, _ = tf.compat.v1.random.get_seed(None)  # the one public way to read it
    random.seed(seed)
    np.random.seed(seed % NUMPY_SEEDS)
    tf.random.set_seed(seed)
    try:
        yield
    finally:
        tf.random.set_seed(tensorflow_seed)
        np.random.set_state(numpy_state)
        random.setstate(python_state)


@contextlib.contextmanager
def folder_on_path(folder: Path, module: str) -> Iterator[None]:
    """Puts the folder first on the import path for the duration.

    A package of the same name that came from elsewhere steps aside for as long: two specs in two folders may both keep
    their factories in a `models.py`.
    """
    top = module.partition(".")[0]
    place = str(folder.resolve())
    aside = _modules_from_elsewhere(top, place)
    for name in aside:
        del sys.modules[name]
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(place)
        if aside:
            for name in _family(top):
                del sys.modules[name]
            sys.modules.update(aside)


def python_value(value: nodes.Value, label: str) -> object:
    """An argument as Python sees it: lists are lists, maps dicts, bare names and devices strings.

    Raises:
        FactoryFault: the value is a call, or a map has a key that cannot be one.
    """
    if isinstance(value, nodes.Literal):
        return value.value
    if isinstance(value, nodes.Identifier):
        return value.name
    if isinstance(value, nodes.DeviceName):
        return f"{value.kind}:{value.index}"
    if isinstance(value, nodes.ListValue):
        return [python_value(item, label) for item in value.items]
    if isinstance(value, nodes.MapValue):
        return {_key(key, label): python_value(item, label) for key, item in value.items}
    raise FactoryFault(
        f"an argument of the factory `{label}` is the call `{value.name.text}(...)`. Expected numbers, strings, true, "
        "false, none, names, lists or maps. Make the object inside the factory instead"
    )


def _key(value: nodes.Value, label: str) -> object:
    if isinstance(value, nodes.Literal | nodes.Identifier | nodes.DeviceName):
        return python_value(value, label)
    raise FactoryFault(f"a map among the arguments of the factory `{label}` has a key that is a list, a map or a call")


def _family(top: str) -> list[str]:
    return [name for name in sys.modules if name == top or name.startswith(f"{top}.")]


def _modules_from_elsewhere(top: str, place: str) -> dict[str, ModuleType]:
    """The imported modules of that name which are not the ones the folder holds; empty where the folder holds none."""
    loaded = sys.modules.get(top)
    here = PathFinder.find_spec(top, [place])
    if loaded is None or here is None or here.origin is None:
        return {}
    if getattr(loaded, "__file__", None) == here.origin:
        return {}
    return {name: sys.modules[name] for name in _family(top)}


def _find_function(source: nodes.FactorySource, folder: Path, label: str) -> Callable[..., object]:
    module = _import(source.module, folder, label)
    found: object = module
    for part in source.function.split("."):
        if not hasattr(found, part):
            public = [name for name in dir(found) if not name.startswith("_") and callable(getattr(found, name))]
            raise FactoryFault(
                f"the module `{source.module}` ({getattr(module, '__file__', 'built in')}) has no function "
                f"`{source.function}`{near(part, public)}"
            )
        found = getattr(found, part)
    if not callable(found):
        raise FactoryFault(f"`{label}` is a {type(found).__name__}, not a function")
    return found


def _import(name: str, folder: Path, label: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            hint = near(missing, [path.stem for path in sorted(folder.glob("*.py"))])
            raise FactoryFault(
                f"the module `{missing}` of the factory `{label}` was not found in {folder.resolve()} nor on Python's "
                f"path{hint}"
            ) from error
        raise FactoryFault(
            f"the module `{name}` of the factory `{label}` needs `{missing}`, which is not installed"
        ) from error
    except (Exception, SystemExit) as error:
        raise FactoryFault(
            f"importing the module `{name}` of the factory `{label}` failed: {describe(error)}"
        ) from error


def _check_arguments(function: Callable[..., object], arguments: dict[str, object], label: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without one
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        unknown = next((name for name in arguments if name not in signature.parameters), None)
        hint = near(unknown, signature.parameters) if unknown else ""
        raise FactoryFault(f"the factory `{label}{signature}` does not take these arguments: {error}{hint}") from error


def _call(function: Callable[..., object], arguments: dict[str, object], label: str) -> object:
    try:
        return function(**arguments)
    except ComposerError:
        raise
    except (Exception, SystemExit) as error:
        raise FactoryFault(f"the factory `{label}` raised {describe(error)}") from error


def describe(error: BaseException) -> str:
    """An exception of somebody else's code in one line: its type, its text, and the last place it came from."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith(_PACKAGE)]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


_PACKAGE = str(Path(__file__).parent)
