"""`composer fit --resume RUN`: a run that was cut off ends as one that was not."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from composer.compiler.resolver import resolve
from composer.errors import ComposerError, ResumeError
from composer.language.parser import parse
from composer.runs.file_hashes import check_unchanged, file_hashes
from composer.runs.jobs import FitOptions, FitResult, prepare_fit, run_fit
from composer.runs.run_files import unfinished_run
from composer.source import SourceText
from tests.cli.conftest import Run
from tests.helpers import net, rows
from tests.runtime.alone import assert_equal_bits, state

SPEC = """
model a = "a.keras"
model b = "b.keras"
data a = "a.npz" validation=0.25
data b = "b.npz"
train a optimizer=adam(learning_rate=0.05) loss=mse epochs=4 batch=3 callbacks=[csv_logger(filename="log.csv")]
train b optimizer=sgd(learning_rate=0.1, momentum=0.9) loss=mse epochs=3 batch=4
parallel(a, b)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resuming")
    for name, count in {"a": 12, "b": 9}.items():
        net().save(folder / f"{name}.keras")
        x, y = rows(count)
        np.savez(folder / f"{name}.npz", x=x, y=y)
    (folder / "fleet.mgpu").write_text(SPEC)
    return folder


def fit(place: Path, run: str, **options: Any) -> FitResult:
    source = SourceText(SPEC, str(place / "fleet.mgpu"), place)
    return run_fit(prepare_fit(source, FitOptions(seed=3)), place / run, spec_path=place / "fleet.mgpu", **options)


@pytest.fixture(scope="module")
def whole(place: Path) -> FitResult:
    return fit(place, "whole")


def after(batches: int) -> Any:
    """Says stop after so many batches."""
    asked = iter(range(batches))
    return lambda: next(asked, None) is None


def assert_same_run(place: Path, run: str) -> None:
    for name in ("a", "b"):
        got, want = (keras.saving.load_model(place / each / "models" / f"{name}.keras") for each in (run, "whole"))
        assert_equal_bits(state(got), state(want))
    for file in ("history.csv", "history.json", "callbacks/a/log.csv"):
        assert (place / run / file).read_text() == (place / "whole" / file).read_text()
    assert not (place / run / "backup").exists()


@pytest.mark.parametrize(("batches", "every"), [(2, None), (7, None), (8, 1)])
def test_a_run_that_was_cut_off_ends_as_one_that_was_not(
    place: Path, whole: FitResult, run: Run, batches: int, every: int | None
) -> None:
    name = f"cut_{batches}_{every}"
    result = fit(place, name, should_stop=after(batches), checkpoint_every=every)
    assert result.interrupted
    assert not whole.interrupted
    assert (place / name / "backup" / "backup.npz").exists() == (batches > 2)
    resumed = run("fit", "--resume", place / name, "-q")
    anew = f"note: {place / name} was cut off before its first backup: it begins anew\n"
    assert (resumed.code, resumed.err) == (0, "" if batches > 2 else anew)
    assert "2 members trained" in resumed.out
    assert_same_run(place, name)
    assert json.loads((place / name / "run.json").read_text())["arguments"]["checkpoint_every"] == every
    with pytest.raises(ComposerError, match="has finished: there is nothing left to resume"):
        unfinished_run(place / name)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fit"], "Missing SPEC. Give SPEC and -o RUN, or --resume RUN."),
        (["fit", "x.mgpu"], "Missing -o. Give SPEC and -o RUN, or --resume RUN."),
        (["fit", "--resume", "run", "--epochs", "3"], "--resume goes on with the spec and the settings of the run"),
        (["fit", "x.mgpu", "--resume", "run"], "leave out SPEC, -o"),
    ],
)
def test_what_goes_together(arguments: list[str], told: str, run: Run) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert told in " ".join(result.err.split())


@pytest.fixture
def cut(place: Path, tmp_path: Path) -> Path:
    """A run that was cut off after its first backup, in a folder of its own with all that it was made of."""
    fit(place, "to_copy", should_stop=after(7), force=True)
    folder = Path(shutil.copytree(place, tmp_path / "place"))
    run_json = folder / "to_copy" / "run.json"
    run_json.write_text(run_json.read_text().replace(str(place), str(folder)))
    return folder


