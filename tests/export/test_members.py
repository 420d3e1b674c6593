"""Members of every kind: what their signatures are called, what they answer, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from composer.errors import ExportError
from composer.export.inspect import read_export
from tests.export.joint import TOLERANCE, call, normal
from tests.helpers import net


def export(tmp_path: Path, **models: keras.Model) -> Path:
    return composer.compile(f"parallel({', '.join(models)})", models=models).export(tmp_path)


def names(version: Path, signature: str) -> tuple[list[str], list[str]]:
    entry = read_export(version).signature(signature)
    return [tensor.name for tensor in entry.inputs], [tensor.name for tensor in entry.outputs]


def assert_close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


def test_text_numbers_and_tables_in_one_member(tmp_path: Path) -> None:
    word, tokens = layers.Input((), dtype="string", name="word"), layers.Input((None,), dtype="int32", name="my tokens")
    looked_up = layers.StringLookup(vocabulary=["red", "white"], output_mode="one_hot")(word)
    embedded = layers.GlobalAveragePooling1D()(layers.Embedding(9, 4, mask_zero=True)(tokens))
    model = keras.Model(
        {"word": word, "my tokens": tokens}, layers.Dense(2, name="score")(layers.Concatenate()([looked_up, embedded]))
    )
    version = export(tmp_path, wine=model)
    assert names(version, "wine") == (["my_tokens", "word"], ["score"])
    assert names(version, "serving_default") == (["wine_my_tokens", "wine_word"], ["wine"])
    assert read_export(version).signature("wine").inputs[0].own_name == "my tokens"
    words, numbers = np.array(["white", "blue"]), np.array([[1, 2, 0], [3, 0, 0]], dtype="int32")
    want = model({"word": tf.constant(words), "my tokens": tf.constant(numbers)})
    assert_close(call(version, "wine", word=words, my_tokens=numbers)["score"], want)
    assert_close(call(version, "serving_default", wine_word=words, wine_my_tokens=numbers)["wine"], want)


def test_nested_outputs_are_named_by_their_path(tmp_path: Path) -> None:
    x = layers.Input((3,), name="x")
    model = keras.Model(x, {"head": {"mean": layers.Dense(1)(x), "spread": layers.Dense(2)(x)}, "list": [x, x]})
    version = export(tmp_path, a=model)
    assert names(version, "a") == (["x"], ["head_mean", "head_spread", "list_0", "list_1"])
    rows = normal(2, 3)
    got = call(version, "a", x=rows)
    assert_close(got["head_spread"], model(rows)["head"]["spread"])
    assert_close(got["list_1"], rows)


def test_one_layer_that_makes_several_outputs_gets_numbered_names(tmp_path: Path) -> None:
    left, right, shared = layers.Input((2,), name="l"), layers.Input((2,), name="r"), layers.Dense(1, name="out")
    model = keras.Model([left, right], [shared(left), shared(right)])
    version = export(tmp_path, a=model)
    assert names(version, "a") == (["l", "r"], ["out", "out_1"])
    rows = [normal(2, 2, seed=1), normal(2, 2, seed=2)]
    got = call(version, "a", l=rows[0], r=rows[1])
    assert_close(got["out"], model(rows)[0])
    assert_close(got["out_1"], model(rows)[1])


def test_unnamed_inputs_have_the_names_keras_gave_their_layers(tmp_path: Path) -> None:
    models = {"a": net(), "b": net()}
    version = export(tmp_path, **models)
    for name, model in models.items():
        (own,) = [
            layer["config"]["name"] for layer in model.get_config()["layers"] if layer["class_name"] == "InputLayer"
        ]
        assert names(version, name) == ([own], [model.layers[-1].name])


def test_a_batch_size_that_happens_to_be_written_down_is_opened(tmp_path: Path) -> None:
    x = layers.Input((3,), batch_size=4, name="x")
    model = keras.Model(x, layers.Dense(2, name="y")(x))
    version = export(tmp_path, a=model)
    assert read_export(version).signature("a").inputs[0].shape == (None, 3)
    assert_close(call(version, "a", x=normal(7, 3))["y"], model(normal(7, 3)))


def test_a_batch_size_that_a_state_needs_is_kept(tmp_path: Path) -> None:
    x = layers.Input((None, 3), batch_size=4, name="x")
    model = keras.Model(x, layers.GRU(2, stateful=True, name="y")(x))
    version = export(tmp_path, a=model)
    entry = read_export(version).signature("a")
    assert entry.inputs[0].shape == (4, None, 3)
    want = model(normal(4, 5, 3))  # the export holds the state from before this call
    assert_close(call(version, "a", x=normal(4, 5, 3))["y"], want)


def test_open_axes_of_example_requests_fit_the_model(tmp_path: Path) -> None:
    x = layers.Input((None, None, 1), name="x")
    model = keras.Model(x, layers.GlobalMaxPooling2D()(layers.Conv2D(2, 20)(x)))
    version = export(tmp_path, a=model, b=net())
    assert read_export(version).signature("a").inputs[0].example_shape == (32, 32, 1)
    positions = keras.Sequential([layers.Input((None,), dtype="int32"), layers.Embedding(5, 2)])
    version = export(tmp_path, a=positions)
    assert read_export(version).signature("a").inputs[0].example_shape == (8,)


def test_members_that_share_a_model_store_its_variables_once(tmp_path: Path) -> None:
    model = net()
    version = composer.compile("parallel(m as day, m as night)", m=model).export(tmp_path)
    loaded = tf.saved_model.load(str(version))
    assert len(loaded.variables) == len(model.variables)
    x = normal(3, 3)
    for name in ("day", "night"):
        (got,) = loaded.signatures[name](tf.constant(x)).values()
        assert_close(got, model(x))


def test_copies_have_variables_of_their_own(tmp_path: Path) -> None:
    joint = composer.compile("parallel(m copies=2)", m=net())
    version = joint.export(tmp_path)
    assert len(tf.saved_model.load(str(version)).variables) == 8
    x = normal(3, 3)
    answers = [next(iter(call(version, name, **{names(version, name)[0][0]: x}).values())) for name in ("m_0", "m_1")]
    for name, answer in zip(("m_0", "m_1"), answers, strict=True):
        assert_close(answer, joint.members[name].model(x))
    assert np.abs(answers[0] - answers[1]).max() > 1e-3


@pytest.mark.parametrize("keep_devices", [False, True])
def test_a_grouped_member_takes_flat_rows(tmp_path: Path, keep_devices: bool) -> None:
    model = net()
    joint = composer.compile("parallel(m group=10, n x2) on cpus=2", m=model, n=net())
    version = joint.export(tmp_path, keep_devices=keep_devices)
    (name,) = names(version, "m")[0]
    (got,) = call(version, "m", **{name: normal(7, 3)}).values()
    assert_close(got, model(normal(7, 3)))


@keras.saving.register_keras_serializable("tests.export")
class Branchy(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = layers.Dense(2), layers.Dense(3)

    def call(self, x: Any) -> dict[str, Any]:
        return {"low": self.low(x), "high": self.high(x)}


def test_a_subclassed_model_that_was_called_is_exported(tmp_path: Path) -> None:
    model = Branchy()
    model(normal(4, 3))
    version = export(tmp_path, a=model)
    assert names(version, "a") == (["input"], ["high", "low"])
    assert_close(call(version, "a", input=normal(2, 3))["low"], model(normal(2, 3))["low"])


def test_a_savedmodel_member_is_exported_again(tmp_path: Path) -> None:
    x = layers.Input((3,), name="x")
    model = keras.Model(x, {"y": layers.Dense(2)(x), "z": layers.Dense(1)(x)})
    model.export(tmp_path / "old", verbose=False)
    spec = tmp_path / "spec.mgpu"
    spec.write_text('model old = "old"\nparallel(old as again)\n')
    joint = composer.compile(spec)
    version = joint.export(tmp_path / "new")
    rows = normal(3, 3)
    got = call(version, "again", x=rows)
    assert_close(got["y"], model(rows)["y"])
    assert read_export(version).manifest.members[0].source.endswith("old")


class Plain(layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.convert_to_tensor(np.asarray(x))

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, dtype=x.dtype)


class ToSparse(layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.sparse.from_dense(x)

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, dtype=x.dtype, sparse=True)


def _behind(layer: layers.Layer) -> keras.Model:
    x = layers.Input((3,), name="x")
    return keras.Model(x, layer(x))


def test_what_cannot_be_traced_is_refused_with_the_member(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"(?s)MG604.*forward pass of `bad` cannot be traced.*keras.ops"):
        export(tmp_path, good=net(), bad=_behind(Plain()))
    assert list(tmp_path.iterdir()) == []


def test_a_sparse_output_is_refused_with_the_member(tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=r"MG603.*member `bad` gives `to_sparse\w*`, which is no dense tensor but a Sparse"
    ):
        export(tmp_path, bad=_behind(ToSparse()))


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_a_sparse_or_ragged_input_is_refused_with_the_member(tmp_path: Path, kind: str) -> None:
    x = layers.Input((3,), name="x", **{kind: True})
    model = keras.Model(x, layers.Dense(2)(x) if kind == "sparse" else layers.Embedding(3, 2)(x))
    with pytest.raises(ExportError, match=rf"MG603.*member `bad` takes `x`, which is {kind}"):
        export(tmp_path, bad=model)


def test_names_that_clash_in_the_joint_signature_are_refused(tmp_path: Path) -> None:
    left, right = layers.Input((2,), name="left"), layers.Input((2,), name="right")
    pair = keras.Model([left, right], layers.Add()([left, right]))
    with pytest.raises(ExportError, match=r"(?s)MG602.*both be named `a_left`.*as model_a_left"):
        export(tmp_path, a=pair, a_left=net())
