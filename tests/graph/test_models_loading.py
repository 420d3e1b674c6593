"""Models from files, SavedModel folders and factories."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from composer.compiler.ir import Composition, DeviceRequest, Member
from composer.errors import ComposerWarning, GraphError
from composer.graph.models import is_servable_only, load_model, load_models
from composer.language import nodes
from tests.helpers import assert_same_arrays, net, rows


class Doubled(layers.Layer):
    """A custom layer that is not registered."""

    def call(self, x):
        return x * 2


def path(text: str) -> nodes.PathSource:
    return nodes.PathSource(text)


def factory(text: str, **arguments: nodes.Value) -> nodes.FactorySource:
    module, function = text.split(":")
    return nodes.FactorySource(
        module, function, tuple(nodes.Option(nodes.Name(name), value) for name, value in arguments.items())
    )


# Files -------------------------------------------------------------------------------------------------------------


def test_keras_file_comes_with_its_compile_state(tmp_path: Path) -> None:
    model = net()
    model.compile(keras.optimizers.Adam(0.03), "mae", metrics=["mse"], run_eagerly=True)
    x, y = rows(8)
    model.train_on_batch(x, y)
    model.save(tmp_path / "a.keras")
    loaded = load_model("a", path("a.keras"), tmp_path)
    np.testing.assert_array_equal(loaded(x), model(x))
    assert loaded.loss == "mae"
    assert float(loaded.optimizer.learning_rate) == pytest.approx(0.03)
    assert_same_arrays([v.numpy() for v in loaded.optimizer.variables], [v.numpy() for v in model.optimizer.variables])
    assert int(loaded.optimizer.iterations) == 1


def test_keras_file_with_a_loss_that_is_not_known_comes_without_and_warns(tmp_path: Path) -> None:
    def my_loss(y_true, y_pred):
        return keras.ops.mean(y_true - y_pred)

    model = net()
    model.compile("sgd", my_loss)
    model.save(tmp_path / "a.keras")
    with pytest.warns(ComposerWarning, match=r"`wine` .* loaded without its optimizer, loss and metrics: .*'my_loss'"):
        loaded = load_model("wine", path("a.keras"), tmp_path)
    assert not loaded.compiled
    assert load_model("wine", path("a.keras"), tmp_path, custom_objects={"my_loss": my_loss}).compiled


def test_h5_file_comes_uncompiled(tmp_path: Path) -> None:
    model = net()
    model.compile("adam", "mse")
    model.save(tmp_path / "a.h5")
    loaded = load_model("a", path("a.h5"), tmp_path)
    x, _ = rows(5)
    np.testing.assert_array_equal(loaded(x), model(x))
    assert not loaded.compiled


def test_variables_are_made_on_the_device_of_the_caller(tmp_path: Path) -> None:
    net().save(tmp_path / "a.keras")
    with tf.device("CPU:2"):
        loaded = load_model("a", path("a.keras"), tmp_path)
    assert {v.value.device[-5:] for v in loaded.variables} == {"CPU:2"}


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_custom_layer_says_how_to_register_it(tmp_path: Path, suffix: str) -> None:
    keras.Sequential([layers.Input((3,)), Doubled()]).save(tmp_path / f"a{suffix}")
    message = r"the model `wine` needs `Doubled`, .*a\.\w+\. Mark it with `@keras\.saving\.register_keras_serializable"
    with pytest.raises(GraphError, match=message):
        load_model("wine", path(f"a{suffix}"), tmp_path)
    loaded = load_model("wine", path(f"a{suffix}"), tmp_path, custom_objects={"Doubled": Doubled})
    assert np.asarray(loaded(np.ones((1, 3)))).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_lambda_needs_safe_mode_off(tmp_path: Path, suffix: str) -> None:
    keras.Sequential([layers.Input((3,)), layers.Lambda(lambda x: x + 1)]).save(tmp_path / f"a{suffix}")
    with pytest.raises(
        GraphError, match=r"the model `wine` holds Python code .*`keras.saving.load_model\(path, safe_mode"
    ):
        load_model("wine", path(f"a{suffix}"), tmp_path)
    loaded = load_model("wine", path(f"a{suffix}"), tmp_path, safe_mode=False)
    assert np.asarray(loaded(np.ones((1, 3)))).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit.keras", r"is missing: .*digit\.keras; did you mean `digits\.keras`\?"),
        ("no/digits.keras", r"is missing: .*\. The folder .*no is missing as well"),
        ("junk.keras", r"is no `\.keras` file, or it is damaged: .* \(9 bytes\)"),
        ("junk.h5", r"is no `\.h5` file, or it is damaged: .* \(9 bytes\)"),
        ("w.weights.h5", r"holds weights only, no architecture: .*`model\.save`"),
        ("rows.csv", r"is no model that can be read: .*Expected a `\.keras` or `\.h5` file or a SavedModel folder"),
        ("empty", r"is no SavedModel: .*empty holds no `saved_model\.pb`"),
        ("versions", r"holds 2 exported version\(s\), not a model: .*`versions/2` or `versions/10`"),
    ],
)
def test_what_is_no_model_is_told_with_the_mend(tmp_path: Path, name: str, message: str) -> None:
    model = net()
    model.save(tmp_path / "digits.keras")
    model.save_weights(tmp_path / "w.weights.h5")
    for junk in ("junk.keras", "junk.h5", "rows.csv"):
        (tmp_path / junk).write_bytes(b"not model")
    (tmp_path / "empty").mkdir()
    for version in ("2", "10"):
        (tmp_path / "versions" / version).mkdir(parents=True)
        (tmp_path / "versions" / version / "saved_model.pb").touch()
    with pytest.raises(GraphError, match=r"of the model `wine` " + message):
        load_model("wine", path(name), tmp_path)


# SavedModel folders ------------------------------------------------------------------------------------------------


def test_saved_model_folder_predicts_under_its_own_names_and_is_not_trained(tmp_path: Path) -> None:
    model = net(inputs=3, outputs=2)
    model.export(tmp_path / "served", verbose=False)
    loaded = load_model("wine", path("served"), tmp_path)
    x, _ = rows(5)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)
    assert loaded.output_names == ["output_0"]
    assert loaded.input_shape == (None, 3)
    assert is_servable_only(loaded)
    assert is_servable_only(keras.Sequential([loaded]))
    assert not is_servable_only(model)
    assert loaded.trainable_weights == []


def test_saved_model_with_several_inputs_and_outputs_is_called_by_name(tmp_path: Path) -> None:
    a, b = keras.Input((3,), name="question"), keras.Input((2,), name="answer")
    model = keras.Model([a, b], {"sum": layers.Dense(1)(a) + layers.Dense(1)(b), "twice": b * 2})
    model.export(tmp_path / "served", verbose=False)
    loaded = load_model("wine", path("served"), tmp_path)
    x = {"question": np.ones((4, 3), "float32"), "answer": np.full((4, 2), 3, "float32")}
    got, want = loaded(x), model(x)
    assert set(got) == set(want) == {"sum", "twice"}
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-6)
    assert sorted(loaded.output_names) == ["sum", "twice"]


def test_saved_model_whose_output_has_the_name_of_an_input(tmp_path: Path) -> None:
    module = tf.Module()
    module.serve = tf.function(lambda x: {"x": x + 1}, input_signature=[tf.TensorSpec((None, 2), name="x")])
    tf.saved_model.save(module, str(tmp_path / "served"), signatures={"only": module.serve})
    loaded = load_model("wine", path("served"), tmp_path)
    assert loaded.predict(np.zeros((3, 2), "float32"), verbose=0)["x"].tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("signatures", "message"),
    [
        ({}, r"it has no signatures\. Export it anew"),
        ({"p": 1, "q": 1}, r"it has no signature `serving_default`, and which of `p` or `q`"),
        ({"serving_default": None}, r"the rank of its input `x` is not known"),
        ({"serving_default": 0}, r"its input `x` is a single value without a batch axis"),
    ],
)
def test_saved_model_that_cannot_serve_is_refused(tmp_path: Path, signatures: dict, message: str) -> None:
    module = tf.Module()
    functions = {
        name: tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec(rank and (None,) * rank, name="x")])
        if rank != 0
        else tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec((), name="x")])
        for name, rank in signatures.items()
    }
    tf.saved_model.save(module, str(tmp_path / "served"), signatures=functions or None)
    with pytest.raises(GraphError, match=r"the SavedModel of the model `wine` cannot be used: .*served: " + message):
        load_model("wine", path("served"), tmp_path)


# Factories ---------------------------------------------------------------------------------------------------------

ZOO = """
import keras, random, numpy as np
from zoo_parts import units
def net(width=4, activation="relu", shape=(3,)):
    dense = keras.layers.Dense(width * units(), activation)
    return keras.Sequential([keras.Input(tuple(shape)), dense, keras.layers.Dropout(0.5)])
