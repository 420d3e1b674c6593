"""Members that share trainable weights: their gradients add, and one optimizer takes the step.

The objective of such a group is the sum of its members' losses. Each member computes the gradient of its own loss on
its own batch, all at the same weights; then the optimizer is applied once, to the weights that the members with a batch
reach. Weights of a member without a batch are not touched, nor are their slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from composer.engine.units import Unit
from composer.errors import GraphError

Gradients = Mapping[str, Any]  # by position of the weight among the member's trainable weights, as a string

MAX_PARTS = 4
"""Members that reach the same weights are one part of a group. The optimizer is traced once for each combination of
parts that a step may find active, so a group with more parts is refused."""


def sharing_groups(units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
    """The groups of units that share trainable weights, directly or through others. Units that share none are in no
    group."""
    holders: dict[int, list[Unit]] = {}  # by weight, the group so far
    for unit in units:
        touched = {id(group): group for group in map(holders.get, _weight_ids(unit)) if group is not None}
        group = [*(other for others in touched.values() for other in others), unit]
        holders.update(dict.fromkeys((weight for other in group for weight in _weight_ids(other)), group))
    position = {unit.name: index for index, unit in enumerate(units)}
    groups = {id(group): group for group in holders.values() if len(group) > 1}.values()
    ordered = [tuple(sorted(group, key=lambda unit: position[unit.name])) for group in groups]
    return sorted(ordered, key=lambda group: position[group[0].name])


def _weight_ids(unit: Unit) -> list[int]:
    return [id(weight) for weight in unit.model.trainable_variables]


def group_weights(group: Sequence[Unit]) -> list[Any]:
    """The trainable weights of a group, each once, in the order of its members."""
    return list({id(weight): weight for unit in group for weight in unit.model.trainable_variables}.values())


def step_group(group: Sequence[Unit], active: Mapping[str, Any], gradients: Mapping[str, Gradients]) -> None:
    """One optimizer step of a group.

    Args:
        group: its units, all compiled with one optimizer object.
        active: by member, whether it has a batch.
        gradients: by member, of the weights that its loss reaches; zeros where the member is not active.
    """
    reached = {unit.name: frozenset(_by_weight(unit, gradients)) for unit in group}
    parts = list(dict.fromkeys(reached.values()))
    if len(parts) > MAX_PARTS:
        members = ", ".join(f"`{unit.name}`" for unit in group)
        raise GraphError(
            f"{members} share weights in too many ways: there are {len(parts)} different sets of weights among them, "
            f"and at most {MAX_PARTS} are supported. Train fewer of them at once"
        )
    updates = []
    for mask in range(2 ** len(parts)):
        chosen = [part for bit, part in enumerate(parts) if mask >> bit & 1]
        updates.append(_update(group, frozenset().union(*chosen), gradients))
    flags = [tf.reduce_any([active[name] for name in reached if reached[name] == part]) for part in parts]
    with tf.device(group[0].home):
        tf.switch_case(tf.add_n([tf.cast(flag, tf.int32) * 2**bit for bit, flag in enumerate(flags)]), updates)


def _update(group: Sequence[Unit], reached: frozenset[int], gradients: Mapping[str, Gradients]) -> Callable[[], Any]:
    """The step of the weights with these ids, each by the sum of what the members add to its gradient."""

    def step() -> tf.Operation:
        weights = [weight for weight in group_weights(group) if id(weight) in reached]
        parts = [_by_weight(unit, gradients) for unit in group]
        # As tensors of this branch: an optimizer cannot take those of the graph around it.
        sums = [tf.identity(tf.add_n([part[id(w)] for part in parts if id(w) in part])) for w in weights]
        if weights:
            group[0].model.optimizer.apply(sums, weights)
        return tf.no_op()

    return step


def _by_weight(unit: Unit, gradients: Mapping[str, Gradients]) -> dict[int, Any]:
    """A member's gradients by the ids of the weights."""
    weights = unit.model.trainable_variables
    return {id(weights[int(position)]): gradient for position, gradient in gradients[unit.name].items()}
