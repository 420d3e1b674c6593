"""The folder of a run: what is in it, that it is whole, and what happens where it cannot be written."""

from __future__ import annotations

import errno
import json
import math
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

import composer
from composer.compiler.options import MOST_COPIES
from composer.errors import ComposerError
from composer.language.checks import LONGEST_NAME
from composer.runs.predictions import write_predictions
from composer.runs.run_folder import MemberRecord, RunFolder, RunRecord, read_run
from composer.runs.run_recorder import RunRecorder
from composer.runtime import atomic_files
from tests.helpers import assert_same_arrays, net, rows

HISTORIES = {"a": {"loss": [1.5, 0.1 + 0.2], "val_loss": [2.0, math.nan]}, "b": {"loss": [3.0]}}


@dataclass
class Member:
    model: keras.Model


@dataclass
class Joint:
    members: dict[str, Member]


def joint(**models: keras.Model) -> Joint:
    return Joint({name: Member(model) for name, model in models.items()})


def trained(**arguments: int) -> keras.Model:
    model = net(**arguments)
    model.compile("adam", "mse", run_eagerly=True)
    x, y = rows(8)
    model.fit(x, y, verbose=0)
    return model


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Creating ----------------------------------------------------------------------------------------------------------


def test_new_and_empty_folders_are_taken(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path / "runs" / "first").path.is_dir()
    assert RunFolder.create(tmp_path / "runs" / "first").path.is_dir()


