"""All endpoints of a joint model, traced and ready to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from composer.errors import ComposerError
from composer.export.endpoints import Endpoint, endpoint
from composer.export.example_shapes import example_shapes
from composer.export.faults import export_error, export_errors, reason
from composer.export.manifest import SignatureEntry, TensorEntry
from composer.export.names import JOINT_SIGNATURE, JointName, joint_name_faults, joint_names, output_names
from composer.export.protocols import Exportable
from composer.export.rest import has_request_body


@dataclass(frozen=True)
class Traced:
    """An archive that can be written, and its signatures: the members' in the order of the spec, then the joint one."""

    archive: Any
    signatures: tuple[SignatureEntry, ...]


def trace(joint: Exportable, keep_devices: bool) -> Traced:
    """Trace every member's forward pass, and the joint one, which calls them.

    Args:
        joint: the joint model.
        keep_devices: trace the members placed over their replicas rather than the models themselves.

    Raises:
        ExportError: MG602, MG603 or MG604, naming the member.
    """
    endpoints = [endpoint(member, placed=keep_devices) for member in joint.members.values()]
    inputs = joint_names([(each.member, [tensor.name for tensor in each.inputs]) for each in endpoints])
    outputs = joint_names([(each.member, output_names(each.own_outputs)) for each in endpoints])
    faults = [*joint_name_faults("input", inputs), *joint_name_faults("output", outputs)]
    if faults:
        raise export_errors(faults)

    archive = _archive([member.model for member in joint.members.values()])
    functions = {each.member: _add(archive, each.member, each, each.arguments, each.member) for each in endpoints}
    entries = [_member_signature(each, functions[each.member]) for each in endpoints]

    forward = JointForward(endpoints, functions, inputs, outputs)
    _add(archive, JOINT_SIGNATURE, forward, forward.arguments, ", ".join(joint.members))
    return Traced(archive, (*entries, _joint_signature(entries, inputs, outputs)))


def _archive(models: Sequence[keras.Model]) -> Any:
    """An archive that holds the models' variables and lookup tables, each once, also where members share a model."""
    archive = keras.export.ExportArchive()
    for model in {id(model): model for model in models}.values():
        archive.track(model)
    # `track` lists Keras' variables, and the endpoints hold TensorFlow's behind them: each would be stored twice.
    variables = list({id(each): each for model in models for each in model.variables}.values())
    archive.add_variable_collection("variables", [each.value for each in variables])
    archive.add_variable_collection("trainable_variables", [each.value for each in variables if each.trainable])
    archive.add_variable_collection("non_trainable_variables", [each.value for each in variables if not each.trainable])
    return archive


class JointForward:
    """Runs all members, each on its own number of rows: `{joint name: tensor} -> {joint name: tensor}`."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        functions: dict[str, Any],
        inputs: Sequence[JointName],
        outputs: Sequence[JointName],
    ) -> None:
        self.endpoints = endpoints
        self.functions = functions
        self.inputs = inputs
        self.outputs = outputs
        specs = {(each.member, tensor.name): tensor.spec for each in endpoints for tensor in each.inputs}
        self.arguments = {
            entry.name: tf.TensorSpec(
                specs[entry.member, entry.own].shape, specs[entry.member, entry.own].dtype, entry.name
            )
            for entry in inputs
        }

    def __call__(self, values: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        results = {}
        for each in self.endpoints:
            own = {entry.own: values[entry.name] for entry in self.inputs if entry.member == each.member}
            results[each.member] = self.functions[each.member](each.pack(own))
        return {entry.name: results[entry.member][entry.own] for entry in self.outputs}


def _add(archive: Any, name: str, forward: Any, arguments: Any, members: str) -> Any:
    """Add an endpoint and trace it now, so that what fails names its member."""
    with _trace_errors(members):
        function = archive.add_endpoint(name, forward, input_signature=[arguments])
        function.get_concrete_function()
    return function


@contextmanager
def _trace_errors(members: str) -> Iterator[None]:
    try:
        yield
    except ComposerError:
        raise
    except Exception as error:  # a layer's `call` may raise anything
        raise export_error(
            "MG604",
            f"the forward pass of `{members}` cannot be traced: {reason(error)}",
            "use TensorFlow or `keras.ops` in the layer, rather than NumPy or plain Python on its tensors",
        ) from error


def _member_signature(each: Endpoint, function: Any) -> SignatureEntry:
    shapes = example_shapes(each)
    inputs = tuple(
        _tensor(tensor.name, tensor.own_name, each.member, tensor.spec, shapes[tensor.name]) for tensor in each.inputs
    )
    given = function.get_concrete_function().structured_outputs
    outputs = tuple(
        _tensor(name, own_name, each.member, given[name])
        for name, own_name in zip(output_names(each.own_outputs), each.own_outputs, strict=True)
    )
    return _signature(each.member, (each.member,), inputs, outputs)


def _joint_signature(
    entries: Sequence[SignatureEntry], inputs: Sequence[JointName], outputs: Sequence[JointName]
) -> SignatureEntry:
    def renamed(kind: str, names: Sequence[JointName]) -> tuple[TensorEntry, ...]:
        own = {(entry.name, tensor.name): tensor for entry in entries for tensor in getattr(entry, kind)}
        return tuple(own[name.member, name.own].model_copy(update={"name": name.name}) for name in names)

    members = tuple(entry.name for entry in entries)
    return _signature(JOINT_SIGNATURE, members, renamed("inputs", inputs), renamed("outputs", outputs))


def _signature(
    name: str, members: tuple[str, ...], inputs: tuple[TensorEntry, ...], outputs: tuple[TensorEntry, ...]
) -> SignatureEntry:
    entry = SignatureEntry(name=name, members=members, inputs=inputs, outputs=outputs, request=None)
    return entry.model_copy(update={"request": f"requests/{name}.json"}) if has_request_body(entry) else entry


def _tensor(
    name: str, own_name: str, member: str, spec: Any, example_shape: tuple[int, ...] | None = None
) -> TensorEntry:
    shape = None if spec.shape.rank is None else tuple(spec.shape)
    return TensorEntry(
        name=name, dtype=spec.dtype.name, shape=shape, own_name=own_name, member=member, example_shape=example_shape
    )
