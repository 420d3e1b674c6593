"""Small models, each around one layer, and the rows they take."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tests.conformance.found import required
from tests.conformance.trials import Rows

ARGUMENTS: dict[str, Any] = {
    "activation": "tanh", "axes": -1, "dims": (2, 1), "equation": "ab,bc->ac", "factor": 0.3, "filters": 2,
    "head_dim": 2, "height": 5, "height_factor": 0.2, "kernel_size": 2, "key_dim": 2, "max_number": 3, "n": 3,
    "num_heads": 2, "num_key_value_heads": 1, "num_query_heads": 2, "output_shape": 4, "output_size": 2, "pool_size": 2,
    "rate": 0.3, "scale": 0.5, "stddev": 0.3, "target_shape": (2, 2), "units": 3, "width": 5, "width_factor": 0.2,
}  # fmt: skip
"""What an argument without a default is given, by its name."""

EXTRA: dict[str, dict[str, Any]] = {
    "ActivityRegularization": {"l2": 0.01},
    "AdditiveAttention": {"dropout": 0.2},
    "Attention": {"use_scale": True, "dropout": 0.2},
    "CategoryEncoding": {"num_tokens": 6, "output_mode": "count"},
    "Discretization": {"bin_boundaries": [-1.0, 0.0, 1.0]},
    "Embedding": {"input_dim": 6, "output_dim": 3, "mask_zero": True},
    "GRU": {"dropout": 0.2, "recurrent_dropout": 0.2},
    "GroupNormalization": {"groups": 2},
    "Hashing": {"num_bins": 6},
    "IntegerLookup": {"vocabulary": [1, 2, 4]},
    "LSTM": {"dropout": 0.2},
    "MelSpectrogram": {
        "num_mel_bins": 4, "sampling_rate": 64, "sequence_stride": 8, "fft_length": 16, "min_freq": 2, "max_freq": 30,
    },
    "MultiHeadAttention": {"dropout": 0.2},
    "Normalization": {"mean": 0.5, "variance": 2.0},
    "RandomPosterization": {"factor": 4},
    "STFTSpectrogram": {"frame_length": 8, "frame_step": 4, "fft_length": 8},
    "StringLookup": {"vocabulary": ["red", "green"]},
    "TextVectorization": {"vocabulary": ["red", "green"], "output_sequence_length": 3},
}  # fmt: skip
"""Arguments that make a layer do more than by default (draw numbers, above all), or that stand for its `adapt`."""

SIZES = {"1D": (6,), "2D": (6, 6), "3D": (4, 4, 4)}
CHANNELS = 2


@dataclass(frozen=True)
class Recipe:
    """A model around a layer, a dense head behind it.

    Args:
        inputs: the shapes of its inputs.
        build: from the inputs to what the head sees.
        numbers: makes an array of a shape.
        dtype: of the inputs.
        rate: a learning rate at which it trains steadily.
    """

    inputs: tuple[tuple[int, ...], ...]
    build: Callable[..., Any]
    numbers: Callable[[np.random.Generator, tuple[int, ...]], Any]
    dtype: str = "float32"
    rate: float = 0.05

    def model(self) -> keras.Model:
        inputs = [keras.Input(shape, dtype=self.dtype) for shape in self.inputs]
        x = self.build(*inputs)
        if len(x.shape) > 2:
            x = layers.Flatten()(x)
        return keras.Model(inputs if len(inputs) > 1 else inputs[0], layers.Dense(2)(x))

    def rows(self, n: int) -> Rows:
        rng = np.random.default_rng(n)
        x = [self.numbers(rng, (n, *shape)) for shape in self.inputs]
        return x if len(x) > 1 else x[0], rng.normal(size=(n, 2)).astype("float32")


def make(cls: type) -> Any:
    """A layer with the arguments it has to be given and those it has in `EXTRA`."""
    extra = EXTRA.get(cls.__name__, {})
    return cls(**{**required(cls, {**ARGUMENTS, **extra}), **extra})


# Numbers -----------------------------------------------------------------------------------------------------------


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def bright(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Images from 0 to 255."""
    return np.round(rng.uniform(0, 255, size=shape)).astype("float32")


def indices(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 6, size=shape).astype("int32")


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> tf.Tensor:
    return tf.constant(rng.choice(["red", "green", "blue green", "red red blue"], size=shape).tolist())