def layer(): return keras.layers.Dense(1)
def nothing(): pass
def boom(): raise RuntimeError("no\\nluck")
def leave(): raise SystemExit(3)
def seen(**arguments):
    global last
    last = arguments
    return net()
def drawn():
    import tensorflow as tf
    global last
    last = float(tf.random.uniform(()))
    return net()
constant = 3
"""


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "zoo.py").write_text(ZOO)
    (tmp_path / "zoo_parts.py").write_text("def units(): return 2\n")
    (tmp_path / "zoo_broken.py").write_text("import no_such_package\n")
    (tmp_path / "zoo_raises.py").write_text("1 / 0\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("zoo")]:
        del sys.modules[name]


def test_factory_is_refused_unless_allowed_and_then_nothing_is_imported(zoo: Path) -> None:
    with pytest.raises(
        GraphError, match=r"`wine` cannot be made: .*`zoo:net` .*`--allow-python` .*`allow_python=True`"
    ):
        load_model("wine", factory("zoo:net"), zoo)
    assert "zoo" not in sys.modules


def test_factory_gets_its_arguments_and_the_folder_is_off_the_path_again(zoo: Path) -> None:
    before = list(sys.path)
    arguments = {
        "width": nodes.Literal(8),
        "activation": nodes.Identifier("tanh"),
        "shape": nodes.ListValue((nodes.Literal(5),)),
    }
    model = load_model("wine", factory("zoo:net", **arguments), zoo, allow_python=True)
    assert model.input_shape == (None, 5)
    assert model.output_shape == (None, 16)
    assert model.layers[0].activation is keras.activations.tanh
    assert sys.path == before


def test_factory_arguments_are_python_values(zoo: Path) -> None:
    arguments = {
        "a": nodes.Literal(None),
        "b": nodes.Literal(True),
        "c": nodes.DeviceName("gpu", 1),
        "d": nodes.MapValue(((nodes.Literal(0), nodes.Literal(1.5)), (nodes.Identifier("k"), nodes.ListValue(())))),
    }
    load_model("wine", factory("zoo:seen", **arguments), zoo, allow_python=True)
    assert sys.modules["zoo"].last == {"a": None, "b": True, "c": "gpu:1", "d": {0: 1.5, "k": []}}


def test_factory_builds_the_same_model_under_one_seed_and_leaves_random_states_alone(zoo: Path) -> None:
    random.seed(7)
    np.random.seed(7)
    tf.random.set_seed(7)
    first = tf.random.uniform(()).numpy()
    python_state, numpy_state = random.getstate(), np.random.get_state()[1].copy()

    def weights(name: str, seed: int | None = None) -> list:
        model = load_model(name, factory("zoo:net"), zoo, allow_python=True, seed=seed)
        return [v.numpy().tolist() for v in model.variables]  # the dropout's seed state among them

    def drawn(seed: int) -> float:
        load_model("wine", factory("zoo:drawn"), zoo, allow_python=True, seed=seed)
        return sys.modules["zoo"].last

    assert drawn(1) == drawn(1) != drawn(2)
    assert weights("wine", 1) == weights("wine", 1)
    assert weights("wine", 1) != weights("wine", 2)
    assert weights("wine") == weights("wine")
    assert weights("wine") != weights("digits")
    assert random.getstate() == python_state
    assert (np.random.get_state()[1] == numpy_state).all()
    assert tf.random.uniform(()).numpy() == first  # the seed is back; its count of draws begins anew


def test_factory_model_equals_one_made_under_the_same_process_seed(zoo: Path) -> None:
    model = load_model("wine", factory("zoo:net"), zoo, allow_python=True, seed=11)
    keras.utils.set_random_seed(11)
    own = sys.modules["zoo"].net()
    assert_same_arrays([v.numpy() for v in model.variables], [v.numpy() for v in own.variables], tolerance=0)


def test_two_folders_may_have_modules_of_one_name(zoo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "zoo.py").write_text(
        "import keras\ndef net(): return keras.Sequential([keras.Input((9,)), keras.layers.ReLU()])\n"
    )
    for _ in range(2):
        assert load_model("a", factory("zoo:net"), zoo, allow_python=True).input_shape == (None, 3)
        assert load_model("b", factory("zoo:net"), other, allow_python=True).input_shape == (None, 9)
    assert sys.modules["zoo"].__file__ == str(zoo / "zoo.py")  # what the process had imported stays


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("zoos:net", {}, r"the module `zoos` .* was not found in .* nor on Python's path; did you mean `zoo`\?"),
        ("zoo:nett", {}, r"the module `zoo` \(.*zoo\.py\) has no function `nett`; did you mean `net`\?"),
        ("zoo:constant", {}, r"`zoo:constant` is a int, not a function"),
        ("zoo:net", {"widht": nodes.Literal(1)}, r"does not take these arguments: .*'widht'; did you mean `width`\?"),
        ("zoo:net", {"width": nodes.Call(nodes.Name("f"), ())}, r"is the call `f\(\.\.\.\)`. Expected numbers"),
        ("zoo:boom", {}, r"the factory `zoo:boom` raised RuntimeError: no luck \(.*zoo\.py:9\)"),
        ("zoo:leave", {}, r"the factory `zoo:leave` raised SystemExit: 3"),
        ("zoo:layer", {}, r"returned a keras.*Dense. Expected a keras\.Model\. .*`keras\.Sequential\(\[layer\]\)`"),
        ("zoo:nothing", {}, r"returned a builtins\.NoneType\. Expected a keras\.Model"),
        ("zoo_broken:net", {}, r"the module `zoo_broken` .* needs `no_such_package`, which is not installed"),
        ("zoo_raises:net", {}, r"importing the module `zoo_raises` .* failed: ZeroDivisionError: .*zoo_raises\.py:1"),
    ],
)
def test_factory_faults_name_the_model_and_the_mend(zoo: Path, name: str, arguments: dict, message: str) -> None:
    with pytest.raises(GraphError, match=r"the model `wine` cannot be made: .*" + message):
        load_model("wine", factory(name, **arguments), zoo, allow_python=True)


# A composition -----------------------------------------------------------------------------------------------------


def test_load_models_takes_what_members_use_under_their_seeds(zoo: Path) -> None:
    net().save(zoo / "a.keras")
    members = (Member("a", "a", "a", seed=1), Member("b_0", "b", "b", 0, seed=5), Member("b", "b", "b", seed=6))
    composition = Composition(
        members,
        DeviceRequest("auto"),
        (("a", path("a.keras")), ("b", factory("zoo:net")), ("passed", None), ("unused", path("missing.keras"))),
    )
    models = load_models(composition, zoo, allow_python=True)
    assert set(models) == {"a", "b"}
    alone = load_model("b", factory("zoo:net"), zoo, allow_python=True, seed=6)
    assert_same_arrays(models["b"].get_weights(), alone.get_weights(), tolerance=0)
    with pytest.raises(GraphError, match=r"the model `b` cannot be made: .*`--allow-python`"):
        load_models(composition, zoo)
