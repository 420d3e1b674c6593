"""Joint programs: one traced function that steps every member that has a batch and has not stopped.

Each member's step stands under a condition. A member without a batch costs the test of a boolean; its weights, slots
and statistics are not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.sharing import step_group
from composer.engine.slices import Slices
from composer.engine.units import Unit, member_scope
from composer.errors import DataError
from composer.graph.private import light_optimizing

Logs = dict[str, Any]
_Loop = tuple[tf.Tensor, tf.Tensor, tf.Tensor, dict[str, Any]]  # go on, taken, steps by member, last results


@dataclass(frozen=True)
class MemberStep:
    """A unit's step with the structure of the batches it takes."""

    unit: Unit
    step: Callable[[Any], Any]
    batch_spec: Any


class JointProgram:
    """Steps several members in one call.

    Args:
        members: in the order they run.
        running: by member, a boolean variable; a member whose variable is false is skipped.
        eager: run op by op, for debugging.
        jit: `on` and `off` overrule each model's own `jit_compile`. A member with replicas is never compiled by XLA,
            which would ignore their devices.
        groups: units that share trainable weights; the steps of their members are gradient steps, after which one
            optimizer steps each group.
    """

    def __init__(
        self,
        members: Sequence[MemberStep],
        running: Mapping[str, tf.Variable] | None = None,
        *,
        eager: bool = False,
        jit: str = "auto",
        groups: Sequence[tuple[Unit, ...]] = (),
    ) -> None:
        self.members = tuple(members)
        self.names = tuple(member.unit.name for member in self.members)
        self.running = dict(running or {})
        self.eager = eager
        self.jit = jit
        self._steps: dict[str, Callable[[Any], Any]] = {}
        self._results: dict[str, Any] = {}  # by member, the structure of what its step returns, as tensor specs
        self._groups = tuple(groups)
        self._grouped = {unit.name for group in groups for unit in group}
        if not eager:
            for member in self.members:
                self._trace(member)
        self._functions: dict[tuple[frozenset[str], bool], Callable[..., Any]] = {}

    @property
    def log_names(self) -> dict[str, list[str]]:
        """The names that each member's train or test step logs under; nothing is known of an eager program."""
        results = {name: self._logs(name, result) for name, result in self._results.items()}
        return {name: list(flattened(result)) for name, result in results.items() if isinstance(result, Mapping)}

    def _logs(self, name: str, result: Any) -> Any:
        """What a member's step is to tell: of a gradient step, what stands beside the gradients."""
        return result.get("logs", {}) if name in self._grouped else result

    def __call__(self, batches: Mapping[str, tf.experimental.Optional]) -> tuple[tf.Tensor, dict[str, Any]]:
        """Run one step on the batches of all members. See `run`."""
        ran, _, results = self.run({}, batches)
        return ran, results

    def run(
        self, slices: Mapping[str, Slices], batches: Mapping[str, tf.experimental.Optional], most: int | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, Any]]:
        """Run one step or several inside one call. It ends early after a step without a batch for any member.

        Args:
            slices: of members with arrays, what to take their batches from.
            batches: of the other members, the batch of the one step.
            most: the number of steps, at least 1. Given, it is traced as a loop, for arrays of all members; None is one
                step.

        Returns:
            How many steps each member took, in the order of `names`; how many joint steps that were, one without a
            batch not counted; and of each member the result of its last step (of one that took none, it has the right
            structure and means nothing).

        Raises:
            ValueError: for several steps with batches for one, or of an eager program.
        """
        if most is not None and (batches or self.eager):
            raise ValueError(f"several steps in one call need arrays of all members. Received: most={most}")
        with self._naming_members():
            if self.eager:
                return self._one(slices, dict(batches))
            function = self._function(frozenset(slices), burst=most is not None)
            last = _unwrapped(batches) if most is None else tf.constant(most)
            with light_optimizing():
                return function(slices, last)

    def _function(self, sliced: frozenset[str], *, burst: bool) -> Callable[..., Any]:
        """One trace for any number of rows."""
        if (sliced, burst) not in self._functions:
            specs = {member.unit.name: member.batch_spec for member in self.members}
            slices = {name: Slices.spec(spec) for name, spec in specs.items() if name in sliced}
            batches = {name: tf.OptionalSpec(spec) for name, spec in specs.items() if name not in sliced}
            last = tf.TensorSpec((), tf.int32) if burst else dict.fromkeys(batches, tf.TensorSpec((), tf.variant))

            def one(slices: Mapping[str, Slices], unwrapped: Mapping[str, tf.Tensor]) -> Any:
                return self._one(slices, {name: _wrapped(spec, unwrapped[name]) for name, spec in batches.items()})

            function = self._burst if burst else one
            self._functions[sliced, burst] = tf.function(function, input_signature=(slices, last), autograph=False)
        return self._functions[sliced, burst]

    @contextmanager
    def _naming_members(self) -> Iterator[None]:
        """Tell what TensorFlow says of an operation that failed as what it is: a step of one member."""
        try:
            yield
        except tf.errors.InvalidArgumentError as error:
            place = re.search(r"\{\{node ([^}]*)\}\}", error.message)
            scopes = place[1].split("/") if place else []
            name = next((name for name in self.names if member_scope(name) in scopes), None)
            if name is None:
                raise
            told = operation_fault(error)
            told = f"a step of `{name}` failed on its rows: {told} (at {'/'.join(scopes[-3:])})"
            raise DataError(told, code="MG514", member=name) from error

    def _trace(self, member: MemberStep) -> None:
        """Trace a member's step by itself: what it makes on first use (metrics, seed states) must not be made in a
        branch."""
        wanted = self.jit == "on" or (self.jit == "auto" and bool(getattr(member.unit.model, "jit_compile", False)))
        step = tf.function(
            member.step, autograph=False, jit_compile=True if wanted and len(member.unit.devices) == 1 else None
        )
        concrete = step.get_concrete_function(member.batch_spec)
        self._steps[member.unit.name] = step
        self._results[member.unit.name] = concrete.structured_outputs

    def _one(
        self, slices: Mapping[str, Slices], batches: dict[str, Any]
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, Any]]:
        sliced = {name: each.at(0) for name, each in slices.items()}
        ran, results = self._joint({**sliced, **batches})
        return tf.cast(ran, tf.int32), tf.cast(tf.reduce_any(ran), tf.int32), results

    def _joint(
        self, batches: dict[str, tf.experimental.Optional], last: Mapping[str, Any] | None = None
    ) -> tuple[tf.Tensor, dict[str, Any]]:
        """One step of all. Of a member that takes none, what is told is what it told last, if that is given."""
        ran: dict[str, tf.Tensor] = {}
        results: dict[str, Any] = {}
        for member in self.members:
            name = member.unit.name
            batch = batches[name]
            active = batch.has_value()
            if name in self.running:
                active = tf.logical_and(active, self.running[name])
            results[name] = self._run(member, batch, active, last)
            ran[name] = active
        for group in self._groups:
            gradients = {unit.name: results[unit.name].get("gradients", {}) for unit in group}
            step_group(group, ran, gradients)
        with tf.device("/device:CPU:0"):
            return tf.stack(list(ran.values())), {name: self._logs(name, result) for name, result in results.items()}

    def _burst(self, slices: Mapping[str, Slices], most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, dict[str, Any]]:
        nothing = {name: self._logs(name, self._results[name]) for name in self.names}

        def body(_: tf.Tensor, taken: tf.Tensor, counts: tf.Tensor, last: dict[str, Any]) -> _Loop:
            ran, results = self._joint({name: each.at(taken) for name, each in slices.items()}, last)
            go = tf.reduce_any(ran)
            taken += tf.cast(go, tf.int32)
            return tf.logical_and(go, taken < most), taken, counts + tf.cast(ran, tf.int32), results

        start = (tf.constant(True), tf.constant(0), tf.zeros(len(self.names), tf.int32))
        _, taken, counts, last = tf.while_loop(
            lambda go, *_: go,
            body,
            (*start, keras.tree.map_structure(_nothing, nothing)),
            shape_invariants=(
                *(value.shape for value in start),
                keras.tree.map_structure(lambda like: like.shape, nothing),
            ),
            parallel_iterations=1,
        )
        return counts, taken, last

    def _run(
        self,
        member: MemberStep,
        batch: tf.experimental.Optional,
        active: tf.Tensor,
        last: Mapping[str, Any] | None,
    ) -> Any:
        name = member.unit.name
        if self.eager:
            return member.step(batch.get_value()) if bool(active) else {}

        def skip() -> Any:
            if last is None:
                return keras.tree.map_structure(_nothing, self._results[name])
            if name not in self._grouped:
                return last[name]
            nothing = keras.tree.map_structure(_nothing, self._results[name])
            return {**nothing, "logs": last[name]}

        return tf.cond(active, lambda: self._steps[name](batch.get_value()), skip)


