"""`ComposedModel.compile`: settings for all members or by member, applied to each member's own model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras

from composer.errors import GraphError
from composer.graph.private import compile_settings, compiled_metrics
from composer.graph.views import ModelView, overrides
from composer.runtime.keras_names import check_names
from composer.runtime.members import ByMember, Member
from composer.runtime.sharing import groups_of, one_optimizer

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


def compile_members(members: Mapping[str, Member], names: ByMember, settings: Mapping[str, Any]) -> None:
    """Compile the model of every member that a setting is given for.

    What a call leaves out for such a member stays as the member was compiled before, for its optimizer and loss;
    metrics and the rest take Keras' defaults. One optimizer or metric object given for several members is copied for
    each, since its state belongs to one model; members that share weights get one optimizer.

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
    leaders = {member.name: group[0].name for group in groups_of(members) for member in group}
    own = {key: _own_objects(values, leaders if key == "optimizer" else {}) for key, values in spread.items()}
    given = {name: {key: values[name] for key, values in own.items() if values[name] is not None} for name in members}
    apply_settings(members, {name: settings for name, settings in given.items() if settings})


def apply_settings(members: Mapping[str, Member], given: Mapping[str, Mapping[str, Any]]) -> None:
    """Compile members, each with what it is given; its optimizer and loss stay where those are left out.

    Members that share weights get one optimizer, also those of them that are given nothing.

    Args:
        members: all members.
        given: by member, arguments of `keras.Model.compile`.

    Raises:
        GraphError: if Keras does not know a name, or members that share weights are given different optimizers.
    """
    for name, arguments in given.items():
        check_names(name, arguments)
    settings = {name: dict(arguments) for name, arguments in given.items()}
    leaders: dict[str, Member] = {}
    for member in members.values():
        follow_model(member)
    for group in groups_of(members):
        optimizer = one_optimizer(group, {name: said.get("optimizer") for name, said in settings.items()})
        if optimizer is not None:
            for member in group:
                settings.setdefault(member.name, compile_settings(member.trainer))["optimizer"] = optimizer
                leaders[member.name] = group[0]
    for name, member in members.items():
        if name not in settings:
            continue
        trainer, leader = member.trainer, leaders.get(name, member)
        if leader is not member:
            settings[name]["optimizer"] = leader.trainer.optimizer  # which Keras may have wrapped, to scale its loss
        if getattr(trainer, "compiled", False):
            settings[name].setdefault("optimizer", trainer.optimizer)
            settings[name].setdefault("loss", trainer.loss)
        trainer.compile(**settings[name])
    _lead_models([member.trainer for name, member in members.items() if name in settings])


def follow_model(member: Member) -> None:
    """Let a member that has a model in common with others know how that was compiled by hand since."""
    if isinstance(member.trainer, ModelView):
        member.trainer.follow()


def _lead_models(trainers: Iterable[keras.Model]) -> None:
    """Compile a model that several members share as the first of them is, so that it can go on alone."""
    led: set[int] = set()
    for view in trainers:
        if isinstance(view, ModelView):
            if id(view.viewed) not in led:
                view.lead()
            view.keep()
            led.add(id(view.viewed))


def check_compiled(members: Mapping[str, Member]) -> None:
    """Refuse members that cannot be evaluated or trained as they are.

    Raises:
        GraphError: for a member that is not compiled, names that Keras does not know, a member whose class has its
            own step but is to be split, or an optimizer or metric object that several models hold.
    """
    holders: dict[int, Member] = {}
    together = [{member.name for member in group} for group in groups_of(members)]
    for name, member in members.items():
        follow_model(member)
        model = member.trainer
        if not getattr(model, "compiled", False):
            raise GraphError(
                f"`{name}` is not compiled. Call `compile` on its model, or `joint.compile(optimizer=..., loss=...)` "
                f"for all "
                f'or by member: `joint.compile(optimizer={{"{name}": "adam"}}, loss={{"{name}": "mse"}})`'
            )
        check_names(name, compile_settings(model))
        holder = holders.setdefault(id(model.optimizer), member)
        own = holder.model is member.model or any({holder.name, name} <= group for group in together)
        if model.optimizer is not None and not own:
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
        for metric in compiled_metrics(member.trainer):
            holder = holders.setdefault(id(metric), member)
            if holder.trainer is not member.trainer:
                raise GraphError(
                    f"`{holder.name}` and `{name}` were compiled with one metric object, `{metric.name}`, but its "
                    "state belongs to one model. Make one for each, or pass it to `joint.compile`, which copies it"
                )


def check_can_split(name: str, model: keras.Model) -> None:
    """Refuse replicas of a model with a step of its own: there is no telling what a slice of it would mean."""
    for method in ("train_step", "test_step"):
        if overrides(model, method):
            raise GraphError(
                f"`{name}` has replicas, but {type(model).__name__} has a `{method}` of its own, which cannot be "
                f"split. "
                f"Run it as one replica: `{name}` instead of `{name} x{{N}}`"
            )


def _own_objects(values: Mapping[str, Any], leaders: Mapping[str, str]) -> dict[str, Any]:
    """Values by member, where an object with state that several members were given is copied for each.

    Args:
        leaders: by member, the one it shares the object with.
    """
    counts: dict[int, int] = {}
    for value in (value for name, value in values.items() if leaders.get(name, name) == name):
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
