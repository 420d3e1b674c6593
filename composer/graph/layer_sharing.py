"""Models that hold layers in common, in a file: each model is written whole, and which of their layers are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras

from composer.errors import ComposerError
from composer.graph.private import compile_settings, flatten_layers, graph_calls


def config_of(models: Sequence[keras.Model]) -> dict[str, Any]:
    """The models and what they share.

    Returns:
        `models`: each as Keras serializes it, and `shared_layers`: for each layer that several models hold, the
        `[index of the model, name of the layer]` of each.

    Raises:
        ComposerError: if a layer is shared where it cannot be told apart from outside.
    """
    shared = [[list(place) for place in places] for places in _shared_layers(models)]
    configs = [keras.saving.serialize_keras_object(model) for model in models]
    return {
        "models": [_with_own_ids(config, i, len(models)) for i, config in enumerate(configs)],
        "shared_layers": shared,
    }


def models_from_config(
    config: Mapping[str, Any], scope: Callable[[int], AbstractContextManager[Any]]
) -> list[keras.Model]:
    """The models of a file, with the layers they share.

    Args:
        config: what `config_of` gave.
        scope: by index of a model, the device to make it on.
    """
    models: list[keras.Model] = []
    for index, model in enumerate(config["models"]):
        with scope(index):
            models.append(keras.saving.deserialize_keras_object(model))
    replaced: dict[int, dict[str, keras.layers.Layer]] = {}
    for (first, layer), *others in config["shared_layers"]:
        for index, name in others:
            replaced.setdefault(index, {})[name] = models[first].get_layer(layer)
    for index, layers in replaced.items():
        with scope(index):
            models[index] = _with_layers(models[index], layers)
    return models


def fresh_optimizer(model: keras.Model) -> keras.optimizers.Optimizer:
    """An optimizer as the model's, without state."""
    config = keras.saving.serialize_keras_object(model.optimizer)
    return keras.saving.deserialize_keras_object(config)


def _shared_layers(models: Sequence[keras.Model]) -> list[list[tuple[int, str]]]:
    """Where each layer with variables that several models hold stands in them; the outermost only."""
    places: dict[int, list[tuple[int, str]]] = {}
    inside: dict[int, list[int]] = {}
    layers = {}
    for index, model in enumerate(models):
        direct = {id(layer): layer for layer in model.layers}
        for layer in flatten_layers(model):
            inside.setdefault(id(layer), []).append(index)
            layers[id(layer)] = layer
        for key, layer in direct.items():
            places.setdefault(key, []).append((index, layer.name))
    shared = {key: found for key, found in inside.items() if len(found) > 1 and layers[key].variables}
    told = {key: places[key] for key in shared if len(places.get(key, ())) == len(shared[key])}
    below = {id(layer) for key in told for layer in flatten_layers(layers[key])}
    for key, found in shared.items():
        opaque = next((models[index] for index in found if not graph_calls(models[index])), None)
        if (key not in told and key not in below) or opaque is not None:
            what = type(opaque).__name__ if opaque is not None else "a model inside one of theirs"
            raise ComposerError(
                f"the layer `{layers[key].name}` belongs to several members, and {what} would make it anew when it is "
                "loaded: it would no longer be one. Save the members' models one by one, or build them from functional "
                "calls of that layer"
            )
    return [told[key] for key in told if key not in below]


def _with_layers(model: keras.Model, layers: Mapping[str, keras.layers.Layer]) -> keras.Model:
    """A model of the same graph with some of its layers replaced, compiled alike, its optimizer without state."""
    again = keras.models.clone_model(model, clone_function=lambda layer: layers.get(layer.name, layer))
    again.name = model.name
    if model.compiled:
        again.compile(**{**compile_settings(model), "optimizer": fresh_optimizer(model)}, auto_scale_loss=False)
        again.optimizer.build(again.trainable_variables)
    return again


def _with_own_ids(config: Any, index: int, count: int) -> Any:
    """A model's configuration with ids of its own for what occurs in it several times: Keras would take objects of
    other models with the same id for one, and does not find its way in a functional graph of such."""
    if isinstance(config, dict):
        changed = {key: _with_own_ids(value, index, count) for key, value in config.items()}
        if isinstance(config.get("shared_object_id"), int):
            changed["shared_object_id"] = config["shared_object_id"] * count + index
        return changed
    return [_with_own_ids(item, index, count) for item in config] if isinstance(config, list) else config
