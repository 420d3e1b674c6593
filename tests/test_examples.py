"""Every example runs and does what it says: each member ends as it would alone."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest

import composer
from tests.helpers import assert_same_history, assert_same_weights, twin

EXAMPLES = Path(__file__).parent.parent / "examples"


def load_example(name: str) -> ModuleType:
    """Imports an example by its path: the folder is no package."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPTS = ("join_two_models", "same_model_twice", "grouped", "multi_gpu_model")


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_runs_and_every_loss_falls(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load_example(name).main()
    lines = [line for line in capsys.readouterr().out.splitlines() if "->" in line]
    assert len(lines) >= 2
    for line in lines:
        first, last = (float(number) for number in line.rpartition("loss ")[2].split(" -> "))
        assert last < first, line


def test_join_of_two_unlike_models_trains_each_as_if_alone() -> None:
    example = load_example("join_two_models")
    models, rows = example.make_models(), example.make_rows()
    alone = {name: twin(model) for name, model in models.items()}
    optimizers = {"images": lambda: keras.optimizers.Adam(1e-3), "points": lambda: keras.optimizers.SGD(0.05)}
    loss = {"images": "binary_crossentropy", "points": "mse"}
    epochs, batch_size = {"images": 2, "points": 4}, {"images": 10, "points": 15}
    joint = composer.compile(example.SPEC, models=models)
    joint.compile(optimizer={name: make() for name, make in optimizers.items()}, loss=loss)
    history = joint.fit(rows, epochs=epochs, batch_size=batch_size, shuffle=False, verbose=0)
    for name, model in alone.items():
        model.compile(optimizers[name](), loss[name])
        x, y = rows[name]
        want = model.fit(x, y, epochs=epochs[name], batch_size=batch_size[name], shuffle=False, verbose=0)
        assert_same_weights(models[name], model)
        assert_same_history(history.members[name].history, want.history)


def test_same_model_twice_learns_from_the_rows_of_both() -> None:
    """One model cannot charge by day what it charges by night: it ends between the two prices."""
    example = load_example("same_model_twice")
    model = example.make_model()
    joint = example.train_shared(model)
    assert int(model.optimizer.iterations) == 20 * 64 // 16
    x, _ = example.make_rows("night")
    got = joint.predict({"day": x, "night": x}, verbose=0)
    np.testing.assert_array_equal(got["day"], got["night"])
    np.testing.assert_allclose(np.median(got["day"] / x.sum(axis=1, keepdims=True)), 1.5, rtol=0.2)


def test_copies_of_one_model_end_with_weights_of_their_own() -> None:
    example = load_example("same_model_twice")
    joint = example.train_copies(example.make_model())
    x, _ = example.make_rows("night")
    by_day, by_night = (joint.members[name].model.predict(x, verbose=0) for name in ("tariff_0", "tariff_1"))
    np.testing.assert_allclose(np.median(by_day / by_night), 2.0, rtol=0.2)


def test_grouped_members_take_as_many_steps_and_train_as_if_alone() -> None:
    example = load_example("grouped")
    models, rows = example.make_models(), example.make_rows()
    alone = {name: twin(model) for name, model in models.items()}
    batch_size = {"short": 10, "long": 20}
    joint = composer.compile(example.SPEC, models=models)
    joint.compile(optimizer="adam", loss="mse")
    joint.fit(rows, epochs=2, batch_size=batch_size, shuffle=False, verbose=0)
    predictions = joint.predict({name: x for name, (x, _) in rows.items()}, verbose=0)
    for name, model in alone.items():
        x, y = rows[name]
        model.compile("adam", "mse")
        model.fit(x, y, epochs=2, batch_size=batch_size[name], shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == 60
        assert_same_weights(models[name], model, 1e-5)
        np.testing.assert_allclose(predictions[name], model.predict(x, verbose=0), atol=1e-5)


@pytest.mark.parametrize("form", ["weights on the CPU", "relocation", "merge on the GPU"])
def test_forms_of_multi_gpu_model_train_the_model_as_if_alone(form: str) -> None:
    example = load_example("multi_gpu_model")
    model = example.make_model(form)
    alone = twin(model)
    history = example.train(form, model)
    alone.compile(keras.optimizers.SGD(0.05), "mse")
    want = alone.fit(*example.make_rows(), epochs=3, batch_size=16, shuffle=False, verbose=0)
    assert_same_weights(model, alone, 1e-5)
    assert_same_history(history.history, want.history)


def test_data_files_are_what_their_readme_says() -> None:
    train, held_out = (np.load(EXAMPLES / "data" / f"{name}.npz") for name in ("digits", "digits_test"))
    assert train["x"].shape == (1437, 8, 8, 1)
    assert held_out["x"].shape == (360, 8, 8, 1)
    assert train["x"].dtype == np.uint8
    assert train["x"].max() == 16
    assert set(train["y"]) == set(held_out["y"]) == set(range(10))
    for name, num_rows in (("wine", 133), ("wine_test", 45)):
        with (EXAMPLES / "data" / f"{name}.csv").open(encoding="utf-8") as file:
            records = list(csv.DictReader(file))
        assert len(records) == num_rows
        assert len(records[0]) == 14
        assert {record["cultivar"] for record in records} == {"0", "1", "2"}


@pytest.mark.parametrize("name", ["quickstart", "replicated", "sweep"])
def test_spec_is_sound_and_laid_out_as_fmt_does(name: str) -> None:
    path = EXAMPLES / f"{name}.mgpu"
    assert [fault for fault in composer.check(path) if fault.severity == "error"] == []
    assert composer.format(path) == path.read_text(encoding="utf-8")


def test_faulty_spec_has_its_three_faults() -> None:
    assert [fault.code for fault in composer.check(EXAMPLES / "faulty.mgpu")] == ["MG213", "MG203", "MG207"]


def test_every_file_is_tried() -> None:
    tried = {"join_two_models", "same_model_twice", "grouped", "multi_gpu_model"}  # scripts, above
    tried |= {"serve", "zoo", "make_models"}  # by the README's commands; by sweep.mgpu; by hand
    tried |= {"quickstart", "replicated", "sweep", "faulty"}
    assert {path.stem for path in EXAMPLES.iterdir() if path.suffix in {".py", ".mgpu"}} == tried


def test_quickstart_starts_from_the_same_state_each_time() -> None:
    """Its file holds no state of the dropout layer; it has to follow from the member's seed, not from the process."""
    joints = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        joints.append(composer.compile(EXAMPLES / "quickstart.mgpu"))
    for name, member in joints[0].members.items():
        states = [[v.numpy() for v in joint.members[name].model.variables] for joint in joints]
        assert any("seed" in v.path for v in member.model.variables) == (name == "digits")
        for one, other in zip(*states, strict=True):
            np.testing.assert_array_equal(one, other)
