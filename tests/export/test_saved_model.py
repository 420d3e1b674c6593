"""One export of three unlike members, looked at from all sides."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import fingerprinting_utils

import composer
from composer.errors import ExportError
from composer.export.device_strings import device_strings
from composer.export.inspect import describe, read_export, request_body
from composer.export.saved_model import export_saved_model
from tests.export.joint import TOLERANCE, fleet, names_in, normal, run_python
from tests.helpers import net, twin

STEPS = ["trace members", "write graphs and variables", "strip device names", "write manifest", "publish"]


@pytest.fixture(scope="module")
def joint() -> Any:
    return fleet()


@pytest.fixture(scope="module")
def version(joint: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_saved_model(joint, tmp_path_factory.mktemp("export") / "fleet")


@pytest.fixture(scope="module")
def loaded(version: Path) -> Any:
    return tf.saved_model.load(str(version))


def test_each_member_has_a_signature_with_its_own_names(joint: Any, loaded: Any) -> None:
    unnamed = joint.members["wine"].model
    names = {
        signature: (set(function.structured_input_signature[1]), set(function.structured_outputs))
        for signature, function in loaded.signatures.items()
    }
    (own_input,) = [each["config"]["name"] for each in unnamed.get_config()["layers"] if "Input" in each["class_name"]]
    assert names == {
        "wine": ({own_input}, {unnamed.layers[-1].name}),
        "image": ({"pixels"}, {"label"}),
        "pair": ({"left", "right"}, {"parts", "total"}),
        "serving_default": (
            {"wine", "image", "pair_left", "pair_right"},
            {"wine", "image", "pair_parts", "pair_total"},
        ),
    }


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_a_member_answers_as_its_model_alone(joint: Any, loaded: Any, rows: int) -> None:
    x = normal(rows, 3)
    (got,) = loaded.signatures["wine"](tf.constant(x)).values()
    np.testing.assert_allclose(got, joint.members["wine"].model(x), rtol=0, atol=TOLERANCE)
    left, right = normal(rows, 2), normal(rows, 4)
    got = loaded.signatures["pair"](left=tf.constant(left), right=tf.constant(right))
    want = joint.members["pair"].model([left, right])
    for output in ("total", "parts"):
        assert got[output].shape == (rows, {"total": 1, "parts": 5}[output])
        np.testing.assert_allclose(got[output], want[output], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_statistics_are_those_of_inference(joint: Any, loaded: Any, rows: int) -> None:
    pixels = normal(rows, 6, 6, 1)
    got = loaded.signatures["image"](pixels=tf.constant(pixels))["label"]
    model = joint.members["image"].model
    np.testing.assert_allclose(got, model(pixels, training=False), rtol=0, atol=TOLERANCE)
    in_training = twin(model)(pixels, training=True)
    assert np.abs(got - in_training).max() > 1e-2


def test_the_joint_signature_runs_all_members_each_on_its_own_rows(joint: Any, loaded: Any) -> None:
    wine, pixels, left, right = normal(7, 3), normal(2, 6, 6, 1), normal(5, 2), normal(5, 4)
    got = loaded.signatures["serving_default"](
        wine=tf.constant(wine), image=tf.constant(pixels), pair_left=tf.constant(left), pair_right=tf.constant(right)
    )
    models = {name: member.model for name, member in joint.members.items()}
    pair = models["pair"]([left, right])
    want = {
        "wine": models["wine"](wine),
        "image": models["image"](pixels, training=False),
        "pair_total": pair["total"],
        "pair_parts": pair["parts"],
    }
    assert set(got) == set(want)
    for name, output in want.items():
        np.testing.assert_allclose(got[name], output, rtol=0, atol=TOLERANCE, err_msg=name)


def test_endpoints_are_attributes_too_and_load_as_keras_layers(joint: Any, loaded: Any, version: Path) -> None:
    x = normal(3, 3)
    want = joint.members["wine"].model(x)
    (got,) = loaded.wine(x).values()
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)
    layer = keras.layers.TFSMLayer(str(version), call_endpoint="wine")
    (got,) = layer(x).values()
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


def test_variables_are_stored_once(joint: Any, loaded: Any, version: Path) -> None:
    variables = [variable for member in joint.members.values() for variable in member.model.variables]
    assert len(loaded.variables) == len(variables)
    stored = tf.train.load_checkpoint(str(version / "variables" / "variables")).get_variable_to_shape_map()
    stored.pop("_CHECKPOINTABLE_OBJECT_GRAPH")
    assert len(stored) == len(variables)
    values = sum(int(np.prod(variable.shape)) * 4 for variable in variables)
    (shard,) = version.glob("variables/variables.data-*")
    assert values <= shard.stat().st_size < values + 6_000  # names and the object graph on top
    assert sum(int(np.prod(shape)) * 4 for shape in stored.values()) == values


def test_no_node_names_a_device(joint: Any, version: Path) -> None:
    homes = {variable.value.device for member in joint.members.values() for variable in member.model.variables}
    assert len(homes) > 1, "the members' variables are meant to lie on several devices"
    assert device_strings(version) == set()
    assert b"/device:" not in (version / "saved_model.pb").read_bytes()


def test_the_fingerprint_is_that_of_the_stripped_graphs(version: Path, tmp_path: Path) -> None:
    fingerprint = tf.saved_model.experimental.read_fingerprint(str(version))
    shutil.copytree(version, tmp_path / "copy")
    (tmp_path / "copy" / "fingerprint.pb").unlink()
    fingerprinting_utils.write_fingerprint(str(tmp_path / "copy"))
    fresh = tf.saved_model.experimental.read_fingerprint(str(tmp_path / "copy"))
    assert fingerprint.saved_model_checksum == fresh.saved_model_checksum


def test_devices_and_replicas_are_kept_on_request(joint: Any, tmp_path: Path) -> None:
    steps: list[str] = []
    kept = export_saved_model(joint, tmp_path, keep_devices=True, on_step=steps.append)
    assert steps == [step for step in STEPS if step != "strip device names"]
    replicas = joint.members["wine"].layer.devices
    assert len(replicas) == 2
    assert set(replicas) <= {name.removeprefix("/job:localhost/replica:0/task:0") for name in device_strings(kept)}
    assert read_export(kept).manifest.keep_devices
    assert "replicas and device names kept" in describe(read_export(kept))
    x = normal(3, 3)
    (got,) = tf.saved_model.load(str(kept)).signatures["wine"](tf.constant(x)).values()
    np.testing.assert_allclose(got, joint.members["wine"].model(x), rtol=0, atol=TOLERANCE)


def test_the_records_say_what_is_in_the_export(joint: Any, version: Path) -> None:
    folder = version / "assets.extra" / "composer"
    assert names_in(folder) == ["manifest.json", "plan.json", "plan.txt", "requests", "spec.mgpu"]
    assert (folder / "spec.mgpu").read_text() == joint.spec_text
    assert (folder / "plan.txt").read_text() == f"{joint.plan}\n"
    assert json.loads((folder / "plan.json").read_text()) == joint.plan.to_dict()
    manifest = read_export(version.parent).manifest
    assert manifest.spec_sha256 == hashlib.sha256(joint.spec_text.encode()).hexdigest()
    assert manifest.versions.tensorflow == tf.__version__
    assert manifest.versions.composer == composer.__version__
    assert [(entry.name, entry.parameters) for entry in manifest.members] == [
        (name, member.model.count_params()) for name, member in joint.members.items()
    ]
    assert {entry.source for entry in manifest.members} == {"python"}


def test_the_manifest_agrees_with_the_signatures(version: Path, loaded: Any) -> None:
    entries = {entry.name: entry for entry in read_export(version).manifest.signatures}
    assert list(entries) == ["wine", "image", "pair", "serving_default"]
    for name, function in loaded.signatures.items():
        for tensors, specs in (
            (entries[name].inputs, function.structured_input_signature[1]),
            (entries[name].outputs, function.structured_outputs),
        ):
            assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors} == {
                key: (spec.dtype.name, tuple(spec.shape)) for key, spec in specs.items()
            }
    assert [tensor.name for tensor in entries["pair"].inputs] == ["left", "right"]


def test_example_requests_are_answered(version: Path, loaded: Any) -> None:
    export = read_export(version)
    for entry in export.manifest.signatures:
        body = json.loads((version / "assets.extra" / "composer" / entry.request).read_text())
        assert body == request_body(entry)
        function = loaded.signatures[body["signature_name"]]
        specs = function.structured_input_signature[1]
        answer = function(**{key: tf.constant(value, specs[key].dtype) for key, value in body["inputs"].items()})
        assert {tensor.name: tensor.shape[1:] for tensor in entry.outputs} == {
            key: tuple(value.shape[1:]) for key, value in answer.items()
        }
        assert all(value.shape[0] == 1 for value in answer.values())


def test_it_loads_with_tensorflow_alone(joint: Any, version: Path, tmp_path: Path) -> None:
    x = normal(5, 3)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys\n"
        "sys.modules['keras'] = sys.modules['tf_keras'] = sys.modules['composer'] = None\n"
        "import numpy as np, tensorflow as tf\n"
        "tf.config.set_soft_device_placement(False)\n"
        "loaded = tf.saved_model.load(sys.argv[1])\n"
        "(got,) = loaded.signatures['wine'](tf.constant(np.load(sys.argv[2]))).values()\n"
        "np.save(sys.argv[3], got.numpy())\n"
    )
    run_python(code, version, tmp_path / "x.npy", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), joint.members["wine"].model(x), rtol=0, atol=TOLERANCE)


def test_nothing_of_the_members_changes(joint: Any, tmp_path: Path) -> None:
    members = joint.members.values()
    before = [(member.model.name, [variable.numpy() for variable in member.model.variables]) for member in members]
    joint.export(tmp_path)
    for member, (name, values) in zip(members, before, strict=True):
        assert member.model.name == name
        for variable, value in zip(member.model.variables, values, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value)


def test_a_new_export_is_a_new_version_and_leaves_the_old_one_alone(joint: Any, version: Path) -> None:
    before = {path: path.read_bytes() for path in version.rglob("*") if path.is_file()}
    assert joint.export(version.parent) == version.parent / "2"
    assert export_saved_model(joint, version.parent, force_version=12) == version.parent / "12"
    assert {path: path.read_bytes() for path in version.rglob("*") if path.is_file()} == before
    assert names_in(version.parent) == ["1", "12", "2"]


@pytest.mark.parametrize("name", ["variables", "signatures", "serving_default", "_x", "self"])
def test_reserved_names_are_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    joint = composer.compile(f"parallel(m as {name}, m as day)", m=net())
    with pytest.raises(ExportError, match=rf"(?s)MG601.*`{name}`.*`as model_{name.strip('_')}`"):
        joint.export(tmp_path / "fleet")
    assert not (tmp_path / "fleet").exists()


def test_an_export_is_quiet(joint: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    joint.export(tmp_path)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
