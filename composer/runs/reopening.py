"""A run folder -> its joint model, each member with the weights it was trained to."""

from __future__ import annotations

import importlib
from pathlib import Path

import keras
import tensorflow as tf

from composer.catalog import ModelSignature
from composer.catalog_files import signature_of_file
from composer.compiler import ir
from composer.compiler.planner import plan as plan_composition
from composer.compiler.resolver import resolve
from composer.errors import ComposerError
from composer.graph import devices
from composer.graph.factories import describe, folder_on_path
from composer.graph.models import load_model
from composer.language import nodes
from composer.language.parser import parse
from composer.runs.run_folder import Run
from composer.runtime.composed_model import ComposedModel
from composer.source import SourceText


def open_run(run: Run, *, allow_python: bool = False) -> ComposedModel:
    """The joint model of a run, finished or not, with the devices of this machine.

    A member that trained has its saved model, optimizer state included; copies have each their own. One that could only
    predict comes from where the spec found it.

    Args:
        run: what `read_run` gave.
        allow_python: whether the modules of factories that the spec names are imported, so that classes which they
            register are known; the factories themselves are not called.

    Raises:
        ComposerError: the run lacks a model, or the machine a device.

    Example:
        >>> from composer.runs.jobs import prepare_fit, run_fit
        >>> from composer.runs.run_folder import read_run
        >>> model_a.save("a.keras")
        >>> np.savez("a.npz", x=xa, y=ya)
        >>> spec = SourceText('model a = "a.keras" data a = "a.npz" train a optimizer=sgd loss=mse parallel(a)')
        >>> result = run_fit(prepare_fit(spec), Path("runs/first"))
        >>> joint = open_run(read_run(Path("runs/first")))
        >>> joint.predict({"a": xa}, verbose=0)["a"].shape
        (8, 1)
    """
    source = spec_of(run)
    composition = resolve(parse(source), source, graph=run.record.arguments.get("graph"))
    if allow_python:
        _import_factories(composition, source.folder)
    topology = devices.topology()
    plan = plan_composition(composition, topology, _declared(composition, run), source)
    models: dict[str, keras.Model] = {}
    for placed in plan.members:
        twin = next((other for other in plan.members if _shares(other.member, placed.member)), placed)
        if twin.member.name not in models:
            with tf.device(devices.tensorflow_name(twin.weights or twin.devices[0], topology)):
                models[twin.member.name] = _load(twin.member, run)
        models[placed.member.name] = models[twin.member.name]
    sources = {name: str(run.models.get(name, source.name)) for name in models}
    return ComposedModel(plan, models, spec_text=source.text, sources=sources)


def spec_of(run: Run) -> SourceText:
    """A run's spec; its relative paths start from where the spec was when it was run."""
    there = run.record.spec_path
    return SourceText(run.spec, str(run.path / "spec.mgpu"), Path(there).parent if there else Path())


def _shares(one: ir.Member, other: ir.Member) -> bool:
    """Whether two members have one set of weights: what `parallel(m as day, m as night)` makes."""
    return one.name == other.name or (one.model == other.model and one.copy_index is None and other.copy_index is None)


def _declared(composition: ir.Composition, run: Run) -> dict[str, ModelSignature | None]:
    """What the saved files tell of the models, by the spec's name for them: copies of one model are alike."""
    catalog: dict[str, ModelSignature | None] = {}
    for member in composition.members:
        if catalog.get(member.model) is None:
            catalog[member.model] = signature_of_file(run.model(member.name))
    return catalog


def _load(member: ir.Member, run: Run) -> keras.Model:
    return load_model(member.name, nodes.PathSource(str(run.model(member.name).absolute())), Path())


def _import_factories(composition: ir.Composition, folder: Path) -> None:
    for name, source in composition.models:
        if isinstance(source, nodes.FactorySource):
            with folder_on_path(folder, source.module):
                try:
                    importlib.import_module(source.module)
                except Exception as error:  # whatever the user's module raises
                    raise ComposerError(
                        f"the module `{source.module}` of the model `{name}` cannot be imported: {describe(error)}"
                    ) from error