# Told that its arguments are optionals, a function would look into each of them at every call.


def _unwrapped(batches: Mapping[str, tf.experimental.Optional]) -> dict[str, tf.Tensor]:
    return {name: tf.nest.flatten(batch, expand_composites=True)[0] for name, batch in batches.items()}


def _wrapped(spec: tf.OptionalSpec, value: tf.Tensor) -> tf.experimental.Optional:
    return tf.nest.pack_sequence_as(spec, [value], expand_composites=True)


def operation_fault(error: tf.errors.OpError) -> str:
    """What TensorFlow says of an operation that failed: the line before `[[{{node ...}}]]`, or what Python raised in
    it."""
    raised, python, _ = error.message.partition("\nTraceback (most recent call last):")
    found = re.search(r"([^\n]+)\n\s*\[\[", error.message)
    if python:
        text = raised
    else:
        text = found[1] if found else error.message.removeprefix("Graph execution error:").partition("[[")[0]
    text = re.sub(r"^\s*\{\{function_node [^}]*\}\}\s*", "", text)
    text = re.sub(r"^Error in user-defined function passed to .*? with iterator: [\w:\[\]]+: ", "", text)
    text = re.sub(r"^\s*(\(\d+\)\s*)?([A-Z_]+:\s*)?", "", text)  # which of several, and the kind
    return " ".join(text.split())[:400].rstrip(".")


def _nothing(like: Any) -> Any:
    """A tensor of the dtype and rank of another, empty where its shape is open."""
    if isinstance(like, (tf.RaggedTensor, tf.RaggedTensorSpec)):
        rank, inner = like.ragged_rank, tuple(size or 0 for size in like.shape[like.ragged_rank + 1 :])
        splits = like.row_splits_dtype if isinstance(like, tf.RaggedTensorSpec) else like.row_splits.dtype
        return tf.ragged.constant([], like.dtype, rank, inner, row_splits_dtype=splits)
    return tf.zeros([size or 0 for size in like.shape], like.dtype)


def flattened(logs: Mapping[str, Any]) -> Logs:
    """Logs with what stands in a dict among them, as a step of the user's own may return it, on their own level."""
    flat: Logs = {}
    for key, value in logs.items():
        flat.update(flattened(value) if isinstance(value, Mapping) else {key: value})
    return flat


def to_python(logs: Logs) -> Logs:
    """Logs as floats; metrics that are no scalars, or no numbers, as arrays."""
    values = {key: np.asarray(value) for key, value in flattened(logs).items()}
    return {
        key: float(value) if value.ndim == 0 and value.dtype.kind in "biuf" else value for key, value in values.items()
    }
