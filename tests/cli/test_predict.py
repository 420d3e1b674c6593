"""`composer predict`: one file a member, row i for row i."""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.cli.conftest import Run


def test_a_run_predicts_with_its_trained_members(run: Run, shop: Path, finished: Path) -> None:
    ended = run("predict", finished, "--data", "a=a.npz", "--data", "b=b.csv", "-o", "out", "--batch", 3)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "out/a.npy: (16, 1)\nout/b.npy: (10, 3)\n"
    for name, x in (
        ("a", np.load("a.npz")["x"]),
        ("b", np.loadtxt("b.csv", delimiter=",", skiprows=1, usecols=(0, 2))),
    ):
        model = keras.saving.load_model(finished / "models" / f"{name}.keras")
        np.testing.assert_allclose(np.load(f"out/{name}.npy"), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)


def test_columns_are_those_of_the_training_in_any_order(run: Run, shop: Path, finished: Path) -> None:
    run("predict", finished, "--data", "b=b.csv", "-o", "out")
    lines = [line.split(",") for line in Path("b.csv").read_text().splitlines()]
    Path("turned.csv").write_text(
        "\n".join(f"9,{right},{left}" if i else "extra,right,left" for i, (left, _, right) in enumerate(lines))
    )
    ended = run("predict", finished, "--data", "b=turned.csv", "-o", "turned")
    assert ended.code == 0, ended.err
    np.testing.assert_array_equal(np.load("turned/b.npy"), np.load("out/b.npy"))


def test_only_members_with_rows_run(run: Run, shop: Path, finished: Path) -> None:
    assert run("predict", finished, "--data", "a=a.npz", "-o", "out").code == 0
    assert [path.name for path in Path("out").iterdir()] == ["a.npy"]


def test_a_spec_predicts_as_it_is(run: Run, shop: Path) -> None:
    assert run("predict", "spec.mgpu", "--data", "a=a.npz", "-o", "out").code == 0
    model = keras.saving.load_model("a.keras")
    np.testing.assert_allclose(
        np.load("out/a.npy"), model.predict(np.load("a.npz")["x"], verbose=0), rtol=1e-5, atol=1e-6
    )


def test_rows_under_a_branch_go_to_its_copies(run: Run, shop: Path) -> None:
    Path("copies.mgpu").write_text('model a = "a.keras"\nparallel(a copies=2)\n')
    ended = run("predict", "copies.mgpu", "--data", "a=a.npz", "-o", "out")
    assert ended.out == "out/a_0.npy: (16, 1)\nout/a_1.npy: (16, 1)\n"
    ended = run("predict", "copies.mgpu", "--data", "a_1=a.npz", "-o", "one")
    assert [path.name for path in Path("one").iterdir()] == ["a_1.npy"]


def test_predictions_that_are_there_are_not_replaced(run: Run, shop: Path, finished: Path) -> None:
    assert run("predict", finished, "--data", "a=a.npz", "-o", "out").code == 0
    ended = run("predict", finished, "--data", "a=a.npz", "-o", "out")
    assert ended.code == 1
    assert (
        ended.err
        == "error: out/a.npy exists already. Choose another folder with `-o`, or replace the file with `--force`\n"
    )
    assert run("predict", finished, "--data", "a=a.npz", "-o", "out", "--force").code == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("ab=a.npz", "[MG206]: there is no member `ab` to predict with; there are `a`, `b`; did you mean `a` or `b`?"),
        ("a=aa.npz", "[MG502]: the data of `a` cannot be used: the file aa.npz is missing\n  = help: did you mean "),
        ("a=b.csv", "[MG510]: the data of `a` cannot be used: the column `label` of "),
        ("a=wide.npy", "[MG506]: the data of `a` cannot be used: a row of `x` of "),
    ],
)
def test_rows_that_do_not_fit(run: Run, shop: Path, finished: Path, data: str, message: str) -> None:
    np.save("wide.npy", np.ones((2, 5)))
    ended = run("predict", finished, "--data", data, "-o", "out")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error{message}")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "a"), "'a' is not `MEMBER=FILE`, as in `wine=rows.npz`."),
        (("--data", "a=x.npz", "--data", "a=y.npz"), "`a` is given twice."),
        ((), "Missing option '--data'"),
    ],
)
def test_wrong_usage(run: Run, shop: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = run("predict", "spec.mgpu", *arguments, "-o", "out")
    assert ended.code == 2
    assert message in ended.err


def test_a_folder_that_is_no_run(run: Run, shop: Path) -> None:
    ended = run("predict", ".", "--data", "a=a.npz", "-o", "out")
    assert ended.code == 1
    assert ended.err == (
        "error: . is no run folder: it holds no `run.json`. Expected the folder that `composer fit -o` wrote\n"
    )


def test_a_run_that_lost_a_model(run: Run, shop: Path, finished: Path) -> None:
    shutil.copytree(finished, "run")
    Path("run/models/b.keras").unlink()
    ended = run("predict", "run", "--data", "a=a.npz", "-o", "out")
    assert ended.code == 1
    assert "the run run has no saved model of `b`" in ended.err
