"""The endpoints of an export: a member's model as a function from named tensors to named tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from composer.export.faults import export_error
from composer.export.names import argument_names, output_names
from composer.export.protocols import ExportableMember
from composer.graph.layers import call_model
from composer.graph.signatures import input_structure, leaf_layers, output_structure, own_names
from composer.graph.slicing import join_rows, split_rows


@dataclass(frozen=True)
class InputTensor:
    """One input: its name in the signature, its name in the model, what it takes."""

    name: str
    own_name: str
    spec: tf.TensorSpec


@dataclass(frozen=True)
class Endpoint:
    """A member as its signature runs it.

    Args:
        member: the member's name.
        inputs: in the model's own order.
        structure: the model's own input structure, with anything for leaves.
        run: takes that structure filled with tensors and gives the model's own output structure.
        own_outputs: the model's own names for its outputs, in their flattened order.
    """

    member: str
    inputs: tuple[InputTensor, ...]
    structure: Any
    run: Callable[[Any], Any]
    own_outputs: tuple[str, ...]

    def __call__(self, values: Any) -> dict[str, tf.Tensor]:
        """Run the member.

        Args:
            values: the tensor of a single input, or a dict of tensors by name.

        Returns:
            The outputs by name.
        """
        flat = [values] if len(self.inputs) == 1 else [values[tensor.name] for tensor in self.inputs]
        outputs = self.run(keras.tree.pack_sequence_as(self.structure, flat))
        leaves = keras.tree.flatten(outputs)
        for own_name, leaf in zip(self.own_outputs, leaves, strict=True):
            if not isinstance(leaf, tf.Tensor):
                raise _unservable(
                    self.member, f"gives `{own_name}`, which is no dense tensor but a {type(leaf).__name__}"
                )
        return dict(zip(output_names(self.own_outputs), leaves, strict=True))

    @property
    def arguments(self) -> Any:
        """What the endpoint takes, as specs."""
        return self.pack({tensor.name: tensor.spec for tensor in self.inputs})

    def pack(self, values: dict[str, Any]) -> Any:
        """What `__call__` takes, from values by name."""
        return values[self.inputs[0].name] if len(self.inputs) == 1 else dict(values)


def endpoint(member: ExportableMember, *, placed: bool = False) -> Endpoint:
    """The endpoint of a member: rows in, rows out, whatever the member's group.

    Args:
        member: the member.
        placed: run it over its replicas on their devices, rather than as one call that is placed nowhere.

    Raises:
        ExportError: MG603, the model has never been built or takes what a signature cannot carry.
    """
    model = member.model
    structure, specs = _inputs(member.name, model)
    names = argument_names([spec.name for spec in specs])
    inputs = tuple(
        InputTensor(name, spec.name, tf.TensorSpec(spec.shape, spec.dtype, name=name))
        for name, spec in zip(names, specs, strict=True)
    )

    def forward(values: Any) -> Any:
        return _placed_forward(member, values) if placed else call_model(model, values, training=False)

    return Endpoint(member.name, inputs, structure, forward, tuple(own_names(output_structure(model), "output")))


def _placed_forward(member: ExportableMember, values: Any) -> Any:
    replicas = len(member.layer.devices)
    if replicas == 1:
        return member.layer(values, training=False)
    outputs = member.layer(split_rows(values, replicas), training=False)
    with tf.device(member.merge):
        return join_rows(outputs)


def _inputs(member: str, model: keras.Model) -> tuple[Any, list[tf.TensorSpec]]:
    """The input structure of a model, and a spec with the model's own name for each leaf."""
    structure = input_structure(model)
    if structure is None:
        raise _unservable(member, "has never been called on data, so its inputs are not known")
    leaves = keras.tree.flatten(structure)
    names = own_names(structure, "input")
    for name, leaf in zip(names, leaves, strict=True):
        if getattr(leaf, "sparse", False) or getattr(leaf, "ragged", False):
            raise _unservable(member, f"takes `{name}`, which is {'sparse' if leaf.sparse else 'ragged'}")
        if leaf.shape is None:
            raise _unservable(member, f"takes `{name}`, whose rank is not known")
    keep_batch = any(getattr(layer, "stateful", False) for layer in leaf_layers(model))
    return structure, [
        tf.TensorSpec(_batch_shape(leaf.shape, keep_batch), leaf.dtype, name=name)
        for name, leaf in zip(names, leaves, strict=True)
    ]


def _batch_shape(shape: Sequence[int | None], keep_batch: bool) -> tuple[int | None, ...]:
    """The shape with the batch axis open: a batch size that is merely written down does not bind `predict` either."""
    return tuple(shape) if keep_batch or not shape else (None, *shape[1:])


def _unservable(member: str, what: str) -> Exception:
    return export_error(
        "MG603",
        f"the member `{member}` {what}; a signature carries dense tensors of known rank",
        "make it dense inside the model, or call the model once on data before exporting",
    )