def test_folder_with_other_files_is_refused_even_by_force(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(
            ComposerError, match=r"holds files that are no run \(`thesis\.tex`\)\. Choose a new or an empty"
        ):
            RunFolder.create(tmp_path, force=force)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    with pytest.raises(ComposerError, match=r"thesis\.tex is a file\. Choose a folder"):
        RunFolder.create(tmp_path / "thesis.tex")


def test_earlier_run_is_replaced_by_force_only_and_other_files_stay(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_run_json(RunRecord())
    folder.write_history(HISTORIES)
    folder.save_members(joint(old=net()))
    (tmp_path / "run" / "notes.md").write_text("mine")
    with pytest.raises(
        ComposerError, match=r"holds an earlier run\. Choose another with `-o`, or replace .* `--force`"
    ):
        RunFolder.create(tmp_path / "run")
    assert "models/old.keras" in names(tmp_path / "run")
    RunFolder.create(tmp_path / "run", force=True)
    assert names(tmp_path / "run") == ["notes.md"]


def test_folder_that_cannot_be_made_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ComposerError, match=r"/file is a file\. Choose a folder to write to with `-o`"):
        RunFolder.create(tmp_path / "file" / "run")


# Contents ----------------------------------------------------------------------------------------------------------


def test_history_as_csv_and_json(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_history(HISTORIES)
    assert (tmp_path / "history.csv").read_text().splitlines() == [
        "member,epoch,metric,value",
        "a,1,loss,1.5",
        "a,1,val_loss,2.0",
        "a,2,loss,0.30000000000000004",
        "a,2,val_loss,nan",
        "b,1,loss,3.0",
    ]
    assert json.loads((tmp_path / "history.json").read_text()) == {
        "a": {"loss": [1.5, 0.30000000000000004], "val_loss": [2.0, None]},
        "b": {"loss": [3.0]},
    }


def test_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    spec = "parallel(a, b x2) on cpus=2\n"
    plan = composer.plan(spec)
    record = RunRecord.start(
        {"epochs": 3},
        {"a": MemberRecord(7, None, ("ash", "hue"), {"cultivar": ("barbera", "barolo")}), "b": MemberRecord(8)},
        "/specs/wine.mgpu",
    )
    model = trained()
    folder.write_spec(spec)
    folder.write_plan(plan)
    folder.write_history(HISTORIES)
    folder.write_curves(HISTORIES)
    assert folder.save_members(joint(a=model, b=net())) == ("a", "b")
    record = record.with_epochs({"a": 2, "b": 1}).end("finished")
    folder.write_run_json(record)
    assert names(tmp_path / "run") == [
        *("curves.png", "curves.svg", "history.csv", "history.json", "models/a.keras", "models/b.keras"),
        *("plan.json", "plan.txt", "run.json", "spec.mgpu"),
    ]
    run = read_run(tmp_path / "run")
    assert run.record == record
    assert run.spec == spec
    assert run.histories["a"]["loss"] == HISTORIES["a"]["loss"]
    assert math.isnan(run.histories["a"]["val_loss"][1])
    assert list(run.models) == ["a", "b"]
    assert (tmp_path / "run" / "plan.txt").read_text().strip() == str(plan).strip()
    assert json.loads((tmp_path / "run" / "plan.json").read_text()) == plan.to_dict()
    loaded = keras.saving.load_model(run.model("a"))
    assert_same_arrays(loaded.get_weights(), model.get_weights(), tolerance=0)
    assert int(loaded.optimizer.iterations) == 1
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["state"] == "finished"
    assert document["versions"]["keras"] == keras.__version__
    assert document["members"]["a"]["model"] == "models/a.keras"
    assert document["started"].endswith("+00:00")
    assert document["ended"] >= document["started"]


def test_member_from_a_saved_model_folder_is_not_saved(tmp_path: Path) -> None:
    from composer.graph.models import load_model
    from composer.language import nodes

    net().export(tmp_path / "served", verbose=False)
    served = load_model("served", nodes.PathSource("served"), tmp_path)
    assert RunFolder(tmp_path / "run").save_members(joint(served=served)) == ()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, r"is no run folder: it does not exist\. Expected the folder that `composer fit -o` wrote"),
        (lambda path: path.mkdir(), r"is no run folder: it holds no `run\.json`"),
        (lambda path: path.touch(), r"is no run folder: it is a file"),
        (lambda path: _run_json(path, "{"), r"the run folder .* is damaged: JSONDecodeError"),
        (lambda path: _run_json(path, "{}"), r"the run folder .* is damaged: KeyError"),
        (lambda path: _run_json(path, "[]"), r"the run folder .* is damaged: TypeError"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, prepare, message: str) -> None:
    prepare(tmp_path / "run")
    with pytest.raises(ComposerError, match=message):
        read_run(tmp_path / "run")


def _run_json(path: Path, text: str) -> None:
    path.mkdir()
    (path / "run.json").write_text(text)


def test_members_that_a_run_has_not(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_run_json(RunRecord(members={"digits": MemberRecord(), "wine": MemberRecord()}))
    folder.save_members(joint(wine=net()))
    run = read_run(tmp_path / "run")
    with pytest.raises(ComposerError, match=r"has no member `wines`; it has `digits`, `wine`; did you mean `wine`\?"):
        run.model("wines")
    with pytest.raises(ComposerError, match=r"has no saved model of `digits` \(its state: running\)"):
        run.model("digits")


def test_the_longest_name_of_a_member_is_a_file_name(tmp_path: Path) -> None:
    name = "m" * LONGEST_NAME + f"_{MOST_COPIES - 1}"
    folder = RunFolder.create(tmp_path / "run")
    assert folder.save_members(joint(**{name: net()})) == (name,)


# Whole or not at all -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of this process may not grow past 40 kB: what a full disk does, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_keeps_what_was_there_and_says_what_is_saved(tmp_path: Path, small_disk: None) -> None:
    folder = RunFolder.create(tmp_path / "run")
    small, large = net(), net(inputs=200, units=200)
    folder.save_members(joint(large=net()))
    before = folder.model_path("large").read_bytes()
    message = r"1 model\(s\) could not be saved: `large`\. `large`: .*models/large\.keras cannot be written: .*"
    with pytest.raises(ComposerError, match=message + r"Saved in .*models: `small`"):
        folder.save_members(joint(large=large, small=small))
    assert folder.model_path("large").read_bytes() == before
    assert names(tmp_path / "run") == ["models/large.keras", "models/small.keras"]


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.ENOSPC, r"No space left on device\. Free some space, or choose a folder on another disk"),
        (errno.EROFS, r"Read-only file system\. Choose a folder that you may write to"),
        (errno.EIO, r"Input/output error"),
    ],
)
def test_refused_write_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, mend: str
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_spec("first")

    def refuse(descriptor: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(atomic_files.os, "fsync", refuse)
    expected = mend if number != errno.EIO else "refused"
    with pytest.raises(ComposerError, match=rf"spec\.mgpu cannot be written: {expected}"):
        folder.write_spec("second")
    assert (tmp_path / "spec.mgpu").read_text() == "first"
    assert names(tmp_path) == ["spec.mgpu"]


def test_model_that_cannot_be_saved_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    class Unsaveable(layers.Layer):
        def __init__(self, table: object) -> None:
            super().__init__()
            self.table = table

        def call(self, x):
            return x

        def get_config(self):
            raise NotImplementedError("no config")

    bad = keras.Sequential([layers.Input((3,)), Unsaveable(object())])
    folder = RunFolder.create(tmp_path / "run")
    with pytest.raises(ComposerError, match=r"could not be saved: `bad`\. `bad`: no config\. Saved in .*: `good`"):
        folder.save_members(joint(bad=bad, good=net()))
    assert names(tmp_path / "run") == ["models/good.keras"]


# Recording ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def recorder(tmp_path: Path, clock: Clock, **models: keras.Model) -> RunRecorder:
    record = RunRecord.start({}, {name: MemberRecord() for name in models})
    return RunRecorder(RunFolder.create(tmp_path / "run"), joint(**models), record, clock=clock)


def test_recorder_follows_a_fit_and_saves_all_at_the_end(tmp_path: Path) -> None:
    model = net()
    model.compile("adam", "mse", run_eagerly=True)
    x, y = rows(8)
    with recorder(tmp_path, Clock(), a=model) as own:
        assert read_run(tmp_path / "run").record.state == "running"
        by_member = own.callbacks({"a": [keras.callbacks.TerminateOnNaN()]})
        assert [type(callback).__name__ for callback in by_member["a"]] == ["TerminateOnNaN", "_Collector"]
        history = model.fit(
            x, y, validation_data=(x, y), epochs=3, verbose=0, callbacks=[*by_member["a"], *by_member["*"]]
        )
    run = read_run(tmp_path / "run")
    assert run.record.state == "finished"
    assert run.record.members["a"].epochs == 3
    assert run.histories == {"a": history.history}
    assert_same_arrays(keras.saving.load_model(run.model("a")).get_weights(), model.get_weights(), tolerance=0)
    assert (tmp_path / "run" / "curves.png").is_file()


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [(KeyboardInterrupt(), "interrupted", ""), (ValueError("bad batch"), "failed", "ValueError: bad batch")],
)
def test_recorder_keeps_what_was_trained_when_a_run_is_cut_off(
    tmp_path: Path, error: BaseException, state: str, message: str
) -> None:
    model = net()

    def train() -> None:
        with recorder(tmp_path, Clock(), a=model) as own:
            own.add_epoch("a", {"loss": 0.5})
            model.layers[0].bias.assign_add(np.ones(8))
            raise error

    with pytest.raises(type(error)):
        train()
    run = read_run(tmp_path / "run")
    assert (run.record.state, run.record.message, run.record.members["a"].epochs) == (state, message, 1)
    assert run.histories == {"a": {"loss": [0.5]}}
    assert keras.saving.load_model(run.model("a")).layers[0].bias.numpy().tolist() == [1] * 8


