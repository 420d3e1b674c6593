"""`composer fit`: the run folder, the options, what is refused, and what an interruption leaves."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import keras
import numpy as np
import pytest

from composer.pipeline import read
from composer.runs.jobs import FitOptions, prepare_fit
from composer.runs.run_folder import read_run
from composer.runs.run_recorder import RunRecorder
from tests.cli.conftest import Run
from tests.helpers import assert_same_history, assert_same_weights, net


def alone(shop: Path, epochs: int = 2) -> tuple[keras.Model, dict[str, list[float]]]:
    """Member `a` of the spec under its own Keras `fit`, in order."""
    model = keras.saving.load_model(shop / "a.keras")
    rows = np.load(shop / "a.npz")
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    cut = {"x": rows["x"][:12], "y": rows["y"][:12], "validation_data": (rows["x"][12:], rows["y"][12:])}
    history = model.fit(**cut, batch_size=8, epochs=epochs, shuffle=False, verbose=0)
    return model, history.history


def spec_in_order(shop: Path) -> Path:
    """The spec with rows in the order of the files, so that `alone` sees the same batches."""
    text = (shop / "spec.mgpu").read_text().replace("validation=0.25", "validation=0.25 shuffle=false")
    (shop / "ordered.mgpu").write_text(text)
    return shop / "ordered.mgpu"


def test_each_member_ends_as_it_would_alone(run: Run, shop: Path) -> None:
    ended = run("fit", spec_in_order(shop), "-o", "run")
    assert ended.code == 0, ended.err
    model, history = alone(shop)
    assert_same_weights(keras.saving.load_model("run/models/a.keras"), model)
    assert_same_history(read_run(Path("run")).histories["a"], history)


def test_run_folder(finished: Path, stock: Path) -> None:
    assert sorted(str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()) == [
        "curves.png",
        "curves.svg",
        "history.csv",
        "history.json",
        "models/a.keras",
        "models/b.keras",
        "plan.json",
        "plan.txt",
        "run.json",
        "spec.mgpu",
    ]
    assert (finished / "spec.mgpu").read_text() == (stock / "spec.mgpu").read_text()
    with (finished / "history.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["member"], line["metric"]) for line in lines} == {
        *(("a", metric) for metric in ("loss", "mae", "val_loss", "val_mae")),
        *(("b", metric) for metric in ("loss", "accuracy")),
    }
    histories = json.loads((finished / "history.json").read_text())
    assert (len(histories["a"]["loss"]), len(histories["b"]["loss"])) == (2, 3)
    document = json.loads((finished / "run.json").read_text())
    assert document["state"] == "finished"
    assert set(document["versions"]) == {"composer", "tensorflow", "keras", "python"}
    assert document["members"]["b"]["features"] == ["left", "right"]
    assert document["members"]["b"]["classes"] == {"label": ["ant", "bee", "cat"]}
    assert document["members"]["a"]["epochs"] == 2
    assert (finished / "plan.txt").read_text().startswith("plan: 2 members on ")


def test_saved_members_keep_their_optimizers(finished: Path) -> None:
    model = keras.saving.load_model(finished / "models" / "b.keras")
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    assert int(model.optimizer.iterations.numpy()) == 9  # 3 epochs of 10 rows, 4 a batch


def test_lines_and_summary(run: Run, shop: Path) -> None:
    ended = run("fit", "spec.mgpu", "-o", "run")
    first, *_ = lines = ended.err.splitlines()
    assert len(lines) == 3
    assert first.startswith("epoch 1/3: a loss ")
    assert "; b loss " in first
    assert lines[2].startswith("epoch 3/3: b loss ")  # `a` is through
    head, columns, *members = ended.out.splitlines()
    assert head.startswith("run: 2 members trained in ")
    assert columns.split() == ["member", "epochs", "loss", "val_loss", "mae", "val_mae", "accuracy"]
    assert [line.split()[:2] for line in members] == [["a", "2"], ["b", "3"]]
    shown = float(members[0].split()[2])
    assert shown == pytest.approx(read_run(Path("run")).histories["a"]["loss"][-1], rel=1e-3)


def test_quiet(run: Run, shop: Path) -> None:
    ended = run("fit", "small.mgpu", "-o", "run", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("run: 1 member trained in ")


def test_options_win_over_the_spec(run: Run, shop: Path) -> None:
    assert run("fit", "spec.mgpu", "-o", "run", "-q", "--epochs", "4", "--batch", "5").code == 0
    found = read_run(Path("run"))
    assert {name: len(history["loss"]) for name, history in found.histories.items()} == {"a": 4, "b": 4}
    model = keras.saving.load_model("run/models/b.keras")
    assert int(model.optimizer.iterations.numpy()) == 8  # 4 epochs of 10 rows, 5 a batch
    assert found.record.arguments["epochs"] == 4


def test_seed_decides_the_order_and_the_copies(run: Run, shop: Path) -> None:
    Path("copies.mgpu").write_text(
        'model a = "a.keras"\ndata a = "a.npz"\ntrain a optimizer=adam loss=mse epochs=1 seed=3\nparallel(a copies=2)\n'
    )
    weights, seeds = {}, {}
    for name, seed in (("first", "7"), ("again", "7"), ("other", "8")):
        job = prepare_fit(read(Path("copies.mgpu")), FitOptions(seed=int(seed)))
        weights[name] = job.joint.members["a_1"].model.get_weights()[0]
        seeds[name] = job.joint.members["a_0"].plan.member.seed
    np.testing.assert_array_equal(weights["first"], weights["again"])
    assert np.abs(weights["first"] - weights["other"]).max() > 1e-3
    assert run("fit", "copies.mgpu", "-o", "run", "-q", "--seed", 7).code == 0
    assert read_run(Path("run")).record.members["a_0"].seed == seeds["first"]
    assert seeds["first"] == seeds["again"] != seeds["other"]


def test_warnings_are_printed_as_every_other_diagnostic(run: Run, shop: Path) -> None:
    data = 'data day = "a.npz" data night = "a.npz"'
    spec = f'model a = "a.keras"\n{data}\ntrain * optimizer=sgd loss=mse\nparallel(a as day, a as night)\n'
    Path("twice.mgpu").write_text(spec)
    told = """\
