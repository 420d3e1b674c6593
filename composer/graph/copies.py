"""Copies of a model for `copies=N`: the same architecture, each initialised from its own seed."""

from __future__ import annotations

import zlib
from typing import Any

import keras

from composer.errors import GraphError


def copy_model(name: str, model: keras.Model, seed: int) -> keras.Model:
    """A new model of the same architecture, with weights drawn from its own seed.

    Every seed in the model's config (initializers, dropout, augmentation) is replaced by one derived from `seed` and
    the place it stands at, so that two copies never share a draw and one seed always gives the same weights, whatever
    else the process has drawn. No global random state is read or set. Compile settings come along; the optimizer starts
    fresh.

    Args:
        name: the member the copy is for, named in errors.
        model: the template; it is not changed.
        seed: the member's seed.

    Raises:
        GraphError: if the model cannot be made again from its config.
    """
    try:
        config = keras.saving.serialize_keras_object(model)
        copy = keras.saving.deserialize_keras_object(_reseed(config, seed, ()))
    except Exception as error:  # Keras raises whatever the user's own class raises
        raise GraphError(
            f"`{name}` cannot be made as a copy of its model ({type(model).__name__}): {error}. A model is copied "
            f"from its "
            "config: give a subclassed one `get_config` and `@keras.saving.register_keras_serializable()`"
        ) from error
    if not isinstance(copy, keras.Model) or (model.built and not copy.built):
        raise GraphError(f"`{name}` cannot be made as a copy of its model: what its config gives is not a built model")
    return copy


def derive_seed(seed: int, path: tuple[Any, ...]) -> int:
    """A seed for one place in a model: stable across processes, different at every place."""
    return zlib.crc32("/".join(map(str, (seed, *path))).encode()) & 0x7FFFFFFF


def _reseed(config: Any, seed: int, path: tuple[Any, ...]) -> Any:
    if isinstance(config, dict):
        return {
            key: derive_seed(seed, (*path, key, value))
            if key == "seed" and (value is None or isinstance(value, int))
            else _reseed(value, seed, (*path, key))
            for key, value in config.items()
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_reseed(item, seed, (*path, index)) for index, item in enumerate(config))
    return config
