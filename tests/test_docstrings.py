"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import composer

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(composer.__path__, "composer.")
    if not module.name.endswith("__main__")
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> list[Any]:
    """The docstrings with examples, by module and name; modules are imported when their tests run."""
    found = []
    for name in MODULES:
        text = Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8")
        if ">>>" in text:
            found.append(name)
    return found


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What examples may use without saying so: two models, their rows, a joint model, an empty folder."""
    import keras
    import numpy as np

    from tests.helpers import net, rows

    monkeypatch.chdir(tmp_path)
    a, b = net(3), net(5, 2)
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    joint.compile(optimizer="adam", loss="mse")
    (xa, ya), (xb, yb) = rows(8), rows(6, 5, 2)
    return {
        "composer": composer,
        "keras": keras,
        "np": np,
        "model_a": a,
        "model_b": b,
        "joint": joint,
        "xa": xa,
        "ya": ya,
        "xb": xb,
        "yb": yb,
        "Path": Path,
        "folder": tmp_path,
    }


def test_there_are_examples_everywhere() -> None:
    assert len(examples()) >= 25


@pytest.mark.parametrize("name", examples())
def test_examples_run(name: str, names: dict[str, Any]) -> None:
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=True)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    failures: list[str] = []
    tests = [test for test in finder.find(module, globs=_names(module, names)) if test.examples]
    assert tests, f"{name} has `>>>` outside of docstrings"
    for test in tests:
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def _names(module: ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    return {**names, **vars(module)}
