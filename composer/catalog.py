"""What is known of the models a spec names, as data: no framework is needed to read or to judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorSignature:
    """One input or output of a model: its name, its shape with the batch axis (None where open), its dtype."""

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """What planning needs to know of a model. Sizes are None where they cannot be known without running the model.

    Args:
        inputs, outputs: in the model's own order, with the model's own names.
        parameters: number of weight elements, trainable or not.
        trainable_parameters: number of trainable weight elements (an optimizer keeps slots for these).
        weight_bytes: bytes of all weights.
        flops_per_row: multiply-adds counted as two, forward pass, one row.
        activation_bytes_per_row: bytes of all layer outputs for one row.
        trainable: False for a SavedModel folder, which can predict and be exported only.
        fixed_batch: the batch size baked into an input, if any: such a model cannot be split or grouped.
        stateful_layers: names of layers that carry state from batch to batch (stateful RNNs): cannot be split.
        coupled_layers: names of layers that mix rows in training (batch normalization): a split changes what they see.
        row_losses: names of layers that add a loss per call (activity regularizers, `add_loss`): cannot be split.
        rank0_outputs: names of outputs without a batch axis: cannot be split or grouped.
    """

    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]
    parameters: int | None = None
    trainable_parameters: int | None = None
    weight_bytes: int | None = None
    flops_per_row: int | None = None
    activation_bytes_per_row: int | None = None
    trainable: bool = True
    fixed_batch: int | None = None
    stateful_layers: tuple[str, ...] = ()
    coupled_layers: tuple[str, ...] = ()
    row_losses: tuple[str, ...] = ()
    rank0_outputs: tuple[str, ...] = ()


ModelCatalog = Mapping[str, "ModelSignature | None"]
"""Model name -> its signature; None where the name alone is known (a caller passes the model, or a file exists)."""