def padded(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Sequences of unlike lengths, filled up with zeros."""
    lengths = rng.integers(1, shape[1] + 1, size=shape[0])
    return normal(rng, shape) * (np.arange(shape[1]) < lengths[:, None])[..., None].astype("float32")


# By kind -----------------------------------------------------------------------------------------------------------


def on_features(cls: type) -> Recipe:
    return Recipe(((3,),), lambda x: make(cls)(layers.Dense(4)(x)), normal)


def on_grids(cls: type) -> Recipe:
    """A layer whose name tells its rank, behind a layer with weights."""
    size = next(size for rank, size in SIZES.items() if rank in cls.__name__)
    return Recipe(((*size, CHANNELS),), lambda x: make(cls)(layers.Dense(CHANNELS)(x)), normal)


def on_films(cls: type) -> Recipe:
    """A recurrent layer of convolutions: images, one after another."""
    return Recipe(((3, *SIZES[cls.__name__[-2:]], CHANNELS),), lambda x: make(cls)(x), normal)


def on_sequences(cls: type) -> Recipe:
    return Recipe(((5, 3),), lambda x: make(cls)(x), normal)


def on_pairs(cls: type) -> Recipe:
    return Recipe(((3,), (3,)), lambda *pair: make(cls)([layers.Dense(4, activation="tanh")(x) for x in pair]), normal)


def on_queries(cls: type) -> Recipe:
    """Attention, over layers with weights: of one list, or of a query and a value."""

    def build(query: Any, value: Any) -> Any:
        pair = [layers.Dense(4)(query), layers.Dense(4)(value)]
        return make(cls)(pair) if cls in (layers.Attention, layers.AdditiveAttention) else make(cls)(*pair)

    return Recipe(((4, 3), (5, 3)), build, normal)


def on_images(cls: type) -> Recipe:
    return Recipe(((8, 8, 3),), lambda x: layers.Rescaling(1 / 255)(make(cls)(x)), bright, rate=1e-3)


def to_indices(cls: type, numbers: Any, dtype: str = "float32", shape: tuple[int, ...] = (4,)) -> Recipe:
    """A layer that gives indices, before an embedding."""
    return Recipe((shape,), lambda x: layers.Embedding(6, 3)(make(cls)(x)), numbers, dtype)


def as_cell(cell: Callable[[], Any]) -> Recipe:
    return Recipe(((5, 3),), lambda x: layers.RNN(cell())(x), normal)


# Their own ---------------------------------------------------------------------------------------------------------


def _tied(x: Any) -> Any:
    """Words in, and by the same weights scores of words out."""
    embedding = layers.ReversibleEmbedding(6, 3)
    return embedding(layers.Dense(3)(embedding(x)), reverse=True)


def _saved(x: Any) -> Any:
    """A SavedModel as a layer; its weights are trained."""
    with tempfile.TemporaryDirectory() as folder:
        inner = keras.Sequential([layers.Input((3,)), layers.Dense(4, activation="tanh")])
        inner.export(Path(folder) / "inner", verbose=False)
        return layers.TFSMLayer(str(Path(folder) / "inner"), call_endpoint="serve")(x)


def _augmented(x: Any) -> Any:
    return layers.Rescaling(1 / 255)(layers.Pipeline([layers.RandomFlip(), layers.RandomBrightness(0.2)])(x))


RECIPES: dict[str, Recipe] = {
    "Bidirectional": Recipe(((5, 3),), lambda x: layers.Bidirectional(layers.GRU(2))(x), normal),
    "CategoryEncoding": Recipe(((4,),), lambda x: make(layers.CategoryEncoding)(x), indices, "int32"),
    "Discretization": to_indices(layers.Discretization, normal),
    "Embedding": Recipe(((4,),), lambda x: layers.LSTM(2)(make(layers.Embedding)(x)), indices, "int32"),
    "Flatten": Recipe(((2, 3),), lambda x: layers.Flatten()(layers.Dense(2)(x)), normal),
    "GRUCell": as_cell(lambda: layers.GRUCell(2, dropout=0.2)),
    "HashedCrossing": Recipe(
        ((1,), (1,)), lambda *pair: layers.Embedding(7, 3)(layers.HashedCrossing(7)(pair)), indices, "int32"
    ),
    "Hashing": to_indices(layers.Hashing, words, "string"),
    "IntegerLookup": to_indices(layers.IntegerLookup, indices, "int32"),
    "LSTMCell": as_cell(lambda: layers.LSTMCell(2, dropout=0.2)),
    "Lambda": Recipe(((3,),), lambda x: layers.Lambda(lambda y: y * y)(layers.Dense(4)(x)), normal),
    "Masking": Recipe(((5, 3),), lambda x: layers.LSTM(2)(layers.Masking()(x)), padded),
    "MelSpectrogram": Recipe(((64,),), lambda x: make(layers.MelSpectrogram)(x), normal),
    "Permute": on_sequences(layers.Permute),
    "Pipeline": Recipe(((8, 8, 3),), _augmented, bright),
    "RNN": as_cell(lambda: layers.SimpleRNNCell(3)),
    "ReversibleEmbedding": Recipe(((4,),), _tied, indices, "int32"),
    "STFTSpectrogram": Recipe(((32, 1),), lambda x: make(layers.STFTSpectrogram)(x), normal),
    "SimpleRNNCell": as_cell(lambda: layers.SimpleRNNCell(2, dropout=0.2, recurrent_dropout=0.2)),
    "SpectralNormalization": Recipe(((3,),), lambda x: layers.SpectralNormalization(layers.Dense(4))(x), normal),
    "StackedRNNCells": as_cell(lambda: layers.StackedRNNCells([layers.GRUCell(3), layers.LSTMCell(2)])),
    "StringLookup": to_indices(layers.StringLookup, words, "string"),
    "TFSMLayer": Recipe(((3,),), _saved, normal),
    "TextVectorization": to_indices(layers.TextVectorization, words, "string", (1,)),
    "TimeDistributed": Recipe(((5, 3),), lambda x: layers.TimeDistributed(layers.Dense(2))(x), normal),
}
"""Models of the layers that need another layer, rows or arguments of their own."""