def test_changed_files_are_told_before_anything_is_done(cut: Path, run: Run) -> None:
    x, y = rows(12)
    x[3, 1] += 1
    np.savez(cut / "a.npz", x=x, y=y)
    net(4).save(cut / "b.keras")
    kept = {path: path.read_bytes() for path in (cut / "to_copy").rglob("*") if path.is_file()}
    ended = run("fit", "--resume", cut / "to_copy", "-q")
    assert (ended.code, ended.out) == (1, "")
    spec = cut / "to_copy" / "spec.mgpu"
    model, data = ended.err.split("\n\n")
    assert model.startswith(
        f"error[MG515]: the file of model `b` has changed since the run began: b.keras\n --> {spec}:3:11\n"
    )
    assert data.startswith(f"error[MG515]: the data of `a` has changed since the run began: a.npz\n --> {spec}:4:10\n")
    assert re.search(r"\^{7} was SHA-256 [0-9a-f]{12}\.\.\., is [0-9a-f]{12}\.\.\.\n", data)
    mend = "  = help: put the file back as it was to go on, or train anew: `composer fit SPEC -o ANOTHER_RUN`"
    assert data.rstrip().endswith(mend)
    assert {path: path.read_bytes() for path in (cut / "to_copy").rglob("*") if path.is_file()} == kept


def test_a_file_that_is_written_again_with_the_same_bytes_is_the_same(cut: Path, run: Run) -> None:
    for name in ("a.npz", "b.keras"):
        content = (cut / name).read_bytes()
        (cut / name).unlink()
        (cut / name).write_bytes(content)
    ended = run("fit", "--resume", cut / "to_copy", "-q")
    assert (ended.code, ended.err) == (0, "")


def test_what_only_the_training_finds_changed_is_told_in_the_words_of_the_command_line(cut: Path, run: Run) -> None:
    spec = cut / "to_copy" / "spec.mgpu"
    spec.write_text(spec.read_text().replace("momentum=0.9", "momentum=0.8"))
    models = {path: path.read_bytes() for path in (cut / "to_copy" / "models").iterdir()}
    ended = run("fit", "--resume", cut / "to_copy", "-q")
    assert (ended.code, ended.out) == (1, "")
    told = f"error[MG515]: the run {cut / 'to_copy'} cannot go on as it began: the optimizer of `b` (`momentum`): 0.9"
    assert ended.err.startswith(told)
    assert "= help: put it back as it was, or train anew: `composer fit SPEC -o ANOTHER_RUN`" in ended.err
    assert "Call `fit`" not in ended.err
    assert {path: path.read_bytes() for path in (cut / "to_copy" / "models").iterdir()} == models
    spec.write_text(spec.read_text().replace("momentum=0.8", "momentum=0.9"))
    assert run("fit", "--resume", cut / "to_copy", "-q").code == 0


def test_files_beside_one_that_is_named_belong_to_it(tmp_path: Path) -> None:
    for name in ("r_x.npy", "r_y.npy", "v.npz", "a.keras"):
        (tmp_path / name).write_bytes(name.encode())
    spec = 'model a = "a.keras" data a = "r_x.npy" validation="v.npz" train a loss=mse parallel(a)'
    source = SourceText(spec, folder=tmp_path)
    composition = resolve(parse(source), source)
    known = file_hashes(composition, tmp_path)
    assert known["v.npz"] == hashlib.sha256(b"v.npz").hexdigest()
    assert list(known) == ["a.keras", "r_x.npy", "r_y.npy", "v.npz"]
    check_unchanged(composition, source, known)
    (tmp_path / "r_y.npy").write_bytes(b"r_z.npy")
    with pytest.raises(ResumeError, match=r"the data of `a` has changed since the run began: r_y\.npy"):
        check_unchanged(composition, source, known)


def test_what_is_no_run_is_told(place: Path, run: Run) -> None:
    result = run("fit", "--resume", place)
    assert result.code == 1
    assert "is no run folder: it holds no `run.json`" in result.err
