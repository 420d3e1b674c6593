"""Members that share weights: each has its own loss and metrics, and all of them one optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from composer.compiler.checks import train_together
from composer.diagnostics import Diagnostic, render_text
from composer.engine.sharing import sharing_groups
from composer.errors import ComposerWarning, GraphError
from composer.graph.private import flatten_layers, random_states
from composer.graph.views import OWN_STEPS, ModelView, overrides
from composer.runtime.members import Member
from composer.source import SourceText

WITH_STATISTICS = (keras.layers.BatchNormalization, keras.layers.SpectralNormalization)
"""Layers with variables that training changes without a gradient."""

_OWN_WEIGHTS = "give each a model of its own: a second `model` statement, or a second model that is passed"


def member_trainers(models: Mapping[str, keras.Model]) -> dict[str, keras.Model]:
    """What holds each member's optimizer, loss and metrics: its model, or a view of it where it is not its own.

    A model whose class has steps of its own cannot be viewed; its members can only be evaluated by turns.
    """
    holders: dict[int, int] = {}
    for model in models.values():
        holders[id(model)] = holders.get(id(model), 0) + 1
    return {
        name: ModelView(model) if holders[id(model)] > 1 and not _own_steps(model) else model
        for name, model in models.items()
    }


def groups_of(members: Mapping[str, Member]) -> list[tuple[Member, ...]]:
    """The groups of members that share trainable weights."""
    groups = sharing_groups([member.unit for member in members.values()])
    return [tuple(members[unit.name] for unit in group) for group in groups]


def check_shared(members: Mapping[str, Member], source: SourceText | None = None) -> None:
    """See that members that share weights can be trained together, and say that they are no longer alone.

    Args:
        members: by name.
        source: the spec, for the places of warnings.

    Raises:
        GraphError: for members whose one model has steps of its own, or that were not compiled with one optimizer.

    Warns:
        ComposerWarning: MG321, for members that share what training changes, unless the plan has told it.
    """
    for group in groups_of(members):
        for member in group:
            _check_steps(member, next(other for other in group if other is not member))
            if member.trainer.optimizer is not group[0].trainer.optimizer:
                raise GraphError(
                    f"`{group[0].name}` and `{member.name}` share weights, but not an optimizer. Their gradients add, "
                    'and one optimizer takes the step: give both one, as `joint.compile(optimizer="adam", ...)` does'
                )
    for first, second, what in _shared_state(members):
        one, other = first.plan.member, second.plan.member
        if first.model is second.model and train_together(one, other, first.plan.signature):
            continue
        warning = Diagnostic(
            "MG321",
            f"`{first.name}` and `{second.name}` {what}: neither trains as it would alone",
            other.span if source is not None else None,
            source,
            help=(f"to train each as if it were alone, {_OWN_WEIGHTS}",),
            severity="warning",
        )
        warnings.warn(ComposerWarning(render_text([warning]), (warning,)), stacklevel=3)


def _check_steps(member: Member, other: Member) -> None:
    own = _own_steps(member.model)
    if own:
        raise GraphError(
            f"`{member.name}` shares weights with `{other.name}`, but {type(member.model).__name__} has a `{own[0]}` "
            "of its own, and members that share weights are stepped by one optimizer outside it. To train both, "
            f"{_OWN_WEIGHTS}"
        )


def _own_steps(model: keras.Model) -> list[str]:
    return [method for method in OWN_STEPS if overrides(model, method)]


def _shared_state(members: Mapping[str, Member]) -> Iterator[tuple[Member, Member, str]]:
    """Pairs of members that share something training changes, each pair once, and what they share."""
    owners: dict[int, Member] = {}
    told = set()
    for member in members.values():
        for what, variable in _changed_by_training(member.model):
            owner = owners.setdefault(id(variable), member)
            if owner is not member and (owner.name, member.name) not in told:
                told.add((owner.name, member.name))
                one_model = owner.model is member.model
                yield owner, member, "are one model" if one_model else f"share the {what} `{variable.path}`"


def _changed_by_training(model: keras.Model) -> Iterator[tuple[str, Any]]:
    """The variables that a train step may change, each with a word for what it is."""
    yield from (("weight", variable) for variable in model.trainable_variables)
    for layer in flatten_layers(model):
        if isinstance(layer, WITH_STATISTICS) and layer.trainable:
            yield from (("statistic", variable) for variable in layer.non_trainable_variables)
    yield from (("random state", state) for state in random_states(model))


def one_optimizer(group: Sequence[Member], given: Mapping[str, Any]) -> keras.optimizers.Optimizer | None:
    """The optimizer that a group is to be compiled with, made of what its members are given; None if nothing is given.

    Args:
        group: members that share weights.
        given: optimizers by member, each a name, a config or an object.

    Raises:
        GraphError: if two members are given different ones.
    """
    named = [(member.name, given[member.name]) for member in group if given.get(member.name) is not None]
    for name, value in named[1:]:
        if not _agree(value, named[0][1]):
            raise GraphError(
                f"`{named[0][0]}` and `{name}` share weights and must agree on the optimizer: their gradients add, and "
                f"one optimizer takes the step. Give both the same, or {_OWN_WEIGHTS}"
            )
    return keras.optimizers.get(named[0][1]) if named else None


def _agree(one: Any, other: Any) -> bool:
    """Whether two values for an optimizer mean the same: one object, or fresh ones that would step alike."""
    if one is other:
        return True
    one, other = keras.optimizers.get(one), keras.optimizers.get(other)
    fresh = not (one.built or other.built)
    return fresh and type(one) is type(other) and _rule(one) == _rule(other)


def _rule(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    return {key: value for key, value in optimizer.get_config().items() if key != "name"}
