"""`composer compile` and `composer inspect`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.cli.conftest import Run

INSPECTED = """\
export/1, written DATE UTC
composer VERSION, TensorFlow VERSION, Keras VERSION, Python VERSION; no device names

member  model  source   parameters
a       a      a.keras          41
b       b      b.keras          51

signature             name            type     shape
a                in   input_layer     float32  (n, 3)
                 out  dense_1         float32  (n, 1)
b                in   input_layer_1   float32  (n, 2)
                 out  dense_3         float32  (n, 3)
serving_default  in   a               float32  (n, 3)
                      b               float32  (n, 2)
                 out  a               float32  (n, 1)
                      b               float32  (n, 3)

request bodies, for `POST .../v1/models/<name>:predict`
  {"signature_name": "a", "inputs": {"input_layer": [[0.0, 0.0, 0.0]]}}
  {"signature_name": "b", "inputs": {"input_layer_1": [[0.0, 0.0]]}}
  {"signature_name": "serving_default", "inputs": {"a": [[0.0, 0.0, 0.0]], "b": [[0.0, 0.0]]}}
"""


def masked(text: str) -> str:
    """Without dates, versions, the numbers that Keras counts up in a process, and the spaces that make columns."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"(composer|TensorFlow|Keras|Python) \d[\w.+]*", r"\1 VERSION", text)
    text = re.sub(r"\b(input_layer|dense)(_\d+)?\b", r"\1", text)
    return re.sub(r" {2,}", "  ", text)


def test_a_spec_becomes_the_next_version(run: Run, shop: Path) -> None:
    ended = run("compile", "spec.mgpu", "-o", "export")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "export/1: signatures a, b, serving_default\n"
    first = Path("export/1/saved_model.pb").read_bytes()
    ended = run("compile", "spec.mgpu", "-o", "export", "--json")
    assert json.loads(ended.out) == {"path": "export/2", "version": 2, "signatures": ["a", "b", "serving_default"]}
    assert Path("export/1/saved_model.pb").read_bytes() == first

    shown = run("inspect", "export/1")
    assert masked(shown.out) == masked(INSPECTED)
    newest = json.loads(run("inspect", "export", "--json").out)
    assert newest["path"] == "export/2"
    assert [member["name"] for member in newest["members"]] == ["a", "b"]
    body = json.loads(run("inspect", "export", "--request", "b").out)
    loaded = tf.saved_model.load("export/1")
    inputs = {name: tf.constant(value, tf.float32) for name, value in body["inputs"].items()}
    (answer,) = loaded.signatures["b"](**inputs).values()
    assert answer.shape == (1, 3)
    ended = run("inspect", "export", "--request", "bb")
    assert ended.code == 1
    assert "export/2 has no signature `bb`. Expected one of: a, b, serving_default" in ended.err


def test_a_run_exports_its_trained_members(run: Run, shop: Path, finished: Path) -> None:
    assert run("compile", finished, "-o", "export").code == 0
    x = np.load("a.npz")["x"]
    (found,) = tf.saved_model.load("export/1").signatures["a"](tf.constant(x)).values()
    trained = keras.saving.load_model(finished / "models" / "a.keras")
    np.testing.assert_allclose(found, trained.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    untrained = keras.saving.load_model("a.keras")
    assert np.abs(untrained.predict(x, verbose=0) - found).max() > 1e-3


def test_replicas_on_simulated_devices(run: Run, shop: Path) -> None:
    Path("spread.mgpu").write_text('model a = "a.keras"\nparallel(a x2) on gpus=2\n')
    ended = run("--simulate", "2", "compile", "spread.mgpu", "-o", "export")
    assert (ended.code, ended.out) == (0, "export/1: signatures a, serving_default\n")


def test_a_graph_that_the_run_did_not_train(run: Run, shop: Path, finished: Path) -> None:
    ended = run("compile", finished, "-o", "export", "--graph", "other")
    assert ended.code == 1
    assert "trained the unnamed composition, not `other`. Leave `--graph` out" in ended.err


def test_factories_need_leave(run: Run, shop: Path) -> None:
    Path("nets.py").write_text(
        "import keras\ndef net(units):\n    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])\n"
    )
    Path("made.mgpu").write_text("model a = nets:net(units=2)\nparallel(a)\n")
    ended = run("compile", "made.mgpu", "-o", "export")
    assert ended.code == 1
    assert "`nets:net` runs Python code, and that is not allowed" in ended.err
    assert not Path("export").exists()
    assert run("compile", "made.mgpu", "-o", "export", "--allow-python").code == 0


def test_a_class_that_a_factory_registers(run: Run, shop: Path) -> None:
    Path("own.py").write_text(
        "import keras\n"
        "@keras.saving.register_keras_serializable('own')\n"
        "class Twice(keras.layers.Layer):\n    def call(self, x):\n        return 2 * x\n"
        "def net():\n    return keras.Sequential([keras.Input((3,)), Twice(), keras.layers.Dense(1)])\n"
    )
    Path("own.mgpu").write_text('model a = own:net()\ndata a = "a.npz"\ntrain a optimizer=sgd loss=mse\nparallel(a)\n')
    assert run("fit", "own.mgpu", "-o", "run", "-q", "--allow-python").code == 0
    keras.saving.get_custom_objects().pop("own>Twice")  # as in a process that has not seen the module
    del sys.modules["own"]
    refused = run("compile", "run", "-o", "export")
    assert refused.code == 1
    assert "needs `Twice`, which Keras does not know" in refused.err
    assert run("compile", "run", "-o", "export", "--allow-python").code == 0


def test_a_folder_that_cannot_be_written(run: Run, shop: Path) -> None:
    Path("export").touch()
    ended = run("compile", "spec.mgpu", "-o", "export")
    assert ended.code == 1
    assert "error[MG605]: cannot write a version into export" in ended.err


@pytest.mark.parametrize("folder", ["missing", "."])
def test_inspect_of_no_export(run: Run, shop: Path, folder: str) -> None:
    ended = run("inspect", folder)
    assert (ended.code, ended.out) == (1, "")
    assert "error[MG607]" in ended.err


def test_long_request_bodies_are_one_command_away(run: Run, shop: Path) -> None:
    layers = [keras.Input((30, 30)), keras.layers.Flatten(), keras.layers.Dense(1)]
    keras.Sequential(layers).save("large.keras")
    Path("large.mgpu").write_text('model large = "large.keras"\nparallel(large)\n')
    assert run("compile", "large.mgpu", "-o", "export").code == 0
    assert "\n  composer inspect export --request large\n" in run("inspect", "export").out
    (rows,) = json.loads(run("inspect", "export", "--request", "large").out)["inputs"].values()
    assert np.shape(rows) == (1, 30, 30)