warning[MG321]: `day` and `night` are one model: neither trains as it would alone
 --> twice.mgpu:4:20
  |
4 | parallel(a as day, a as night)
  |                    ^^^^^^^^^^ shares the weights of `day`
  = help: to train each as if it were alone, give `night` a model of its own: a second statement \
`model night = ...`, and `night` in the composition
"""
    for arguments in (("check",), ("plan",), ("fit", "-o", "run", "-q")):
        ended = run(*arguments, "twice.mgpu")
        assert (ended.code, ended.err) == (0, told)


def test_members_whose_loss_is_lost_are_named(run: Run, shop: Path) -> None:
    text = Path("spec.mgpu").read_text().replace("sgd(learning_rate=0.05)", "sgd(learning_rate=1e30)")
    Path("lost.mgpu").write_text(text)
    ended = run("fit", "lost.mgpu", "-o", "run", "-q", "--epochs", "3")
    assert ended.code == 0  # `b` has learnt something
    assert ended.out.startswith("run: 2 members trained in ")
    told = (
        r"warning\[MG516\]: the loss of `a` is nan from epoch 1 on: what it has learnt is lost\n --> lost.mgpu:7:10\n"
    )
    assert re.match(told, ended.err)
    assert "`b`" not in ended.err
    Path("all.mgpu").write_text(re.sub("(?m)^.* b .*\n", "", text).replace("(a, b)", "(a)"))
    ended = run("fit", "all.mgpu", "-o", "run", "-q", "--epochs", "3", "--force")
    assert ended.code == 1
    assert ended.err.startswith("warning[MG516]: the loss of `a` is ")
    assert read_run(Path("run")).record.state == "finished"


def test_metrics_that_are_not_shown_are_counted(run: Run, shop: Path) -> None:
    metrics = "metrics=[mae, mse, mape, msle, cosine_similarity, poisson]"
    Path("spec.mgpu").write_text(Path("spec.mgpu").read_text().replace("metrics=[mae]", metrics))
    ended = run("fit", "spec.mgpu", "-o", "run")
    first, *_ = ended.err.splitlines()
    shown, _, more = first.partition("; ")[0].rpartition(", ")
    assert (shown.count(","), more) == (5, "and 8 more in history.csv")  # 14 with those of the validation
    assert ended.out.splitlines()[-1] == "  and 9 more in history.csv"
    assert re.match(r"run: 2 members trained in \d+ s, after \d+ s of starting and loading\n", ended.out)


def test_copies_are_saved_each(run: Run, shop: Path) -> None:
    Path("copies.mgpu").write_text(
        'model a = "a.keras"\ndata a = "a.npz"\n'
        "train a optimizer=sgd(learning_rate=[0.0, 0.1]) loss=mse epochs=1\nparallel(a copies=2)\n"
    )
    assert run("fit", "copies.mgpu", "-o", "run", "-q").code == 0
    first, second = (keras.saving.load_model(f"run/models/a_{i}.keras").get_weights()[0] for i in (0, 1))
    assert np.abs(first - second).max() > 1e-3
    histories = read_run(Path("run")).histories
    assert set(histories) == {"a_0", "a_1"}


def test_callbacks_write_into_the_run(run: Run, shop: Path) -> None:
    text = Path("small.mgpu").read_text().replace("loss=mse", 'loss=mse callbacks=[csv_logger(filename="log.csv")]')
    Path("small.mgpu").write_text(text)
    assert run("fit", "small.mgpu", "-o", "run", "-q").code == 0
    assert Path("run/callbacks/a/log.csv").read_text().startswith("epoch,loss,val_loss\n0,")


def test_several_inputs_and_outputs(run: Run, shop: Path) -> None:
    left, right = keras.Input((2,), name="left"), keras.Input((3,), name="right")
    joined = keras.layers.Concatenate()([left, right])
    outputs = [keras.layers.Dense(1, name="size")(joined), keras.layers.Dense(2, name="place")(joined)]
    keras.Model([left, right], outputs).save("two.keras")
    rng = np.random.default_rng(0)
    np.savez(
        "two.npz",
        x_left=rng.normal(size=(9, 2)),
        x_right=rng.normal(size=(9, 3)),
        y_size=rng.normal(size=(9, 1)),
        y_place=rng.normal(size=(9, 2)),
    )
    Path("two.mgpu").write_text(
        'model two = "two.keras"\ndata two = "two.npz"\n'
        "train two optimizer=sgd loss={size: mse, place: mae} epochs=1\nparallel(two)\n"
    )
    ended = run("fit", "two.mgpu", "-o", "run", "-q")
    assert ended.code == 0, ended.err
    assert {"loss", "size_loss", "place_loss"} <= set(read_run(Path("run")).histories["two"])
    assert run("predict", "run", "--data", "two=two.npz", "-o", "out").out == "out/two.npz: (9, 1), (9, 2)\n"
    found = np.load("out/two.npz")
    assert [found[key].shape for key in found.files] == [(9, 1), (9, 2)]


# What is refused ---------------------------------------------------------------------------------------------------

A = 'model a = "a.keras"\ndata a = "a.npz"\n'
TRAIN = "train * optimizer=adam loss=mse epochs=1\n"


def arrays(path: str, **changed: object) -> None:
    rows = dict(np.load("a.npz"))
    np.savez(path, **{**rows, **changed})


REFUSED = {
    "missing model": (
        'model a = "aa.keras"\ndata a = "a.npz"\n' + TRAIN,
        r"error\[MG403\]: the file of model `a` is missing: aa.keras(.|\n)*did you mean `a.keras`",
    ),
    "damaged model": ('model a = "a.npz"\ndata a = "a.npz"\n' + TRAIN, r"model `a` is no model that can be read"),
    "no model": ('data a = "a.npz"\n' + TRAIN, r'no model for `a`\. Add to the spec:\n    model a = "a.keras"'),
    "missing data": (
        'model a = "a.keras"\ndata a = "aa.npz"\n' + TRAIN,
        r"error\[MG502\]: the data of `a` is missing: aa.npz(.|\n)*did you mean .*`a.npz`",
    ),
    "no data": (
        'model a = "a.keras"\n' + TRAIN,
        r'error\[MG501\]: no data for `a`(.|\n)*add to the spec: data a = "a.npz"',
    ),
    "unknown member": (A + 'data ab = "a.npz"\n' + TRAIN, r"`data ab` belongs to no member(.|\n)*did you mean `a`"),
    "no train": (A, r"`a` has no optimizer and no loss: (.|\n)*help: add to the spec: train a optimizer=adam loss=mse"),
    "no loss": (A + "train a optimizer=adam\n", r"`a` has no loss: (.|\n)*help: add to the spec: train a loss=mse"),
    "no optimizer": (
        A + "train a loss=mse\n",
        r"`a` has no optimizer: (.|\n)*help: add to the spec: train a optimizer=adam",
    ),
    "wrong input": (
        A.replace("a.npz", "narrow.npz") + TRAIN,
        r"`a` .*has the shape \(2,\), and the model takes \(3,\)",
    ),
    "wrong target": (
        A.replace("a.npz", "wide.npz").replace("a.keras", "two.keras") + TRAIN,
        r"`a` predicts 2 columns, .*have 3",
    ),
    "rows differ": (A.replace("a.npz", "short.npz") + TRAIN, r"`a` .*`x` has 16, `y` has 3"),
    "strings": (
        A.replace("a.npz", "strings.npz") + TRAIN,
        r"`a` .*holds strings, and the model's input .* takes float32",
    ),
    "labels": (
        A.replace("a.npz", "labels.npz") + "train a optimizer=adam loss=sparse_categorical_crossentropy\n",
        r"targets of `a` hold the class 5, but its model tells 1 classes apart",
    ),
    "factory": (
        'model a = zoo:net()\ndata a = "a.npz"\n' + TRAIN,
        r"`zoo:net` runs Python code, (.|\n)*`--allow-python`",
    ),
    "devices": (A + TRAIN + "on", r"error\[MG401\]: `on gpus=64` asks for 64 GPUs(.|\n)*`--simulate 64`"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_in_one_message_and_nothing_is_made(run: Run, shop: Path, text: str, message: str) -> None:
    x, y = np.load("a.npz")["x"], np.load("a.npz")["y"]
    if "two.keras" in text:
        net(3, 2).save("two.keras")
    arrays("narrow.npz", x=x[:, :2])
    arrays("wide.npz", x=x, y=np.concatenate([y, y, y], axis=1))
    arrays("short.npz", y=y[:3])
    arrays("strings.npz", x=np.array([["u", "v", "w"]] * 16))
    arrays("labels.npz", y=np.full(16, 5))
    composition = "parallel(a x64) on gpus=64\n" if text.endswith("on") else "parallel(a)\n"
    Path("spec.mgpu").write_text(text.removesuffix("on") + composition)
    ended = run("fit", "spec.mgpu", "-o", "run")
    assert (ended.code, ended.out) == (1, "")
    assert re.search(message, ended.err), ended.err
    assert ended.err.startswith("error")
    assert "Traceback" not in ended.err
    assert not Path("run").exists()


def test_gaps_in_targets_are_a_warning_that_is_told_once(run: Run, shop: Path) -> None:
    y = np.load("a.npz")["y"].copy()
    y[3] = np.nan
    arrays("gaps.npz", y=y)
    Path("spec.mgpu").write_text(A.replace("a.npz", "gaps.npz") + TRAIN + "parallel(a)\n")
    ended = run("fit", "spec.mgpu", "-o", "run", "-q")
    assert ended.code == 1
    assert ended.err.startswith("warning: the targets of `a` hold NaN or infinity in 1 of 16 rows, first in row 3")
    assert ended.err.splitlines()[1].startswith("warning[MG516]: the loss of `a` is nan")
    assert ended.err.count("targets") == 1
    assert "composer/" not in ended.err
    assert math.isnan(read_run(Path("run")).histories["a"]["loss"][0])


def test_a_batch_that_breaks_groups(run: Run, shop: Path) -> None:
    Path("spec.mgpu").write_text(A + TRAIN + "parallel(a group=3)\n")
    ended = run("fit", "spec.mgpu", "-o", "run", "--batch", "4")
    assert ended.code == 1
    assert "the batch of `a` must hold whole groups of 3 rows. Received: 4" in ended.err


def test_a_folder_that_holds_something(run: Run, shop: Path) -> None:
    assert run("fit", "small.mgpu", "-o", "run", "-q").code == 0
    before = Path("run/run.json").read_bytes()
    ended = run("fit", "small.mgpu", "-o", "run")
    assert ended.code == 1
    assert (
        "the folder run holds an earlier run. Choose another with `-o`, or replace that run with `--force`" in ended.err
    )
    assert Path("run/run.json").read_bytes() == before
    assert run("fit", "small.mgpu", "-o", "run", "-q", "--force", "--epochs", "2").code == 0
    assert len(read_run(Path("run")).histories["a"]["loss"]) == 2
    ended = run("fit", "small.mgpu", "-o", ".", "--force")
    assert ended.code == 1
    assert "holds files that are no run" in ended.err


def test_a_refused_run_leaves_the_earlier_one(run: Run, shop: Path) -> None:
    assert run("fit", "small.mgpu", "-o", "run", "-q").code == 0
    before = Path("run/models/a.keras").read_bytes()
    net(3, 2).save("a.keras")
    arrays("a.npz", y=np.zeros((16, 5)))
    assert run("fit", "small.mgpu", "-o", "run", "--force").code == 1
    assert Path("run/models/a.keras").read_bytes() == before


def test_a_folder_that_cannot_be_written(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for a user without rights
    ended = run("fit", "small.mgpu", "-o", "run")
    assert ended.code == 1
    assert "cannot be written. Choose a folder that you may write to with `-o`" in ended.err
    assert not Path("run").exists()


def test_a_full_disk_says_so(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("composer.runtime.atomic_files.os.fsync", full)
    ended = run("fit", "small.mgpu", "-o", "run")
    assert ended.code == 1
    assert "No space left on device. Free some space, or choose a folder on another disk" in ended.err
    assert "Traceback" not in ended.err


# What an interruption leaves ----------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_is_trained(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second of many epochs, as the recorder sees it."""
    add_epoch = RunRecorder.add_epoch

    def interrupting(self: RunRecorder, member: str, logs: dict[str, float]) -> None:
        add_epoch(self, member, logs)
        if member == "b" and self.epochs()["b"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunRecorder, "add_epoch", interrupting)
    ended = run("fit", spec_in_order(shop), "-o", "run", "-q", "--epochs", "50")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == (
        "note: interrupted; what was trained is kept in run (a after 2 epochs, b after 2 epochs); "
        "`composer fit --resume run` goes on\n"
    )
    model, history = alone(shop, epochs=2)
    assert_same_weights(keras.saving.load_model("run/models/a.keras"), model)
    found = read_run(Path("run"))
    assert found.record.state == "interrupted"
    assert_same_history(found.histories["a"], history)
    assert run("predict", "run", "--data", "a=a.npz", "-o", "out").code == 0


