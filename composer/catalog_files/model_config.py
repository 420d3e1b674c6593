"""The config of a Keras model -> its signature: walks the layers, adds up what the rules tell."""

from __future__ import annotations

from typing import Any

from composer.catalog import ModelSignature, TensorSignature
from composer.catalog_files.sizes import total
from composer.catalog_files.tally import Tally
from composer.catalog_files.walk import End, is_model, walk_model


def signature_of_config(config: dict[str, Any]) -> ModelSignature | None:
    """The signature that a model's config tells, as a `.keras` file holds it.

    None for a class of the user's own, a model never built, or a config that is not laid out as Keras writes it.
    """
    try:
        return _signature(config) if is_model(config) else None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _signature(config: dict[str, Any]) -> ModelSignature | None:
    tally = Tally()
    ends = walk_model(config, None, True, tally)
    if ends is None:
        return None
    return ModelSignature(
        inputs=_tensors(ends.inputs),
        outputs=_tensors(ends.outputs),
        parameters=total((tally.trainable, tally.fixed)),
        trainable_parameters=tally.trainable,
        weight_bytes=tally.weight_bytes,
        flops_per_row=tally.flops,
        activation_bytes_per_row=tally.activation_bytes,
        fixed_batch=next((end.shape[0] for end in ends.inputs if end.shape and end.shape[0] is not None), None),
        stateful_layers=tuple(dict.fromkeys(tally.stateful)),
        coupled_layers=tuple(dict.fromkeys(tally.coupled)),
        row_losses=tuple(dict.fromkeys(tally.row_losses)),
        rank0_outputs=tuple(end.name for end in ends.outputs if end.shape == ()),
    )


def _tensors(ends: tuple[End, ...]) -> tuple[TensorSignature, ...]:
    return tuple(TensorSignature(end.name, end.shape, end.dtype) for end in ends)
