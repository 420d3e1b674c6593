"""What a `.keras` file tells without Keras is what Keras says of the loaded model, or nothing."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import pytest
from keras import layers

from composer.catalog_files import catalog_of, signature_of_file
from composer.compiler.resolver import resolve
from composer.graph.signatures import signature_of
from composer.language.parser import parse
from composer.source import SourceText
from tests.helpers import needs_newest_keras


def chain(shape: tuple[int | None, ...], *stack: keras.layers.Layer, dtype: str = "float32") -> keras.Model:
    return keras.Sequential([layers.Input(shape, dtype=dtype, name="x"), *stack])


def two_inputs() -> keras.Model:
    left, right = layers.Input((4,), name="left"), layers.Input((6,), name="right")
    joined = layers.Concatenate()([layers.Dense(3)(left), layers.Dense(3)(right)])
    return keras.Model([left, right], [layers.Dense(2, name="up")(joined), layers.Dense(1, name="down")(joined)])


def dict_ends() -> keras.Model:
    ends = {name: layers.Input((3,), name=name) for name in ("b", "a")}
    added = layers.Add()([ends["a"], ends["b"]])
    return keras.Model(ends, {"z": layers.Dense(2)(added), "c": layers.Dense(1)(added)})


def nested_ends() -> keras.Model:
    ends = {
        "b": [layers.Input((3,), name="first"), layers.Input((3,), name="second")],
        "a": layers.Input((3,), name="a"),
    }
    added = layers.Add()([ends["a"], *ends["b"]])
    return keras.Model(ends, {"out": {"y": layers.Dense(2)(added), "x": layers.Dense(1)(added)}})


def shared_layer() -> keras.Model:
    first, second, dense = layers.Input((5,), name="first"), layers.Input((5,), name="second"), layers.Dense(4)
    return keras.Model([first, second], layers.Subtract()([dense(first), dense(second)]))


def shared_between_models() -> keras.Model:
    dense, inputs = layers.Dense(4), layers.Input((4,))
    parts = [chain((4,), dense) for _ in range(2)]
    return keras.Model(inputs, [part(inputs) for part in parts])


def nested() -> keras.Model:
    inner = chain((8, 8, 3), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.GlobalAveragePooling2D())
    inputs = layers.Input((8, 8, 3), name="x")
    return keras.Model(inputs, layers.Dense(2)(layers.Maximum()([inner(inputs), inner(layers.ReLU()(inputs))])))


def residual() -> keras.Model:
    inputs = layers.Input((8, 8, 4), name="x")
    x = layers.SeparableConv2D(4, 3, padding="same", depth_multiplier=2)(inputs)
    x = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
    x = layers.Add()([x, inputs])
    return keras.Model(inputs, layers.Conv2DTranspose(2, 3, strides=2, padding="same")(x))


def attention(layer: keras.layers.Layer, **named: int) -> keras.Model:
    query, value = layers.Input((5, 8), name="query"), layers.Input((7, 6), name="value")
    return keras.Model([query, value], layer(query, value))


def self_called(layer: keras.layers.Layer) -> keras.Model:
    inputs = layers.Input((5, 8), name="x")
    return keras.Model(inputs, layer(inputs, inputs) if "Query" in type(layer).__name__ else layer([inputs, inputs]))


def dot() -> keras.Model:
    left, right = layers.Input((5,), name="left"), layers.Input((5,), name="right")
    return keras.Model([left, right], layers.Dot((1, 1))([left, right]))


def self_attention() -> keras.Model:
    tokens = layers.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(50, 8, mask_zero=True)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4, value_dim=3, dropout=0.1)(x, x))
    return keras.Model(tokens, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))


def functions() -> keras.Model:
    inputs = layers.Input((4,), name="x")
    x = keras.ops.concatenate([inputs, keras.ops.tanh(inputs) * 2.0], axis=-1)
    return keras.Model(inputs, layers.Dense(3)(x[:, 1:]))


def frozen_part() -> keras.Model:
    base = chain((4,), layers.Dense(6), layers.BatchNormalization())
    base.trainable = False
    return chain((4,), base, layers.Dense(2))


MODELS: dict[str, Callable[[], keras.Model]] = {
    "dense": lambda: chain(
        (4,), layers.Dense(8, activation="relu"), layers.Dropout(0.5), layers.Dense(2, use_bias=False)
    ),
    "dense_on_steps": lambda: chain((5, 4), layers.Dense(3), layers.Flatten(), layers.Dense(1)),
    "einsum": lambda: chain((5, 4), layers.EinsumDense("abc,cd->abd", (5, 6), bias_axes="d")),
    "einsum_ellipsis": lambda: chain((5, 4), layers.EinsumDense("...x,xyz->...yz", (3, 2), bias_axes="yz")),
    "conv1d": lambda: chain((20, 3), layers.Conv1D(4, 5, padding="causal", dilation_rate=2), layers.MaxPooling1D(3)),
    "conv2d": lambda: chain((9, 9, 4), layers.Conv2D(8, (3, 2), strides=2, groups=2), layers.AveragePooling2D(2)),
    "conv2d_same": lambda: chain((9, 7, 1), layers.Conv2D(2, 3, strides=(2, 3), padding="same"), layers.Flatten()),
    "conv3d": lambda: chain((6, 6, 6, 2), layers.Conv3D(3, 2), layers.GlobalMaxPooling3D(keepdims=True)),
    "depthwise1d": lambda: chain((9, 4), layers.DepthwiseConv1D(3, depth_multiplier=2), layers.SeparableConv1D(3, 2)),
    "transposed": lambda: chain((5, 5, 2), layers.Conv2DTranspose(3, 4, strides=3), layers.Conv2DTranspose(1, 2)),
    "transposed1d": lambda: chain((5, 2), layers.Conv1DTranspose(3, 3, strides=2, output_padding=1)),
    "padding": lambda: chain(
        (6, 6, 1), layers.ZeroPadding2D(((1, 2), (0, 3))), layers.Cropping2D(1), layers.UpSampling2D(3)
    ),
    "padding1d": lambda: chain((6, 2), layers.ZeroPadding1D((1, 2)), layers.Cropping1D(1), layers.UpSampling1D(2)),
    "reshapes": lambda: chain(
        (4, 3), layers.Reshape((2, -1)), layers.Permute((2, 1)), layers.Flatten(), layers.RepeatVector(3)
    ),
    "norms": lambda: chain(
        (4, 4, 6),
        layers.BatchNormalization(scale=False),
        layers.GroupNormalization(3),
        layers.LayerNormalization((1, -1)),
    ),
    "rms_norm": lambda: chain((4, 6), layers.RMSNormalization(), layers.UnitNormalization()),
    "normalization": lambda: chain((4, 6), layers.Normalization(), layers.Rescaling(0.5)),
    "normalization_given": lambda: chain((6,), layers.Normalization(mean=0.0, variance=2.0)),
    "prelu": lambda: chain((4, 4, 3), layers.PReLU(shared_axes=(1, 2)), layers.PReLU()),
    "lstm": lambda: chain((5, 4), layers.LSTM(6, return_sequences=True), layers.GRU(3)),
    "gru_variants": lambda: chain((5, 4), layers.GRU(3, reset_after=False, return_sequences=True), layers.SimpleRNN(2)),
    "bidirectional": lambda: chain(
        (5, 4), layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.Bidirectional(layers.GRU(2), "sum")
    ),
    "time_distributed": lambda: chain(
        (5, 6, 4), layers.TimeDistributed(layers.Conv1D(3, 2)), layers.Activation("tanh")
    ),
    "time_distributed_model": lambda: chain(
        (3, 4), layers.TimeDistributed(chain((4,), layers.Dense(2), layers.Dense(1)))
    ),
    "embedding": lambda: chain((7,), layers.Embedding(30, 5), layers.GlobalMaxPooling1D(), dtype="int32"),
    "multi_head": lambda: attention(layers.MultiHeadAttention(3, 4, use_bias=False)),
    "grouped_query": lambda: self_called(layers.GroupQueryAttention(4, 6, 3)),
    "dot_attention": lambda: self_called(layers.Attention(use_scale=True, score_mode="concat")),
    "additive_attention": lambda: self_called(layers.AdditiveAttention()),
    "dot": dot,
    "two_inputs": two_inputs,
    "dict_ends": dict_ends,
    "nested_ends": nested_ends,
    "shared_layer": shared_layer,
    "nested": nested,
    "residual": residual,
    "self_attention": self_attention,
    "functions": functions,
    "frozen_part": frozen_part,
    "frozen_layer": lambda: chain((4,), layers.Dense(5, trainable=False), layers.Dense(2)),
    "mixed_precision": lambda: chain((4,), layers.Dense(5, dtype="mixed_float16"), layers.Dense(2)),
    "half": lambda: chain((4,), layers.Dense(5, dtype="float16")),
    "noise": lambda: chain(
        (4, 3), layers.GaussianNoise(0.1), layers.SpatialDropout1D(0.2), layers.Masking(), layers.ELU()
    ),
    "images": lambda: chain((9, 9, 3), layers.Resizing(6, 5), layers.RandomFlip(), layers.CenterCrop(4, 4)),
    "open_length": lambda: chain((None, 4), layers.LSTM(3)),
    "channels_first": lambda: chain((3, 8, 8), layers.ZeroPadding2D(1, data_format="channels_first"), layers.Flatten()),
}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[keras.Model], Path]:
    def save(model: keras.Model) -> Path:
        path = tmp_path / "model.keras"
        model.save(path)
        return path

    return save


CHANGED = {"transposed1d"}  # Keras 3.12 pads its output otherwise


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_newest_keras) if name in CHANGED else name for name in MODELS]
)
def test_sizes_and_ends_are_those_of_keras(name: str, saved: Callable[[keras.Model], Path]) -> None:
    model = MODELS[name]()
    told = signature_of_file(saved(model))
    assert told is not None
    assert told.parameters == model.count_params()
    assert told.trainable_parameters == sum(math.prod(weight.shape) for weight in model.trainable_weights)
    assert told.weight_bytes == sum(math.prod(weight.shape) * _bytes(weight.dtype) for weight in model.weights)
    outputs = keras.tree.flatten(model.outputs)
    assert [tensor.shape for tensor in told.outputs] == [tuple(leaf.shape) for leaf in outputs]
    seen = signature_of(model)
    assert told.inputs == seen.inputs
    assert [tensor.name for tensor in told.outputs] == [tensor.name for tensor in seen.outputs]
    assert [tensor.dtype for tensor in told.outputs] == [tensor.dtype for tensor in seen.outputs]
    assert told.coupled_layers == seen.coupled_layers
    assert told.flops_per_row == seen.flops_per_row
    assert told.activation_bytes_per_row == seen.activation_bytes_per_row
    assert told.trainable


def _bytes(dtype: str) -> int:
    return int("".join(letter for letter in dtype if letter.isdigit())) // 8


FLOPS = {  # by hand: multiply-adds of the kernels, times two
    "dense": 2 * (4 * 8 + 8 * 2),
    "dense_on_steps": 2 * (5 * 4 * 3 + 15),
    "conv2d": 2 * (4 * 4 * (3 * 2) * 2 * 8),
    "residual": 2 * (64 * (9 * 8 + 8 * 4) + 64 * 9 * 4 + 256 * 9 * 4 * 2),
    "lstm": 2 * (5 * 4 * 6 * (4 + 6) + 5 * 3 * 3 * (6 + 3)),
    "bidirectional": 2 * 2 * (5 * 4 * 3 * (4 + 3) + 5 * 3 * 2 * (6 + 2)),
    "time_distributed": 2 * 5 * 5 * (2 * 4 * 3),
    "multi_head": 2 * (5 * 8 * 12 + 7 * 6 * 12 * 2 + 5 * 12 * 8 + 3 * 5 * 7 * (4 + 4)),
    "shared_layer": 2 * 2 * 5 * 4,
    "embedding": 0,
    "open_length": None,
}
ACTIVATION_BYTES = {"dense": 4 * (4 + 8 + 8 + 2), "half": 4 * 4 + 2 * 5, "mixed_precision": 4 * 4 + 2 * 5 + 4 * 2}


@pytest.mark.parametrize("name", FLOPS)
def test_flops_count_every_call_at_every_position(name: str, saved: Callable[[keras.Model], Path]) -> None:
    told = signature_of_file(saved(MODELS[name]()))
    assert told is not None
    assert told.flops_per_row == FLOPS[name]


@pytest.mark.parametrize("name", ACTIVATION_BYTES)
def test_activations_count_the_outputs_of_all_layers(name: str, saved: Callable[[keras.Model], Path]) -> None:
    told = signature_of_file(saved(MODELS[name]()))
    assert told is not None
    assert told.activation_bytes_per_row == ACTIVATION_BYTES[name]


def test_a_model_called_twice_counts_its_weights_once(saved: Callable[[keras.Model], Path]) -> None:
    told = signature_of_file(saved(nested()))
    assert told is not None
    assert told.flops_per_row == 2 * 2 * (36 * 27 * 4) + 2 * 4 * 2
    assert told.parameters == nested().count_params()


def test_layers_that_models_share_give_no_size_rather_than_a_wrong_one(saved: Callable[[keras.Model], Path]) -> None:
    told = signature_of_file(saved(shared_between_models()))
    assert told is not None
    assert told.parameters is told.weight_bytes is None


@keras.saving.register_keras_serializable("tests")
class Dense(layers.Dense):
    """A layer of the user's own under a name that Keras has as well."""


