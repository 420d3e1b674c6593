"""A plan as plain data: what `Plan.to_dict` gives and `plan_schema` describes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from composer.catalog import ModelSignature, TensorSignature
from composer.compiler import ir
from composer.compiler.values import plain
from composer.diagnostics import to_dict as diagnostics_to_dict
from composer.language import nodes

if TYPE_CHECKING:
    from composer.compiler.plan import DeviceLoad, MemberPlan, Plan

FORMAT = "composer-plan"
FORMAT_VERSION = 1


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can hold it; devices as `gpu:1`, unknown sizes as null."""
    composition = plan.composition
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": composition.name,
        "strategy": plan.strategy,
        "topology": {"cpus": plan.topology.cpus, "gpus": plan.topology.gpus, "simulated": plan.topology.simulated},
        "options": {
            "merge": str(composition.merge),
            "weights": composition.weights,
            "fuse": composition.fuse,
            "jit": composition.jit,
        },
        "models": [{"name": name, "source": _source(source)} for name, source in composition.models],
        "members": [_member(placed) for placed in plan.members],
        "devices": [_load(load) for load in plan.loads],
        "notes": list(plan.notes),
        "warnings": diagnostics_to_dict(plan.warnings)["diagnostics"],
    }


def _source(source: nodes.Source | None) -> dict[str, Any] | None:
    if source is None:
        return None
    if isinstance(source, nodes.PathSource):
        return {"path": source.path}
    arguments = {option.name.text: _node(option.value) for option in source.arguments}
    return {"factory": f"{source.module}:{source.function}", "arguments": arguments}


def _node(value: nodes.Value) -> Any:
    if isinstance(value, nodes.Call):
        return {"call": value.name.text, "arguments": {o.name.text: _node(o.value) for o in value.arguments}}
    if isinstance(value, nodes.ListValue):
        return [_node(item) for item in value.items]
    if isinstance(value, nodes.MapValue):
        return {"map": [[_node(key), _node(item)] for key, item in value.items]}
    found = plain(value)
    return found if found is None or isinstance(found, bool | int | float | str) else str(found)


def _member(placed: MemberPlan) -> dict[str, Any]:
    member = placed.member
    return {
        "name": member.name,
        "model": member.model,
        "branch": member.branch,
        "copy_index": member.copy_index,
        "group": member.group,
        "per": member.per,
        "seed": member.seed,
        "devices": [str(device) for device in placed.devices],
        "pinned": bool(member.at),
        "merge": str(placed.merge),
        "weights": str(placed.weights) if placed.weights is not None else None,
        "reason": placed.reason,
        "train": _train(member.train),
        "data": _data(member.data) if member.data is not None else None,
        "signature": _signature(placed.signature) if placed.signature is not None else None,
    }


def _train(settings: ir.TrainSettings) -> dict[str, Any]:
    return {
        "optimizer": _value(settings.optimizer),
        "loss": _value(settings.loss),
        "metrics": _value(settings.metrics),
        "batch": settings.batch,
        "epochs": settings.epochs,
        "callbacks": [_value(call) for call in settings.callbacks],
        "class_weight": _value(settings.class_weight),
    }


def _value(value: ir.Value) -> Any:
    if isinstance(value, ir.Call):
        return {"call": value.name, "arguments": {name: _value(item) for name, item in value.arguments}}
    if isinstance(value, ir.Map):
        return {"map": [[key, _value(item)] for key, item in value.items]}
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return value


def _data(data: ir.DataSource) -> dict[str, Any]:
    return {
        "source": _source(data.source),
        "target": list(data.target) if data.target is not None else None,
        "features": list(data.features) if data.features is not None else None,
        "validation": data.validation,
        "shuffle": data.shuffle,
    }


def _signature(signature: ModelSignature) -> dict[str, Any]:
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(signature).items()},
        "inputs": [_tensor(tensor) for tensor in signature.inputs],
        "outputs": [_tensor(tensor) for tensor in signature.outputs],
    }


def _tensor(tensor: TensorSignature) -> dict[str, Any]:
    shape = list(tensor.shape) if tensor.shape is not None else None
    return {"name": tensor.name, "shape": shape, "dtype": tensor.dtype}


def _load(load: DeviceLoad) -> dict[str, Any]:
    return {
        "device": str(load.device),
        "replicas": list(load.replicas),
        "parameters": load.parameters,
        "flops_per_step": load.flops_per_step,
        "weight_bytes": load.weight_bytes,
        "slot_bytes": load.slot_bytes,
        "activation_bytes": load.activation_bytes,
    }
