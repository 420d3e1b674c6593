"""Traced programs, kept from call to call as long as what they were traced on is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from composer.engine import units
from composer.engine.bundle_program import BundleProgram
from composer.engine.feed import Feed
from composer.engine.functional_optimizers import Varying
from composer.engine.programs import JointProgram, MemberStep
from composer.engine.sharing import group_weights, sharing_groups
from composer.engine.units import Unit
from composer.graph.keyed import KeyedModel

NUM_KEPT = 16
"""Programs kept of each kind: calls with other members or shapes by turns (a server's) must not trace every time."""


@dataclass(frozen=True)
class _Traced:
    """A program and what it was traced on."""

    members: tuple[Unit, ...]
    specs: list[Any]
    compiled: list[Any]
    program: JointProgram | BundleProgram

    @property
    def is_stale(self) -> bool:
        """Whether a member has been compiled anew since; the program would step its old optimizer."""
        return self.compiled != compiled_as([unit.model for unit in self.members])


class ProgramCache:
    """The training, testing and predicting programs of one joint model.

    A program belongs to its members, to the structure of their batches and to how they were compiled; a model compiled
    anew gets a new program, as in Keras. A second call with the same adds no trace.

    Args:
        jit: the spec's `jit=`: `auto` leaves it to each model's own `compile`.
    """

    def __init__(self, jit: str = "auto") -> None:
        self.jit = jit
        self._traced: dict[str, list[_Traced]] = {}
        self._bundles: list[_Traced] = []
        self.running: dict[str, tf.Variable] = {}

    def training(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        groups = sharing_groups(members)
        build_optimizers(members)
        for unit in members:
            if unit.name not in self.running:
                with tf.device("/device:CPU:0"):
                    self.running[unit.name] = tf.Variable(True, trainable=False)
        grouped = {unit.name for group in groups for unit in group}

        def step(unit: Unit) -> Any:
            return units.gradient_step(unit) if unit.name in grouped else units.train_step(unit)

        return self._get("train", step, members, feed, running=self.running, groups=groups)

    def bundle(
        self, members: Sequence[Unit], *, jit: bool, trains: bool, settings: Sequence[Varying] = ()
    ) -> BundleProgram:
        """The program of a bundle. See `BundleProgram`."""
        counted = len(members[0].model.metrics_variables)  # none before the first loss: a prediction may come first
        kind = [jit, trains, tuple(settings), counted]
        known = [traced for traced in self._bundles if not traced.is_stale]
        found = next((traced for traced in known if traced.members == tuple(members) and traced.specs == kind), None)
        if found is None:
            program = BundleProgram(members, jit=jit, trains=trains, settings=settings)
            found = _Traced(tuple(members), kind, compiled_as([unit.model for unit in members]), program)
        self._bundles = [*[traced for traced in known if traced is not found][-NUM_KEPT + 1 :], found]
        assert isinstance(found.program, BundleProgram)
        return found.program

    def testing(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        return self._get("test", units.test_step, members, feed)

    def predicting(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        return self._get("predict", units.predict_step, members, feed)

    def _get(
        self, kind: str, step: Callable[[Unit], Any], members: Sequence[Unit], feed: Feed, **options: Any
    ) -> JointProgram:
        specs = [feed.batch_specs[unit.name] for unit in members]
        known = [traced for traced in self._traced.get(kind, []) if not traced.is_stale]
        found = next((traced for traced in known if traced.members == tuple(members) and traced.specs == specs), None)
        if found is None:
            steps = [MemberStep(unit, step(unit), spec) for unit, spec in zip(members, specs, strict=True)]
            eager = any(bool(getattr(unit.model, "run_eagerly", False)) for unit in members)
            program = JointProgram(steps, eager=eager, jit=self.jit, **options)
            found = _Traced(tuple(members), specs, compiled_as([unit.model for unit in members]), program)
        others = [traced for traced in known if traced is not found]
        self._traced[kind] = [*others[-NUM_KEPT + 1 :], found]
        assert isinstance(found.program, JointProgram)
        return found.program


def build_optimizers(members: Sequence[Unit]) -> None:
    """Make the optimizers' slots, each beside its weight; made while a step is traced all would lie on one device.

    That of members that share weights has slots for the weights of all of them. Of a model for each key every key has
    slots of its own, which the bundle makes.
    """
    groups = sharing_groups(members)
    grouped = {unit.name for group in groups for unit in group}
    for group in (*groups, *((unit,) for unit in members if unit.name not in grouped)):
        optimizer = getattr(group[0].model, "optimizer", None)
        if optimizer is not None and not optimizer.built and not isinstance(group[0].model, KeyedModel):
            with tf.device(group[0].home):
                optimizer.build(group_weights(group))


def compiled_as(models: Sequence[Any]) -> list[Any]:
    """What a fresh `compile` replaces. Objects, not their ids: one that is held cannot come again as another."""
    compiled: list[Any] = []
    for model in models:
        metrics = list(getattr(model, "metrics", []))
        compiled += [
            getattr(model, "optimizer", None),
            metrics[0] if metrics else None,
            getattr(model, "jit_compile", False),
            getattr(model, "run_eagerly", False),
        ]
    return compiled