def test_a_batch_that_tensorflow_refuses_keeps_what_is_trained(run: Run, shop: Path) -> None:
    layers = [
        keras.Input((1,), dtype="int32"),
        keras.layers.Embedding(4, 2),
        keras.layers.Flatten(),
        keras.layers.Dense(1),
    ]
    keras.Sequential(layers).save("words.keras")
    np.savez("words.npz", x=np.array([[0], [1], [9]]), y=np.zeros((3, 1)))
    Path("words.mgpu").write_text(
        'model words = "words.keras"\ndata words = "words.npz" shuffle=false\n'
        "train words optimizer=sgd loss=mse batch=1\nparallel(words)\n"
    )
    ended = run("fit", "words.mgpu", "-o", "run", "-q")
    assert ended.code == 1
    assert "a step of `words` failed on its rows: " in ended.err
    assert "9 is not in [0, 4)" in ended.err
    assert '2 | data words = "words.npz" shuffle=false\n  |              ^^^^^^^^^^^\n' in ended.err
    assert "note: what was trained until then is kept in run" in ended.err
    assert ended.err.startswith("error[MG514]: a step of `words` failed")
    assert read_run(Path("run")).record.state == "failed"


def test_a_callback_that_fails_is_named_and_keeps_what_is_trained(run: Run, shop: Path) -> None:
    """Keras knows only in the first epoch that there is no such metric."""
    text = Path("small.mgpu").read_text().replace("loss=mse", "loss=mse callbacks=[early_stopping(monitor=val_mea)]")
    Path("monitor.mgpu").write_text(text)
    ended = run("fit", "monitor.mgpu", "-o", "run", "-q")
    assert ended.code == 1
    told = "error: the callback `early_stopping` of `a` failed in epoch 1: EarlyStopping callback received"
    assert told in ended.err
    assert ended.err.rstrip().endswith("What was trained until then is kept in run")
    assert Path("run/models/a.keras").is_file()


def test_a_bug_keeps_its_traceback_and_the_models(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: RunRecorder) -> bool:
        raise ZeroDivisionError("a slip of ours")

    monkeypatch.setattr(RunRecorder, "update", broken)
    ended = run("fit", "small.mgpu", "-o", "run", "-q")
    assert ended.code == 70
    assert "ZeroDivisionError: a slip of ours" in ended.err
    assert ended.err.splitlines()[-1].startswith("error: this is a bug in composer")
    assert Path("run/models/a.keras").is_file()
