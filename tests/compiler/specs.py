"""Short ways from a text to what the compiler makes of it."""

from __future__ import annotations

from composer.catalog import ModelCatalog, ModelSignature, TensorSignature
from composer.compiler import ir
from composer.compiler.plan import DeviceTopology, Plan
from composer.compiler.planner import plan, topology_for
from composer.compiler.resolver import resolve
from composer.language.parser import parse
from composer.source import SourceText


def resolved(text: str, catalog: ModelCatalog | None = None, graph: str | None = None) -> ir.Composition:
    source = SourceText(text)
    return resolve(parse(source), source, catalog, graph)


def planned(text: str, catalog: ModelCatalog | None = None, topology: DeviceTopology | None = None) -> Plan:
    composition = resolved(text)
    return plan(composition, topology or topology_for(composition), catalog, SourceText(text))


def members(text: str) -> dict[str, ir.Member]:
    return {member.name: member for member in resolved(text).members}


def places(found: Plan) -> dict[str, list[str]]:
    return {placed.member.name: [str(device) for device in placed.devices] for placed in found.members}


def signature(
    flops: int | None = None, parameters: int | None = None, activations: int | None = None, **traits: object
) -> ModelSignature:
    """A model of one input and one output; four bytes a parameter, all trainable."""
    return ModelSignature(
        inputs=(TensorSignature("x", (None, 4), "float32"),),
        outputs=(TensorSignature("y", (None, 1), "float32"),),
        parameters=parameters,
        trainable_parameters=parameters,
        weight_bytes=None if parameters is None else 4 * parameters,
        flops_per_row=flops,
        activation_bytes_per_row=activations,
        **traits,  # type: ignore[arg-type]
    )
