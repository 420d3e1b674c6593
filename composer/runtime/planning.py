"""From a spec's text and the models it names to a plan for this machine."""

from __future__ import annotations

from collections.abc import Mapping

import keras

from composer.catalog import ModelSignature
from composer.compiler.plan import DeviceTopology, Plan
from composer.compiler.planner import plan
from composer.compiler.resolver import resolve
from composer.graph import devices
from composer.graph.signatures import signature_of
from composer.language.parser import parse
from composer.source import SourceText


def plan_for(
    source: SourceText,
    models: Mapping[str, keras.Model],
    *,
    graph: str | None = None,
    topology: DeviceTopology | None = None,
) -> Plan:
    """Plan a spec whose models are at hand.

    Args:
        source: the spec.
        models: by the name the spec gives them.
        graph: the composition to take, by its `let` name; None takes the unnamed one.
        topology: the devices to plan for; those of this process where None.

    Raises:
        SpecError: with all faults of a stage.
        DeviceError: if the spec asks for devices that are not there.
    """
    catalog = signatures(models)
    composition = resolve(parse(source), source, catalog, graph=graph)
    return plan(composition, topology or devices.topology(), catalog, source)


def signatures(models: Mapping[str, keras.Model]) -> dict[str, ModelSignature | None]:
    """The signature of each model; None of one that has never been built."""
    found: dict[str, ModelSignature | None] = {}
    for name, model in models.items():
        try:
            found[name] = signature_of(model)
        except ValueError:
            found[name] = None
    return found
