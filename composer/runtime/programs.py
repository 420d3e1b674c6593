"""Traced programs, kept from call to call as long as what they were traced on is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from composer.engine import units
from composer.engine.feed import Feed
from composer.engine.programs import JointProgram, MemberStep
from composer.engine.units import Unit


class ProgramCache:
    """The training, testing and predicting programs of one joint model.

    A program belongs to its members, to the structure of their batches and to how they were compiled; a model compiled
    anew gets a new program, as in Keras. A second call with the same adds no trace.

    Args:
        jit: the spec's `jit=`: `auto` leaves it to each model's own `compile`.
    """

    def __init__(self, jit: str = "auto") -> None:
        self.jit = jit
        self._programs: dict[str, tuple[list[Any], JointProgram]] = {}
        self.running: dict[str, tf.Variable] = {}

    def training(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        for unit in members:
            build_optimizer(unit)
            if unit.name not in self.running:
                with tf.device("/device:CPU:0"):
                    self.running[unit.name] = tf.Variable(True, trainable=False)
        return self._get("train", units.train_step, members, feed, gated=True)

    def testing(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        return self._get("test", units.test_step, members, feed)

    def predicting(self, members: Sequence[Unit], feed: Feed) -> JointProgram:
        return self._get("predict", units.predict_step, members, feed)

    def _get(
        self, kind: str, step: Callable[[Unit], Any], members: Sequence[Unit], feed: Feed, *, gated: bool = False
    ) -> JointProgram:
        identity: list[Any] = []
        for unit in members:
            identity += [unit, feed.batch_specs[unit.name], *_compiled_as(unit)]
        known = self._programs.get(kind)
        if known is not None and known[0] == identity:
            return known[1]
        steps = [MemberStep(unit, step(unit), feed.batch_specs[unit.name]) for unit in members]
        eager = any(bool(getattr(unit.model, "run_eagerly", False)) for unit in members)
        program = JointProgram(steps, self.running if gated else None, eager=eager, jit=self.jit)
        self._programs[kind] = (identity, program)
        return program


def build_optimizer(unit: Unit) -> None:
    """Make an optimizer's slots, each beside its weight; made while a step is traced they would all lie on one device."""
    optimizer = getattr(unit.model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        with tf.device(unit.home):
            optimizer.build(unit.model.trainable_variables)


def _compiled_as(unit: Unit) -> list[Any]:
    """What a fresh `compile` replaces. Objects, not their ids: one that is held cannot come again as another."""
    model = unit.model
    metrics = list(getattr(model, "metrics", []))
    return [
        getattr(model, "optimizer", None),
        metrics[0] if metrics else None,
        getattr(model, "jit_compile", False),
        getattr(model, "run_eagerly", False),
    ]
