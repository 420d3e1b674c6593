"""`per=column` from a table to predictions, by the commands."""

from __future__ import annotations

import csv
from pathlib import Path

import keras
import numpy as np

from tests.cli.conftest import Run
from tests.helpers import net, rows

SPEC = """\
model forecaster = "net.keras"
data forecaster = "sales.csv" target=sold validation=0.25 shuffle=false
train forecaster optimizer=sgd(learning_rate=0.05) loss=mse batch=8 epochs=2
parallel(forecaster per=shop)
"""


def test_a_table_is_trained_and_predicted_by_key(run: Run, tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.chdir(tmp_path)  # type: ignore[attr-defined]
    model = net()
    model.save("net.keras")
    x, y = rows(48)
    shops = np.array(["north", "7", "south"])[np.arange(48) % 3]
    lines = [
        f"{a!r},{shop},{b!r},{c!r},{target!r}"
        for (a, b, c), shop, (target,) in zip(x.tolist(), shops, y.tolist(), strict=True)
    ]
    Path("sales.csv").write_text("\n".join(["price,shop,day,promo,sold", *lines]))
    Path("spec.mgpu").write_text(SPEC)
    assert "`forecaster` has a model for each `shop`" in run("plan", "spec.mgpu").out
    ended = run("fit", "spec.mgpu", "-o", "run")
    assert ended.code == 0, ended.err
    assert "`forecaster` is 3 models, one for each `shop`: one batched program" in Path("run/plan.txt").read_text()
    with Path("run/models/forecaster.keys.csv").open() as file:
        header, *table = csv.reader(file)
    assert header == ["shop", "loss", "val_loss"]
    assert [row[0] for row in table] == ["7", "north", "south"]
    ended = run("predict", "run", "--data", "forecaster=sales.csv", "-o", "out")
    assert ended.code == 0, ended.err
    predicted = np.load("out/forecaster.npy")
    for shop, _, val_loss in table:
        own = shops == shop
        alone = keras.models.clone_model(model)
        alone.set_weights(model.get_weights())
        alone.compile(keras.optimizers.SGD(0.05), "mse")
        history = alone.fit(
            x[own], y[own, 0], batch_size=8, epochs=2, validation_split=0.25, shuffle=False, verbose=0
        ).history
        np.testing.assert_allclose(float(val_loss), history["val_loss"][-1], rtol=1e-5)
        np.testing.assert_allclose(predicted[own], alone.predict(x[own], verbose=0), atol=1e-5)
    assert run("compile", "run", "-o", "served").code == 0
    Path("other.csv").write_text("price,shop,day,promo\n1,nowhere,2,3\n")
    ended = run("predict", "run", "--data", "forecaster=other.csv", "-o", "none")
    assert ended.code == 1
    assert "no model for `nowhere` of `shop`" in ended.err
    assert not Path("none").exists()
