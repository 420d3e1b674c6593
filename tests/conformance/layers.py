"""Every layer of Keras in a small model that uses it as it is meant.

A layer's kind is told by where Keras keeps it (`layers.merging`, `layers.rnn`, ...), its rank by its name (`Conv2D`),
its arguments by what they are called; so a layer that is new gets its model without a line here, unless it is of a new
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras

from tests.conformance import recipes
from tests.conformance.found import classes
from tests.conformance.recipes import Recipe
from tests.conformance.trials import Entry, Trial

REASONS = {
    "Layer": "the base class",
    "Wrapper": "the base class of layers around a layer",
    "InputLayer": "part of every functional model",
    "InputSpec": "no layer: what a layer says of its inputs",
    "FlaxLayer": "holds a JAX program",
    "JaxLayer": "holds a JAX program",
    "TorchModuleWrapper": "holds a PyTorch module, which TensorFlow does not run",
}
"""Why a layer has no entry."""

DAILY = {
    "ActivityRegularization", "Attention", "BatchNormalization", "Bidirectional", "Conv2D", "ConvLSTM2D", "CutMix",
    "Dense", "Dot", "Dropout", "Embedding", "GRU", "GroupNormalization", "HashedCrossing", "Lambda", "Masking",
    "MaxPooling2D", "MultiHeadAttention", "Normalization", "PReLU", "Pipeline", "RandomRotation", "ReversibleEmbedding",
    "SpectralNormalization", "StackedRNNCells", "StringLookup", "TFSMLayer",
}  # fmt: skip
"""The layers of the ordinary run: of each kind at least one, and of those that keep a state, draw numbers or mask most.
The rest differ from them in a formula."""

KINDS: dict[str, Callable[[type], Recipe]] = {
    "merging": recipes.on_pairs,
    "rnn": recipes.on_sequences,
    "attention": recipes.on_queries,
    "preprocessing.image_preprocessing": recipes.on_images,
}


def recipe_of(cls: type) -> Recipe:
    """The model of a layer: its own, else by its kind, else by its rank, else on features."""
    if cls.__name__ in recipes.RECIPES:
        return recipes.RECIPES[cls.__name__]
    if cls.__name__.startswith("ConvLSTM"):
        return recipes.on_films(cls)
    for kind, make_recipe in KINDS.items():
        if f".layers.{kind}" in cls.__module__:
            return make_recipe(cls)
    return recipes.on_grids(cls) if any(rank in cls.__name__ for rank in recipes.SIZES) else recipes.on_features(cls)


def entries() -> Iterator[Entry]:
    for name, cls in classes(keras.layers, keras.layers.Layer).items():
        if name not in REASONS:
            recipe = recipe_of(cls)
            trial = Trial(f"layer {name}", recipe.model, recipe.rows, partial(_settings, recipe.rate))
            yield Entry("layer", name, trial, daily=name in DAILY)


def _settings(rate: float) -> dict[str, Any]:
    return {"optimizer": keras.optimizers.SGD(rate), "loss": "mse"}
