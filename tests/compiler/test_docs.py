"""The examples in the documentation of the compiler and of the catalog of files run as printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import composer.catalog_files
import composer.compiler

MODULES = [
    name
    for package in (composer.compiler, composer.catalog_files)
    for _, name, _ in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert doctest.testmod(importlib.import_module(name)).failed == 0
