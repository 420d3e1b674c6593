"""A folder with small models, rows and a spec, in which the commands run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from composer.cli import main

SPEC = """\
model a = "a.keras"
model b = "b.keras"
data a = "a.npz" validation=0.25
data b = "b.csv" target=label
train a optimizer=sgd(learning_rate=0.05) loss=mse metrics=[mae] batch=8 epochs=2
train b optimizer=adam loss=sparse_categorical_crossentropy metrics=[accuracy] batch=4 epochs=3
parallel(a, b)
"""
SMALL = """\
model a = "a.keras"
data a = "a.npz"
train a optimizer=sgd loss=mse
parallel(a)
"""
"""A spec that is trained in no time."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process: `run("check", "a.mgpu")`."""
    monkeypatch.setenv("COLUMNS", "100")

    def command(*arguments: object) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return command


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models and rows, made once."""
    import keras
    import numpy as np

    from tests.helpers import net, rows

    folder = tmp_path_factory.mktemp("stock")
    keras.utils.set_random_seed(1)
    net(3, 1).save(folder / "a.keras")
    net(2, 3).save(folder / "b.keras")
    x, y = rows(16)
    np.savez(folder / "a.npz", x=x, y=y)
    x, _ = rows(10, 2, seed=1)
    labels = ("cat", "ant", "bee")
    lines = [f"{left:.6f},{labels[i % 3]},{right:.6f}" for i, (left, right) in enumerate(x.tolist())]
    (folder / "b.csv").write_text("\n".join(["left,label,right", *lines, ""]))
    (folder / "spec.mgpu").write_text(SPEC)
    (folder / "small.mgpu").write_text(SMALL)
    return folder


@pytest.fixture
def shop(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stock, as the current folder."""
    folder = tmp_path / "shop"
    shutil.copytree(stock, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def finished(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the spec, made once; read it only."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    code = main(["fit", str(stock / "spec.mgpu"), "-o", str(folder), "--quiet"])
    assert code == 0
    return folder


def python(*arguments: str) -> list[str]:
    """A command as its own process."""
    return [sys.executable, "-m", "composer", *arguments]
