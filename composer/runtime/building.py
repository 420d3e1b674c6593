"""`build_joint`: a syntax tree and models become a joint model on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from composer.compiler import ir
from composer.compiler.plan import MemberPlan
from composer.compiler.planner import plan as plan_composition
from composer.compiler.resolver import resolve
from composer.diagnostics import render_text
from composer.errors import ComposerWarning, GraphError
from composer.graph import devices
from composer.graph.copies import copy_model
from composer.graph.hints import listed, near
from composer.graph.keyed import KeyedModel, keyed_model
from composer.graph.models import is_servable_only, load_model, load_models
from composer.graph.placement import device_of, move_variables
from composer.language import nodes
from composer.runtime.compiling import apply_settings, follow_model
from composer.runtime.composed_model import ComposedModel
from composer.runtime.planning import signatures
from composer.runtime.settings import compile_arguments
from composer.source import SourceText


def build_joint(
    tree: nodes.Spec,
    source: SourceText,
    given: Mapping[str, keras.Model],
    *,
    graph: str | None = None,
    allow_python: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
) -> ComposedModel:
    """Resolve, load, plan, place and join.

    Args:
        tree, source: the spec.
        given: the models that the caller passes, by the names the spec gives them.
        graph, allow_python, custom_objects: as in `composer.compile`.
    """
    for name, model in given.items():
        if not isinstance(model, keras.Model):
            raise GraphError(f"`{name}` must be a keras.Model. Received: {type(model).__name__}")
    composition = resolve(tree, source, signatures(given), graph=graph)
    _check_given(composition, given, tree)
    loading: dict[str, Any] = {"allow_python": allow_python, "custom_objects": custom_objects}
    models = {**given, **load_models(composition, source.folder, source=source, **loading)}
    topology = devices.topology()
    plan = plan_composition(composition, topology, signatures(models), source)
    for warning in (*composition.warnings, *plan.warnings):
        warnings.warn(ComposerWarning(render_text([warning]), (warning,)), stacklevel=3)
    declared = dict(composition.models)
    members: dict[str, keras.Model] = {}
    for placed in plan.members:
        home = devices.tensorflow_name(placed.devices[0], topology)
        members[placed.member.name] = _member_model(placed, models, home)
        declaration = declared.get(placed.member.model)
        if placed.weights is not None:
            move_variables(
                placed.member.name, members[placed.member.name], devices.tensorflow_name(placed.weights, topology)
            )
        elif declaration is not None and placed.member.copy_index is None and placed.member.per is None:
            model = _where_it_runs(placed, models[placed.member.model], home, declaration, source, loading)
            members[placed.member.name] = models[placed.member.model] = model
    sources = {placed.member.name: _told_source(declared.get(placed.member.model)) for placed in plan.members}
    joint = ComposedModel(plan, members, spec_text=source.text, sources=sources)
    _apply_settings(joint)
    return joint


def _check_given(composition: ir.Composition, given: Mapping[str, keras.Model], tree: nodes.Spec) -> None:
    """Every model that the spec uses is declared or passed, and every model that is passed is used."""
    declared = {name for name, source in composition.models if source is not None}
    missing = sorted({member.model for member in composition.members} - declared - set(given))
    if missing:
        told = ", ".join(f"`{name}`" for name in missing)
        raise GraphError(f"no model for {told}: declare it in the spec (`model {missing[0]} = ...`) or pass it by name")
    twice = [name for name in given if name in declared]
    if twice:
        raise GraphError(
            f"`{twice[0]}` is passed, and the spec declares it (`model {twice[0]} = ...`). Leave one of the two out"
        )
    used = {branch.model.text for graph in _compositions(tree) for branch in graph.branches}
    for name in given:
        if name not in used:
            told = near(name, used) or f": it has {listed(sorted(used))}"
            warnings.warn(f"the spec has no branch of the model `{name}` that was passed{told}", ComposerWarning, 4)


def _compositions(tree: nodes.Spec) -> Iterator[nodes.Composition]:
    """All compositions of the spec, those included that were not chosen: one call may pass the models of all."""
    for statement in tree.statements:
        if isinstance(statement, nodes.Let):
            yield statement.composition
        elif isinstance(statement, nodes.Parallel):
            yield statement


def _member_model(placed: MemberPlan, models: Mapping[str, keras.Model], home: str) -> keras.Model:
    """The model itself, or the member's own copy, made where it runs."""
    member, model = placed.member, models[placed.member.model]
    if isinstance(model, KeyedModel) and model.layer.column == member.per:
        return model  # a file that was trained so
    if member.per is not None:
        with tf.device(home):
            return keyed_model(member.name, model, member.per)
    if member.copy_index is None:
        return model
    with tf.device(home):
        return copy_model(member.name, model, member.seed)


def _where_it_runs(
    placed: MemberPlan,
    model: keras.Model,
    home: str,
    declaration: nodes.Source,
    source: SourceText,
    loading: Mapping[str, Any],
) -> keras.Model:
    """A model that the spec names lives where it runs. One whose optimizer has state cannot be moved; it is loaded
    there."""
    if all(device_of(variable) == home for variable in model.variables) or is_servable_only(model):
        return model
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not optimizer.built:
        move_variables(placed.member.name, model, home)
        return model
    with tf.device(home):
        return load_model(placed.member.model, declaration, source.folder, seed=placed.member.seed, **loading)


def _apply_settings(joint: ComposedModel) -> None:
    """Compile the members whose `train` statement says how."""
    given = {}
    for name, member in joint.members.items():
        follow_model(member)
        train = member.plan.member.train
        if train.optimizer is not None or train.loss is not None or train.metrics is not None:
            given[name] = compile_arguments(name, train, member.trainer)
            if train.optimizer is None:
                given[name].pop("optimizer", None)  # stays, unless a member that shares its weights says which
    apply_settings(joint.members, given)


def _told_source(declaration: nodes.Source | None) -> str:
    """Where a model came from, in words: a path, a factory, or `python`."""
    if declaration is None:
        return "python"
    return (
        declaration.path
        if isinstance(declaration, nodes.PathSource)
        else f"{declaration.module}:{declaration.function}"
    )
