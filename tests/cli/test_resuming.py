"""`composer fit --resume RUN`: a run that was cut off ends as one that was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from composer.errors import ComposerError
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
    assert (resumed.code, resumed.err) == (0, "")
    assert "2 members trained" in resumed.out
    assert_same_run(place, name)
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


def test_what_is_no_run_is_told(place: Path, run: Run) -> None:
    result = run("fit", "--resume", place)
    assert result.code == 1
    assert "is no run folder: it holds no `run.json`" in result.err
