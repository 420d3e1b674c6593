"""`ComposedModel.compile`: settings for all members or by member, applied to each member's own model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from composer.engine.units import overrides
from composer.errors import GraphError
from composer.graph.private import compiled_metrics, flatten_layers, random_states
from composer.runtime.members import ByMember, Member

SETTINGS = (
    "optimizer",
    "loss",
    "loss_weights",
    "metrics",
    "weighted_metrics",
    "jit_compile",
    "run_eagerly",
    "auto_scale_loss",
)

WITH_STATISTICS = (keras.layers.BatchNormalization, keras.layers.SpectralNormalization)
"""Layers with variables that training changes without a gradient."""


def compile_members(members: Mapping[str, Member], names: ByMember, settings: Mapping[str, Any]) -> None:
    """Compile the model of every member that a setting is given for.

    What a call leaves out for such a member stays as the member was compiled before, for its optimizer and loss;
    metrics and the rest take Keras' defaults. One optimizer or metric object given for several members is copied for
    each, since
    its state belongs to one model.

    Args:
        members: by name.
        names: the same members, to spread settings over.
        settings: `keras.Model.compile`'s arguments: one value for all members, or a dict by member.
    """
    spread = {
        key: names.spread(f"`{key}`", value, plain_dicts=key in ("loss", "loss_weights", "metrics", "weighted_metrics"))
        for key, value in settings.items()
        if value is not None
    }
    own = {key: _own_objects(values) for key, values in spread.items()}
    for name, member in members.items():
        given = {key: values[name] for key, values in own.items() if values[name] is not None}
        if given:
            model = member.model
            if getattr(model, "compiled", False):
                given.setdefault("optimizer", model.optimizer)
                given.setdefault("loss", model.loss)
            model.compile(**given)


def check_compiled(members: Mapping[str, Member]) -> None:
    """Refuse members that cannot be evaluated or trained as they are.

    Raises:
        GraphError: for a member that is not compiled, one whose class has its own step but is to be split, or an
            optimizer or metric object that several models hold.
    """
    holders: dict[int, Member] = {}
    for name, member in members.items():
        model = member.model
        if not getattr(model, "compiled", False):
            raise GraphError(
                f"`{name}` is not compiled. Call `compile` on its model, or `joint.compile(optimizer=..., loss=...)` "
                f"for all "
                f'or by member: `joint.compile(optimizer={{"{name}": "adam"}}, loss={{"{name}": "mse"}})`'
            )
        holder = holders.setdefault(id(model.optimizer), member)
        if model.optimizer is not None and holder.model is not model:
            raise GraphError(
                f"`{holder.name}` and `{name}` were compiled with one optimizer object, but its state belongs to one "
                f"model. "
                "Make one for each, or pass it to `joint.compile`, which copies it"
            )
        if len(member.layer.devices) > 1:
            check_can_split(name, model)
    _check_own_metrics(members)


def _check_own_metrics(members: Mapping[str, Member]) -> None:
    """Refuse a metric object that two models hold: stepped side by side, each would count the other's rows."""
    holders: dict[int, Member] = {}
    for name, member in members.items():
        for metric in compiled_metrics(member.model):
            holder = holders.setdefault(id(metric), member)
            if holder.model is not member.model:
                raise GraphError(
                    f"`{holder.name}` and `{name}` were compiled with one metric object, `{metric.name}`, but its "
                    "state belongs to one model. Make one for each, or pass it to `joint.compile`, which copies it"
                )


def check_not_shared(members: Mapping[str, Member]) -> None:
    """Refuse to train members that share what training changes: gradients would have to be added, and statistics or
    random states would follow the rows of both.

    A shared part that is frozen is fine.

    Raises:
        GraphError: naming two members that hold one weight, statistic or random state.
    """
    owners: dict[int, Member] = {}
    for name, member in members.items():
        for what, variable in _changed_by_training(member.model):
            owner = owners.setdefault(id(variable), member)
            if owner is member:
                continue
            shared = "are one model" if owner.model is member.model else f"share the {what} `{variable.path}`"
            raise GraphError(
                f"`{owner.name}` and `{name}` {shared}. Training members that share weights is not supported yet; they "
                f"can be "
                "evaluated, predict and be exported. `copies=2` makes two members with weights of their own"
            )


def _changed_by_training(model: keras.Model) -> Iterator[tuple[str, Any]]:
    """The variables that a train step may change, each with a word for what it is."""
    yield from (("weight", variable) for variable in model.trainable_variables)
    for layer in flatten_layers(model):
        if isinstance(layer, WITH_STATISTICS) and layer.trainable:
            yield from (("statistic", variable) for variable in layer.non_trainable_variables)
    yield from (("random state", state) for state in random_states(model))


def check_can_split(name: str, model: keras.Model) -> None:
    """Refuse replicas of a model with a step of its own: there is no telling what a slice of it would mean."""
    for method in ("train_step", "test_step"):
        if overrides(model, method):
            raise GraphError(
                f"`{name}` has replicas, but {type(model).__name__} has a `{method}` of its own, which cannot be "
                f"split. "
                f"Run it as one replica: `{name}` instead of `{name} x{{N}}`"
            )


def _own_objects(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by member, where an object with state that several members were given is copied for each."""
    counts: dict[int, int] = {}
    for value in values.values():
        for leaf in {id(leaf): leaf for leaf in keras.tree.flatten(value)}.values():
            counts[id(leaf)] = counts.get(id(leaf), 0) + 1

    def own(leaf: Any) -> Any:
        stateful = isinstance(leaf, (keras.optimizers.Optimizer, keras.metrics.Metric))
        return _copied(leaf) if stateful and counts[id(leaf)] > 1 else leaf

    return {name: keras.tree.map_structure(own, value) for name, value in values.items()}


def _copied(held: Any) -> Any:
    try:
        return type(held).from_config(held.get_config())
    except Exception as error:  # whatever a class of the user's own raises
        raise GraphError(
            f"one {type(held).__name__} object was given for several members and cannot be copied for each: {error} "
            'Make one for each: `{"a": ..., "b": ...}`'
        ) from error
