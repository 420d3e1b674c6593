"""What the text and the file system alone tell is told before TensorFlow is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SPEC = """\
model a = "a.keras"
data a = "a.npz" validation="a_val.npz"
train a optimizer=sgd loss=mse
parallel(a)
"""
FIT, COMPILE = ("fit", "spec.mgpu", "-o", "out"), ("compile", "spec.mgpu", "-o", "out")
PREDICT = ("predict", "spec.mgpu", "--data", "a=a.npz", "-o", "out")
REPORTING = (
    "import sys\nfrom composer.cli import main\ncode = main(sys.argv[1:])\n"
    "assert not {'tensorflow', 'keras'} & set(sys.modules)\nsys.exit(code)"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec and, all but empty, the files that it names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.mgpu").write_text(SPEC)
    for name in ("a.npz", "a_val.npz"):
        (tmp_path / name).touch()
    archive(tmp_path / "a.keras", {"compile_config": {"optimizer": "adam"}})
    return tmp_path


def archive(path: Path, config: dict[str, object]) -> None:
    """A `.keras` file, as far as it is looked at before a model is loaded."""
    model = {"module": "keras", "class_name": "Sequential", "config": {"layers": []}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", json.dumps({**model, **config}))
        file.writestr("model.weights.h5", b"")


def told_without_tensorflow(*arguments: str) -> str:
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", REPORTING, *arguments],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    return ran.stderr


@pytest.mark.parametrize(
    "verb", [("predict", "runs", "--data", "a=a.npz"), ("compile", "runs")], ids=["predict", "compile"]
)
def test_what_is_neither_run_nor_spec_is_told(place: Path, verb: tuple[str, ...]) -> None:
    (place / "run").mkdir()
    assert told_without_tensorflow(*verb, "-o", "out") == (
        "error: runs does not exist. Expected the folder of a run, or a spec, a `.mgpu` file. Did you mean `run`?\n"
    )


def test_paths_are_shown_without_detours(place: Path) -> None:
    (place / "sp").mkdir()
    (place / "sp" / "spec.mgpu").write_text(SPEC.replace('"a', '"../b'))
    told = told_without_tensorflow("fit", "sp/spec.mgpu", "-o", "out")
    assert "the file of model `a` is missing: b.keras\n" in told
    assert "the data of `a` is missing: b.npz\n" in told
    (place / "deep" / "er").mkdir(parents=True)
    (place / "link").symlink_to(place / "deep" / "er")
    (place / "link" / "spec.mgpu").write_text(SPEC.replace('"a', '"../b'))
    assert "is missing: link/../b.npz\n" in told_without_tensorflow("fit", "link/spec.mgpu", "-o", "out")


@pytest.mark.parametrize(
    ("arguments", "missing", "told"),
    [
        (FIT, "a.keras", "error[MG403]: the file of model `a` is missing: a.keras\n --> spec.mgpu:1:11"),
        (FIT, "a.npz", "error[MG502]: the data of `a` is missing: a.npz\n --> spec.mgpu:2:10"),
        (FIT, "a_val.npz", "error[MG502]: the data of `a` is missing: a_val.npz\n --> spec.mgpu:2:29"),
        (PREDICT, "a.keras", "error[MG403]: the file of model `a` is missing: a.keras"),
        (PREDICT, "a.npz", "error[MG502]: the data of `a` cannot be used: the file a.npz is missing"),
        (COMPILE, "a.keras", "error[MG403]: the file of model `a` is missing: a.keras"),
    ],
)
def test_a_missing_file(place: Path, arguments: tuple[str, ...], missing: str, told: str) -> None:
    (place / missing).unlink()
    assert told_without_tensorflow(*arguments).startswith(told)
    assert not (place / "out").exists()


@pytest.mark.parametrize("arguments", [FIT, PREDICT, COMPILE], ids=["fit", "predict", "compile"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is no archive, or was cut off"),
        (b"PK\x03\x04 cut off", "it is no archive, or was cut off"),
        (None, "it lacks `model.weights.h5`"),
    ],
)
def test_a_damaged_model(place: Path, arguments: tuple[str, ...], content: bytes | None, told: str) -> None:
    if content is None:
        with zipfile.ZipFile(place / "a.keras", "w") as file:
            file.writestr("config.json", "{}")
    else:
        (place / "a.keras").write_bytes(content)
    assert told_without_tensorflow(*arguments) == (
        f"error[MG404]: the file of the model `a` cannot be read: a.keras: {told}\n --> spec.mgpu:1:11\n  |\n"
        '1 | model a = "a.keras"\n  |           ^^^^^^^^^\n  = help: save the model again\n'
    )
    assert not (place / "out").exists()


def test_a_model_that_was_not_compiled(place: Path) -> None:
    archive(place / "a.keras", {"compile_config": {}})
    (place / "spec.mgpu").write_text(SPEC.replace("train a optimizer=sgd loss=mse\n", ""))
    assert told_without_tensorflow(*FIT) == (
        "error[MG308]: `a` has no optimizer and no loss: its model was not compiled with one, and no `train` statement "
        "gives one\n --> spec.mgpu:3:10\n  |\n3 | parallel(a)\n  |          ^\n"
        "  = help: add to the spec: train a optimizer=adam loss=mse\n"
    )
    (place / "spec.mgpu").write_text(SPEC.replace("optimizer=sgd ", ""))
    assert "help: add to the spec: train a optimizer=adam\n" in told_without_tensorflow(*FIT)


@pytest.mark.parametrize(
    ("written", "factory", "arguments", "told"),
    [
        ('"a.keras"', "zoo:net()", FIT, "error[MG405]: the model `a` cannot be made: the source `zoo:net` runs Python"),
        ('"a.keras"', "zoo:net()", COMPILE, "error[MG405]: the model `a` cannot be made"),
        (
            '"a.npz"',
            "zoo:rows()",
            FIT,
            "error[MG513]: the data of `a` cannot be used: the source `zoo:rows` runs",
        ),
    ],
)
def test_a_factory_that_may_not_run(
    place: Path, written: str, factory: str, arguments: tuple[str, ...], told: str
) -> None:
    (place / "spec.mgpu").write_text(SPEC.replace(written, factory))
    shown = told_without_tensorflow(*arguments)
    assert shown.startswith(told)
    assert f"= {factory}" in shown
    assert "= help: if you trust this spec, allow it with `--allow-python`\n" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (FIT, "error: out is a file. Choose a folder for the run with `-o`"),
        (PREDICT, "error: out is a file. Choose a folder for the predictions with `-o`"),
        (COMPILE, "error[MG605]: cannot write a version into out: out is no folder"),
    ],
)
def test_a_file_in_the_place_of_the_folder(place: Path, arguments: tuple[str, ...], told: str) -> None:
    (place / "out").touch()
    assert told_without_tensorflow(*arguments).startswith(told)


@pytest.mark.parametrize(
    ("arguments", "entry", "told"),
    [
        (FIT, "run.json", "error: the folder out holds an earlier run. "),
        (FIT, "notes.txt", "error: the folder out holds files that are no run (`notes.txt`). "),
        (PREDICT, "a.npy", "error: out/a.npy exists already. "),
        (("predict", "out", "--data", "a=a.npz", "-o", "new"), "notes.txt", "error: out is no run folder: it holds no"),
    ],
)
def test_a_folder_that_holds_something(place: Path, arguments: tuple[str, ...], entry: str, told: str) -> None:
    (place / "out").mkdir()
    (place / "out" / entry).write_text("{}")
    assert told_without_tensorflow(*arguments).startswith(told)


@pytest.mark.parametrize("arguments", [FIT, PREDICT, COMPILE])
def test_a_folder_that_may_not_be_written(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    ended = run(*arguments)
    assert ended.code == 1
    assert f"{place} " in ended.err
    assert "written" in ended.err


def test_check_warns_of_missing_files_and_of_no_factory(run: Run, place: Path) -> None:
    assert run("check", "spec.mgpu").out == "spec.mgpu: no faults\n"
    (place / "a.keras").rename("aa.keras")
    (place / "a_val.npz").unlink()
    ended = run("check", "spec.mgpu")
    assert (ended.code, ended.out) == (0, "spec.mgpu: 2 warnings\n")
    assert "warning[MG403]: the file of model `a` is missing: a.keras\n --> spec.mgpu:1:11" in ended.err
    assert "= help: did you mean `aa.keras`?" in ended.err
    assert "warning[MG502]: the data of `a` is missing: a_val.npz\n --> spec.mgpu:2:29" in ended.err
    (place / "spec.mgpu").write_text("model a = zoo:net()\ndata a = zoo:rows()\nparallel(a)\n")
    assert run("check", "spec.mgpu").err == ""
