"""The stages in order: text -> nodes -> composition -> plan -> joint model. What the public functions and the CLI
call.

What only some of them need is imported inside them: `check` of a short spec is mostly the time its imports take.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from composer.catalog import ModelCatalog, ModelSignature
from composer.compiler import ir, planner
from composer.compiler.faults import Faults
from composer.compiler.named_files import report_missing_data, report_missing_files
from composer.compiler.plan import DeviceTopology, Plan
from composer.compiler.resolver import diagnose, resolve
from composer.diagnostics import Diagnostic
from composer.errors import SpecError
from composer.language import nodes
from composer.language import parser as language
from composer.language.reader import read_spec
from composer.source import SourceText

if TYPE_CHECKING:
    import keras

    from composer.runtime.composed_model import ComposedModel

SpecLike: TypeAlias = "str | os.PathLike[str] | SourceText"

SPEC_SUFFIX = ".mgpu"


def read(spec: SpecLike) -> SourceText:
    """The text of a spec.

    Args:
        spec: the text itself, or the path of a file: a `pathlib.Path`, or a string that ends in `.mgpu`.

    Raises:
        SpecError: if the file cannot be read.
    """
    if isinstance(spec, SourceText):
        return spec
    if isinstance(spec, os.PathLike) or (spec.endswith(SPEC_SUFFIX) and "\n" not in spec and "(" not in spec):
        return read_spec(spec)
    return SourceText(spec)


def parse(spec: SpecLike) -> nodes.Spec:
    """The syntax tree of a spec.

    Raises:
        SpecError: with all syntax faults (MG1xx).

    Example:
        >>> composer.parse("parallel(a, b x2)").statements[0].branches[1].replicas.count
        2
    """
    return language.parse(read(spec))


def format(spec: SpecLike) -> str:
    """The spec in canonical layout, comments kept; formatting twice changes nothing.

    Raises:
        SpecError: with all syntax faults (MG1xx).

    Example:
        >>> composer.format("parallel( a,b   x2 )")
        'parallel(a, b x2)\\n'
    """
    from composer.language.printer import print_spec

    return print_spec(parse(spec))


def check(spec: SpecLike, *, graph: str | None = None) -> list[Diagnostic]:
    """All faults and warnings of a spec; an empty list for a sound one. Nothing the spec names is imported or run.

    Of a spec that comes from a file, models and data whose files are missing are warnings, and so is the lack of rows
    for a member that it loads and trains.

    Args:
        spec: text or path.
        graph: judge this composition alone; None judges all of them.

    Example:
        >>> [fault.code for fault in composer.check("parallel(a, b y2)")]
        ['MG109']
    """
    try:
        source = read(spec)
        tree = language.parse(source)
        found = list(diagnose(tree, source, graph=graph))
        if any(fault.severity == "error" for fault in found):
            return found
        planned = [_plan_declared(resolve(tree, source, graph=name), source, None) for name in _graphs(tree, graph)]
    except SpecError as error:
        return list(error.diagnostics)
    found += [warning for plan in planned for warning in plan.warnings if warning not in found]
    return found if source.text is spec else [*found, *missing(planned, source)]


def plan(spec: SpecLike, *, graph: str | None = None, topology: DeviceTopology | None = None) -> Plan:
    """What runs where, and why, from the spec and the files it names alone: no model is loaded.

    Args:
        spec: text or path.
        graph: the composition to take, by its `let` name.
        topology: the devices to plan for; the ones that the spec asks for where None.

    Raises:
        SpecError: with all faults of a stage.
        DeviceError: if the topology lacks devices.

    Example:
        >>> print(composer.plan("parallel(a, b x2) on gpus=2"))
        plan: 2 members on gpu:0 gpu:1
        ...
    """
    source = read(spec)
    return _plan_declared(resolve(language.parse(source), source, graph=graph), source, topology)


def compile(
    spec: SpecLike,
    models: Mapping[str, keras.Model] | None = None,
    *,
    graph: str | None = None,
    allow_python: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    **named: keras.Model,
) -> ComposedModel:
    """Compile a spec to a joint model.

    Args:
        spec: text or path.
        models: Keras models by the names the spec gives them, besides those it declares. They are neither copied nor
            renamed: after `fit` they hold the trained state.
        graph: the composition to take, by its `let` name.
        allow_python: whether factories that the spec names may run.
        custom_objects: classes and functions to load model files with, as in `keras.saving.load_model`.
        **named: further models by name.

    Raises:
        SpecError: with all faults of a stage.
        DeviceError: if the spec asks for devices that are not there.
        GraphError: if a model cannot be loaded, copied, placed or split.

    Example:
        >>> joint = composer.compile("parallel(a, b x2) on gpus=2 merge=gpu", a=model_a, b=model_b)
        >>> joint.members["b"].model is model_b
        True
    """
    from composer.runtime.building import build_joint  # `check` and `plan` start without TensorFlow

    source = read(spec)
    tree = language.parse(source)
    given = {**(models or {}), **named}
    return build_joint(tree, source, given, graph=graph, allow_python=allow_python, custom_objects=custom_objects)


def load(
    path: str | os.PathLike[str], spec: SpecLike | None = None, *, custom_objects: Mapping[str, Any] | None = None
) -> ComposedModel:
    """Load a joint model saved with `joint.save`, in safe mode, with each member's settings and optimizer state.

    Args:
        path: the `.keras` file.
        spec: compose its members anew under this spec (other replica counts or devices) instead of the saved one.
        custom_objects: classes and functions of the user's own, as in `keras.saving.load_model`.

    Raises:
        ComposerError: if the file is missing, damaged or no joint model, or the spec names members it does not hold.

    Example:
        >>> joint.save("fleet.keras")
        >>> fleet = composer.load("fleet.keras", "parallel(a, b x4) on gpus=4")
        >>> len(fleet.members["b"].layer.devices)
        4
    """
    from composer.runtime.saving import load_joint

    return load_joint(Path(path), None if spec is None else read(spec), custom_objects)


def simulate(count: int) -> None:
    """Let logical CPU devices stand in for GPUs in this process, for laptops and tests.

    Args:
        count: how many. A later call with as many or fewer changes nothing.

    Raises:
        DeviceError: if TensorFlow has started with fewer devices: they are fixed from then on.

    Example:
        >>> composer.simulate(4)
    """
    from composer.graph import devices

    devices.simulate(count)


def declared_signatures(composition: ir.Composition, folder: Path) -> dict[str, ModelSignature | None]:
    """What the files that a composition names tell of their models, without loading any."""
    catalog: dict[str, ModelSignature | None] = dict.fromkeys(name for name, _ in composition.models)
    for name, source in composition.models:
        if isinstance(source, nodes.PathSource) and (folder / source.path).exists():
            from composer.catalog_files import signature_of_file

            catalog[name] = signature_of_file(folder / source.path)
    return catalog


def _plan_declared(composition: ir.Composition, source: SourceText, topology: DeviceTopology | None) -> Plan:
    catalog: ModelCatalog = declared_signatures(composition, source.folder)
    return planner.plan(composition, topology or planner.topology_for(composition), catalog, source)


def missing(plans: Iterable[Plan], source: SourceText) -> tuple[Diagnostic, ...]:
    """A warning for each file that a spec names and that is not there, and for members to be trained without rows.

    Files may be made before it runs, and rows passed from Python.
    """
    faults = Faults(source)
    for each in plans:
        report_missing_files(each.composition, source.folder, faults, severity="warning")
        report_missing_data(each.composition, faults)
    return faults.warnings


def _graphs(tree: nodes.Spec, graph: str | None) -> list[str | None]:
    """The names of the compositions to judge; None is the unnamed one."""
    if graph is not None:
        return [graph]
    named: list[str | None] = [statement.name.text for statement in tree.statements if isinstance(statement, nodes.Let)]
    return [*named, None] if any(isinstance(statement, nodes.Parallel) for statement in tree.statements) else named
