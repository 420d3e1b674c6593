"""`composer fit` of a sweep: its copies in order, and the best of them kept."""

from __future__ import annotations

import csv
from pathlib import Path

import keras
import numpy as np

from tests.cli.conftest import Run

SPEC = """\
model a = "a.keras"
data a = "a.npz" validation=0.25
train a optimizer=adam(learning_rate=[1e-6, 0.1, 1e30], beta_1=0.8) loss=mse batch=8 epochs=3
parallel(a copies=3)
"""


def test_a_sweep_is_ranked_and_its_best_kept(run: Run, shop: Path) -> None:
    Path("sweep.mgpu").write_text(SPEC)
    ended = run("fit", "sweep.mgpu", "-o", "run", "-q")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert "a: the best of 3 is kept as models/a.best.keras" in lines
    assert lines[-4].split() == ["member", "val_loss", "epoch", "learning_rate"]
    with Path("run/ranking.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["member"] for row in table][-1] == "a_2"  # it diverged
    assert [row["learning_rate"] for row in table if row["member"] == "a_1"] == ["0.1"]
    best = keras.saving.load_model("run/models/a.best.keras")
    own = keras.saving.load_model(f"run/models/{table[0]['member']}.keras")
    for mine, theirs in zip(best.get_weights(), own.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    history = (line.split(",") for line in Path("run/history.csv").read_text().splitlines())
    values = [float(cells[3]) for cells in history if cells[0] == table[0]["member"] and cells[2] == "val_loss"]
    assert float(table[0]["value"]) == min(values)
    ended = run("fit", "sweep.mgpu", "-o", "run", "-q", "--force", "--rank", "auc")
    assert ended.code == 0
    assert "nothing is ranked by auc: no copies of a model log it" in ended.err
    assert not Path("run/ranking.csv").exists()
