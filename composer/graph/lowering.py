"""`lower`: a plan and its models become the inputs and outputs of one functional graph. Construction only, no
decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from composer.compiler.plan import MemberPlan, Plan
from composer.errors import GraphError
from composer.graph import devices
from composer.graph.layers import (
    BatchGroup,
    BatchMerge,
    BatchSplit,
    BatchUngroup,
    BranchOutput,
    PlacedReplicas,
    call_model,
)
from composer.graph.signatures import input_structure


class JointGraph(NamedTuple):
    """Inputs and outputs by member, each in the member's own structure, and the layer that runs each member placed."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    replicas: dict[str, PlacedReplicas]


def lower(plan: Plan, models: Mapping[str, keras.Model]) -> JointGraph:
    """Build the joint graph of a plan.

    Every branch is `group? -> split? -> placed replicas -> merge? -> ungroup? -> output`, batch-major throughout. A
    grouped member's input is `(batch, group, ...)`, and so is its output.

    Args:
        plan: what runs where.
        models: the model of each member, by member name. They are neither changed nor renamed.

    Raises:
        GraphError: if a model cannot stand in a graph, naming the member.
    """
    graph = JointGraph({}, {}, {})
    for placed in plan.members:
        name = placed.member.name
        inputs, outputs, replicas = _branch(placed, models[name], plan)
        graph.inputs[name], graph.outputs[name], graph.replicas[name] = inputs, outputs, replicas
    return graph


def _branch(placed: MemberPlan, model: keras.Model, plan: Plan) -> tuple[Any, Any, PlacedReplicas]:
    name, group = placed.member.name, placed.member.group
    inputs = _inputs(name, model, group)
    if group is not None or len(placed.devices) > 1:
        _check_rows_stay_rows(name, model)
    names = [devices.tensorflow_name(device, plan.topology) for device in placed.devices]
    replicas = PlacedReplicas(model, names, name=f"{name}.replicas")
    rows = inputs if group is None else BatchGroup(name=f"{name}.group")(inputs)
    if len(names) == 1:
        rows = replicas(rows)
    else:
        merge = devices.tensorflow_name(placed.merge, plan.topology)
        rows = BatchMerge(merge, name=f"{name}.merge")(replicas(BatchSplit(len(names), name=f"{name}.split")(rows)))
    if group is not None:
        rows = BatchUngroup(name=f"{name}.ungroup")(rows, inputs)
    return inputs, BranchOutput(name=f"{name}.output")(rows), replicas


def _check_rows_stay_rows(name: str, model: keras.Model) -> None:
    """Trace a model on two numbers of rows: one with a batch size baked into it cannot be cut. Nothing is run.

    Raises:
        GraphError: if it does not give as many rows as it takes.
    """
    program = tf.function(lambda inputs: call_model(model, inputs, training=False), autograph=False)
    for rows in (2, 3):
        try:
            traced = program.get_concrete_function(keras.tree.map_structure(_with_rows(rows), input_structure(model)))
        except Exception as error:  # whatever the model's own layers raise
            raise GraphError(
                f"`{name}` cannot be cut into slices: its model fails on a batch of {rows} rows ({error}). Is a batch "
                f"size baked "
                "into one of its layers? Give it an open batch axis, or run it as one replica without `group=`"
            ) from error
        for output in keras.tree.flatten(traced.structured_outputs):
            if output.shape.rank and output.shape[0] not in (None, rows):
                raise GraphError(
                    f"`{name}` cannot be cut into slices: for {rows} rows its model gives an output of shape "
                    f"{output.shape}, so "
                    "there is no telling which row of it belongs to which. Run it as one replica without `group=`"
                )


def _with_rows(rows: int) -> Callable[[Any], tf.TensorSpec]:
    return lambda leaf: tf.TensorSpec((rows, *leaf.shape[1:]), leaf.dtype)


def _inputs(name: str, model: keras.Model, group: Any) -> Any:
    """Fresh inputs in the structure of the model's own; the group axis, where there is one, comes second."""
    structure = input_structure(model)
    if structure is None:
        raise GraphError(
            f"the input shapes of `{name}` are not known: its model has never been built. Call it once on a batch, "
            "or start it with `keras.Input`"
        )
    axes = () if group is None else (None if group == "auto" else group,)
    leaves = keras.tree.flatten(structure)

    def fresh(index: int, leaf: Any) -> Any:
        own_name = name if len(leaves) == 1 and structure is leaf else f"{name}.{index}"
        batch = leaf.shape[0] if group is None else None
        return keras.Input(
            shape=(*axes, *leaf.shape[1:]),
            batch_size=batch,
            dtype=leaf.dtype,
            sparse=getattr(leaf, "sparse", False),
            name=own_name,
        )

    return keras.tree.pack_sequence_as(structure, [fresh(i, leaf) for i, leaf in enumerate(leaves)])
