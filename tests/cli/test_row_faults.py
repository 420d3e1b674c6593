"""Faults of a member's rows, as the command line tells them: a stable code, the place in the spec, the mend."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from composer.errors import DataError
from composer.pipeline import read
from composer.runs.jobs import prepare_fit
from tests.cli.conftest import Run

TRAIN = "train a optimizer=sgd loss=mse batch=4"
X, Y = np.ones((6, 3), "float32"), np.zeros((6, 1), "float32")


def npz(**changed: object) -> Callable[[], None]:
    return lambda: np.savez("r.npz", **{name: array for name, array in {"x": X, "y": Y, **changed}.items()})


def text(content: str | bytes, name: str = "r.csv") -> Callable[[], object]:
    content = content.encode() if isinstance(content, str) else content
    return lambda: Path(name).write_bytes(content)


CASES: dict[str, tuple[Callable[[], object], str, str, str, str, str]] = {
    # What makes the rows, the `data` and `train` statements, the code, what is underlined, what is said.
    "empty file": (text(b"", "r.npz"), 'data a = "r.npz"', TRAIN, "MG509", '"r.npz"', "the file r.npz is empty"),
    "no rows": (npz(x=X[:0], y=Y[:0]), 'data a = "r.npz"', TRAIN, "MG509", '"r.npz"', "r.npz has no rows"),
    "no file of rows": (text("x"), 'data a = "r.xlsx"', TRAIN, "MG502", '"r.xlsx"', "is missing: r.xlsx"),
    "a folder": (lambda: Path("r.npz").mkdir(), 'data a = "r.npz"', TRAIN, "MG502", '"r.npz"', "r.npz is a folder"),
    "unknown kind": (text("x", "r.doc"), 'data a = "r.doc"', TRAIN, "MG503", '"r.doc"', "is of no kind"),
    "damaged": (text("PK nothing", "r.npz"), 'data a = "r.npz"', TRAIN, "MG503", '"r.npz"', "is no NumPy file"),
    "pickled": (npz(x=np.array([{}, []], object)), 'data a = "r.npz"', TRAIN, "MG503", '"r.npz"', "help: save arrays"),
    "not UTF-8": (text(b"u,v,w,t\n\xff,1,2,3\n"), 'data a = "r.csv" target=t', TRAIN, "MG503", '"r.csv"', "UTF-8"),
    "semicolons": (text("u;v\n1;2\n"), 'data a = "r.csv" target=v', TRAIN, "MG503", '"r.csv"', "help: expected commas"),
    "misspelt array": (
        lambda: np.savez("r.npz", xs=X, y=Y), 'data a = "r.npz"', TRAIN, "MG504", '"r.npz"', "r.npz lacks `x`; it has",
    ),
    "no targets in an archive": (
        lambda: np.savez("r.npz", x=X), 'data a = "r.npz"', TRAIN, "MG505", '"r.npz"', "r.npz lacks `y`; it has `x`",
    ),
    "missing column": (
        text("u,v,w,t\n1,2,3,4\n"), 'data a = "r.csv" target=tt', TRAIN, "MG504", '"r.csv"', "did you mean `t`?",
    ),
    "no target named": (
        text("u,v,w\n1,2,3\n"), 'data a = "r.csv"', TRAIN, "MG505", '"r.csv"', "help: name the column with `target=`",
    ),
    "batch": (npz(), 'data a = "r.npz"', TRAIN[:-8], "MG512", "a group=3", "must hold whole groups of 3 rows."),
    "narrow rows": (npz(x=X[:, :2]), 'data a = "r.npz"', TRAIN, "MG506", '"r.npz"', "has the shape (2,), and"),
    "strings": (npz(x=X.astype(str)), 'data a = "r.npz"', TRAIN, "MG506", '"r.npz"', "holds strings"),
    "complex": (npz(x=X * 1j), 'data a = "r.npz"', TRAIN, "MG506", '"r.npz"', "Received: complex numbers"),
    "label outside": (
        npz(y=np.full(6, 7)), 'data a = "r.npz"', TRAIN.replace("mse", "sparse_categorical_crossentropy"),
        "MG507", '"r.npz"', "hold the class 7, but",
    ),
    "labels with gaps": (
        npz(y=np.array([0, np.nan] * 3)), 'data a = "r.npz"',
        TRAIN.replace("mse", "sparse_categorical_crossentropy"),
        "MG507", '"r.npz"', "help: leave those rows out",
    ),
    "lengths": (npz(y=Y[:4]), 'data a = "r.npz"', TRAIN, "MG508", '"r.npz"', "`x` has 6, `y` has 4"),
    "empty cell": (
        text("u,v,w,t\n1,,3,4\n"), 'data a = "r.csv" target=t', TRAIN, "MG510", '"r.csv"', "an empty cell in line 2",
    ),
    "fraction": (npz(), 'data a = "r.npz" validation=0.99', TRAIN, "MG511", "0.99", "help: expected at least one of"),
    "validation rows": (
        lambda: (npz()(), np.savez("v.npz", x=X[:, :1], y=Y)),
        'data a = "r.npz" validation="v.npz"', TRAIN, "MG506", '"v.npz"', "of v.npz has the shape (1,)",
    ),
    "class weights": (
        npz(sample_weight=np.ones(6)), 'data a = "r.npz"', f"{TRAIN} class_weight={{0: 2.0}}",
        "MG512", "{0: 2.0}", "help: pass `sample_weight` instead",
    ),
    "factory": (npz(), "data a = zoo:rows()", TRAIN, "MG513", "zoo:rows()", "--allow-python"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "data", "train", "code", "place", "said"), CASES.values(), ids=CASES.keys())
def test_fault_has_its_code_its_place_and_its_mend(
    run: Run, shop: Path, make: Callable[[], object], data: str, train: str, code: str, place: str, said: str
) -> None:
    make()
    branch = "a group=3" if place == "a group=3" else "a"
    Path("spec.mgpu").write_text(f'model a = "a.keras"\n{data}\n{train}\nparallel({branch})\n')
    ended = run("fit", "spec.mgpu", "-o", "run", "-q", *(("--batch", "4") if branch != "a" else ()))
    assert (ended.code, ended.out) == (1, "")
    (told,) = (line for line in ended.err.splitlines() if not line.startswith((" ", "warning", "2 |", "3 |", "4 |")))
    assert told.startswith(f"error[{code}]: ")
    assert "`a`" in told
    assert said in ended.err
    line, carets = next(
        (above, below) for above, below in pairwise(ended.err.splitlines()) if re.fullmatch(r" +\| +\^+.*", below)
    )
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == place
    assert not Path("run").exists()


def test_faults_of_all_members_are_reported_together_and_of_copies_once(run: Run, shop: Path) -> None:
    npz(y=Y[:2])()
    np.savez("s.npz", x=X[:, :1], y=Y)
    Path("spec.mgpu").write_text(
        'model a = "a.keras"\nmodel c = "a.keras"\ndata a = "r.npz"\ndata c = "s.npz"\n'
        "train * optimizer=sgd loss=mse\nparallel(a copies=3, c)\n"
    )
    ended = run("fit", "spec.mgpu", "-o", "run", "-q")
    assert re.findall(r"error\[(MG\d+)\]: the data of `(\w+)`", ended.err) == [("MG508", "a_0"), ("MG506", "c")]


def test_in_python_the_error_has_the_code_and_the_message_without_a_place() -> None:
    error = DataError("`a` has no rows", code="MG509", member="a", mend="give it some")
    assert (str(error), error.code, error.member) == ("`a` has no rows. Give it some", "MG509", "a")
    assert DataError("rows").code == "MG500"


def test_a_prepared_job_raises_data_errors_with_diagnostics(shop: Path) -> None:
    npz(y=Y[:2])()
    Path("spec.mgpu").write_text(f'model a = "a.keras"\ndata a = "r.npz"\n{TRAIN}\nparallel(a)\n')
    with pytest.raises(DataError, match="differ in their number of rows") as caught:
        prepare_fit(read(Path("spec.mgpu")))
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.source.position(fault.span.start)) == ("MG508", (2, 10))
