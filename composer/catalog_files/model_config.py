"""The config of a Keras model -> its signature: walks the layers, adds up what the rules tell."""

from __future__ import annotations

from typing import Any

from composer.catalog import ModelSignature, TensorSignature
from composer.catalog_files.sizes import total
from composer.catalog_files.tally import Tally
from composer.catalog_files.walk import Ends, is_model, walk_model


def signature_of_config(config: dict[str, Any]) -> ModelSignature | None:
    """The signature that a model's saved config tells; None for a class of the user's own, or a model never built."""
    if not is_model(config):
        return None
    tally = Tally()
    ends = walk_model(config, None, True, tally)
    if ends is None:
        return None
    return ModelSignature(
        inputs=_tensors(ends, "input"),
        outputs=_tensors(ends, "output"),
        parameters=total((tally.trainable, tally.fixed)),
        trainable_parameters=tally.trainable,
        weight_bytes=tally.weight_bytes,
        flops_per_row=tally.flops,
        activation_bytes_per_row=tally.activation_bytes,
        fixed_batch=next((end.shape[0] for end in ends.inputs if end.shape and end.shape[0] is not None), None),
        stateful_layers=tuple(dict.fromkeys(tally.stateful)),
        coupled_layers=tuple(dict.fromkeys(tally.coupled)),
        row_losses=tuple(dict.fromkeys(tally.row_losses)),
        rank0_outputs=tuple(tensor.name for tensor in _tensors(ends, "output") if tensor.shape == ()),
    )


def _tensors(ends: Ends, kind: str) -> tuple[TensorSignature, ...]:
    """The ends under the model's own names, where these are distinct."""
    found = ends.inputs if kind == "input" else ends.outputs
    names = [end.name for end in found]
    if len(set(names)) != len(names):
        names = [kind if index == 0 else f"{kind}_{index}" for index in range(len(found))]
    return tuple(TensorSignature(name, end.shape, end.dtype) for name, end in zip(names, found, strict=True))