@pytest.mark.parametrize(
    "layer", [Dense(3), layers.SpectralNormalization(layers.Dense(3))], ids=["own class", "class without a rule"]
)
def test_an_unknown_layer_leaves_sizes_open(layer: keras.layers.Layer, saved: Callable[[keras.Model], Path]) -> None:
    inputs = layers.Input((4,))
    told = signature_of_file(saved(keras.Model(inputs, layers.Dense(2)(layer(inputs)))))
    assert told is not None
    assert told.outputs[0].shape == (None, 2)
    assert told.parameters is told.trainable_parameters is told.weight_bytes is None
    assert told.flops_per_row is None
    assert told.activation_bytes_per_row == 4 * (4 + 3 + 2)  # every shape stands in the file


def test_what_forbids_a_split_is_told(saved: Callable[[keras.Model], Path]) -> None:
    inputs = layers.Input((5, 4), batch_size=8, name="steps")
    x = layers.LSTM(3, stateful=True, name="memory")(inputs)
    x = layers.Dense(3, activity_regularizer="l2", name="paid")(layers.BatchNormalization(name="norm")(x))
    told = signature_of_file(saved(keras.Model(inputs, layers.ActivityRegularization(name="paid_too")(x))))
    assert told is not None
    assert told.fixed_batch == 8
    assert told.stateful_layers == ("memory",)
    assert told.coupled_layers == ("norm",)
    assert told.row_losses == ("paid", "paid_too")