def test_recorder_saves_models_between_epochs_when_that_is_due(tmp_path: Path) -> None:
    clock = Clock()
    own = recorder(tmp_path, clock, a=net())
    own.add_epoch("a", {"loss": 1.0})
    clock.now = 29
    assert not own.update()
    assert names(tmp_path / "run") == ["history.csv", "history.json"]
    clock.now = 31
    assert own.update()
    assert read_run(tmp_path / "run").record.members["a"].epochs == 1
    own._cost = 10.0  # saving took so long that every 31 s would be a third of the time
    clock.now = 62
    assert not own.update()
    clock.now = 240
    assert own.update()


def test_recorder_of_an_interrupted_run_says_what_could_not_be_saved(tmp_path: Path, small_disk: None) -> None:
    with (
        pytest.raises(ComposerError, match=r"the run was interrupted, and not all of it could be saved: .*`a`"),
        recorder(tmp_path, Clock(), a=net(inputs=200, units=200)),
    ):
        raise KeyboardInterrupt


# Predictions -------------------------------------------------------------------------------------------------------


def test_predictions_one_file_a_member(tmp_path: Path) -> None:
    files = write_predictions(
        tmp_path / "out",
        {
            "wine": np.arange(6, dtype="float32").reshape(3, 2),
            "qa": {"start": np.ones(3), "file": np.zeros((3, 1)), "deep": [np.full(3, 2), {"k": np.full(3, 3)}]},
            "words": np.array([b"caf\xc3\xa9", b"tea"], dtype=object),
        },
    )
    assert {name: path.name for name, path in files.items()} == {
        "wine": "wine.npy",
        "qa": "qa.npz",
        "words": "words.npy",
    }
    assert np.load(files["wine"]).tolist() == [[0, 1], [2, 3], [4, 5]]
    with np.load(files["qa"]) as qa:
        assert {name: qa[name].tolist() for name in qa.files} == {
            "start": [1] * 3,
            "file": [[0]] * 3,
            "deep.0": [2] * 3,
            "deep.1.k": [3] * 3,
        }
    assert np.load(files["words"], allow_pickle=False).tolist() == ["café", "tea"]


def test_predictions_do_not_replace_files_unless_forced(tmp_path: Path) -> None:
    write_predictions(tmp_path, {"a": np.zeros(1)})
    with pytest.raises(ComposerError, match=r"a\.npy exists already\. Choose another folder with `-o`, or .*`--force`"):
        write_predictions(tmp_path, {"b": np.ones(1), "a": np.ones(1)})
    assert names(tmp_path) == ["a.npy"]
    write_predictions(tmp_path, {"a": np.ones(1)}, force=True)
    assert np.load(tmp_path / "a.npy").tolist() == [1]