def test_an_output_of_a_function_has_an_open_shape(saved: Callable[[keras.Model], Path]) -> None:
    inputs = layers.Input((4,))
    told = signature_of_file(
        saved(keras.Model(inputs, {"mean": keras.ops.mean(inputs), "rows": layers.Dense(1)(inputs)}))
    )
    assert told is not None
    assert told.outputs[0].shape is None  # no layer takes it, so the file does not hold its shape
    assert told.outputs[1].shape == (None, 1)


class Own(keras.Model):
    """A model whose layers only its code knows."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.dense = layers.Dense(2)
        self.dense.build(shape)

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return self.dense(x)


def test_a_subclassed_model_tells_nothing(saved: Callable[[keras.Model], Path]) -> None:
    model = Own()
    model.build((None, 4))
    assert signature_of_file(saved(model)) is None


def _rewrite(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[1, 2]", id="a list"),
        pytest.param(b"{}", id="no class"),
        pytest.param(b'{"class_name": "Functional", "module": "keras", "config": {}}', id="no layers"),
        pytest.param(
            b'{"class_name": "Sequential", "module": "keras", "config": {"layers": [3]}}', id="a number as layer"
        ),
        pytest.param(b"[" * 100_000, id="nested too deep"),
    ],
)
def test_a_damaged_config_tells_nothing(content: bytes, tmp_path: Path) -> None:
    assert signature_of_file(_rewrite(tmp_path / "model.keras", config_json=content)) is None


def test_a_damaged_archive_tells_nothing(saved: Callable[[keras.Model], Path]) -> None:
    path = saved(MODELS["dense"]())
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:cut])
        assert signature_of_file(path) is None
    path.write_bytes(whole[:300] + b"\xff" * 200 + whole[500:])
    assert signature_of_file(path) is None


def test_a_missing_file_and_other_kinds_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "folder").mkdir()
    for name in ("absent.keras", "model.h5", "folder"):
        assert signature_of_file(tmp_path / name) is None


def test_a_saved_model_folder_cannot_be_trained(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    told = signature_of_file(tmp_path)
    assert told is not None
    assert not told.trainable
    assert told.parameters is None


def test_the_catalog_of_a_spec_and_of_a_composition(saved: Callable[[keras.Model], Path]) -> None:
    path = saved(MODELS["dense"]())
    source = SourceText(f'model a = "{path.name}"\nmodel b = zoo:net()\nparallel(a, b)')
    spec = parse(source)
    for named in (spec, resolve(spec, source)):
        catalog = catalog_of(named, path.parent)
        assert list(catalog) == ["a", "b"]
        assert catalog["a"] == signature_of_file(path)
        assert catalog["b"] is None
