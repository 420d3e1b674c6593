"""A joint model as a `.keras` file: the spec, and each model with its own settings and optimizer state.

Keras stores weights in the order of the graph's layers, which follows from the spec, the models and the devices planned
for. So a file is always read into the graph it was saved from, whatever this machine has, and its models are then
composed
anew for this machine: with its devices, and under another spec where one is given.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from composer.compiler.ir import Device
from composer.compiler.plan import DeviceTopology
from composer.errors import ComposerError, DeviceError
from composer.graph import devices, layer_sharing
from composer.graph.private import compile_settings
from composer.graph.views import ModelView
from composer.runtime.members import Member
from composer.runtime.planning import plan_for
from composer.runtime.programs import build_optimizers
from composer.runtime.sharing import groups_of
from composer.source import SourceText

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel

_KEYS = ("name", "spec", "graph", "topology", "members", "models")
"""What `config_of` writes."""

_for_other_devices: ContextVar[bool] = ContextVar("_for_other_devices", default=False)
"""Whether a file is being read to compose its models anew, so that the devices it was saved for need not be there."""


class SavedByConfig(keras.Model):
    """A joint model as Keras saves and loads it: the configuration tells all of it but the weights."""

    def get_config(self) -> dict[str, Any]:
        return config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return model_from_config(cls, config)

    def get_build_config(self) -> dict[str, Any]:
        return {}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Nothing to do: the constructor builds the whole graph."""

    def get_compile_config(self) -> dict[str, Any]:
        return {}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Nothing to do: each member's model carries its own settings."""


def config_of(joint: ComposedModel) -> dict[str, Any]:
    """What a `.keras` file holds of a joint model: each distinct model once, and all that its graph follows from."""
    models: list[keras.Model] = []
    members: dict[str, dict[str, Any]] = {}
    for name, member in joint.members.items():
        index = next((i for i, model in enumerate(models) if model is member.model), len(models))
        if index == len(models):
            models.append(member.model)
        home = member.plan.devices[0]
        members[name] = {"model": index, "model_name": member.plan.member.model, "home": [home.kind, home.index]}
    # Keras builds optimizers when it loads, and then misses the slots of one that was saved unbuilt.
    build_optimizers([member.unit for member in joint.members.values()])
    return {
        "name": joint.name,
        "spec": joint.spec_text,
        "graph": joint.plan.composition.name,
        "topology": asdict(joint.plan.topology),
        "members": members,
        **layer_sharing.config_of(models),
        "settings": {
            name: _serialized_settings(member.trainer)
            for name, member in joint.members.items()
            if member.trainer is not member.model and member.trainer.compiled
        },
        "one_optimizer": [
            [member.name for member in group]
            for group in groups_of(joint.members)
            if all(_has_optimizer(member, of=group[0]) for member in group)
        ],
    }


def _serialized_settings(view: keras.Model) -> dict[str, Any]:
    """What a member that shares its model was compiled with; the optimizer is the model's."""
    settings = {key: value for key, value in compile_settings(view).items() if key != "optimizer"}
    serialized: dict[str, Any] = keras.saving.serialize_keras_object(settings)
    return serialized


def place_to_save(filepath: str | Path, *, overwrite: bool, zipped: bool | None) -> Path:
    """The file that a joint model is saved to.

    Raises:
        ComposerError: it is of another kind than `composer.load` reads, or there already and not to be replaced.
    """
    path = Path(filepath)
    if path.suffix != ".keras":
        raise ComposerError(f"a joint model is saved as a `.keras` file. Received: {filepath}")
    if zipped is not None and not zipped:
        raise ComposerError(f"a joint model is saved as one file: leave `zipped` out. Received: zipped={zipped}")
    if path.exists() and not overwrite:
        raise ComposerError(f"{path} exists already. Save to another file, or leave `overwrite=False` out")
    return path


def model_from_config(cls: type[ComposedModel], config: Mapping[str, Any]) -> ComposedModel:
    """Build the graph of a file as it was saved, for Keras to load weights into.

    Raises:
        DeviceError: if it was planned for devices that are not there.
    """
    lacking = [key for key in _KEYS if key not in config]
    if lacking:
        raise ComposerError(
            f"its configuration lacks {_quoted(lacking)}. Expected a file that `joint.save` of this version of "
            "composer wrote"
        )
    saved, here = DeviceTopology(**config["topology"]), devices.topology()
    if not _for_other_devices.get() and (saved.gpus > here.gpus or saved.cpus > here.cpus):
        raise DeviceError(
            f"the file was saved on {saved.gpus} GPUs and {saved.cpus} CPU devices; here are {here.gpus} and "
            f"{here.cpus}. "
            "`composer.load` plans it for the devices that are there"
        )
    models = _models(config, here)
    members = {name: models[member["model"]] for name, member in config["members"].items()}
    by_model_name = {member["model_name"]: models[member["model"]] for member in config["members"].values()}
    plan = plan_for(SourceText(config["spec"]), by_model_name, graph=config["graph"], topology=saved)
    joint = cls(plan, members, spec_text=config["spec"], name=config["name"])
    for name, settings in config["settings"].items():
        member = joint.members[name]
        said = keras.saving.deserialize_keras_object(settings)
        member.trainer.compile(**said, optimizer=member.model.optimizer, auto_scale_loss=False)
        member.trainer.keep()
    for names in config["one_optimizer"]:
        _give_one_optimizer([joint.members[name] for name in names])
    return joint


def _has_optimizer(member: Member, of: Member) -> bool:
    return member.model.compiled and of.model.compiled and member.model.optimizer is of.model.optimizer


def _give_one_optimizer(group: list[Member]) -> None:
    """Keras has made an optimizer for each model of a group that shares weights, with slots for its own weights only;
    one, made anew for the weights of all, takes their place before the state is read."""
    if all(member.model is group[0].model for member in group):
        return
    optimizer = layer_sharing.fresh_optimizer(group[0].trainer)
    for member in group:
        for model in {id(model): model for model in (member.model, member.trainer)}.values():
            model.compile(**{**compile_settings(model), "optimizer": optimizer}, auto_scale_loss=False)
            if isinstance(model, ModelView):
                model.keep()
    build_optimizers([member.unit for member in group])


def load_joint(path: Path, spec: SourceText | None, custom_objects: Mapping[str, Any] | None) -> ComposedModel:
    """Load a joint model in safe mode and compose it for this machine. See `composer.load`."""
    saved = _read(path, custom_objects)
    by_model_name = {member.plan.member.model: member.model for member in saved.members.values()}
    graph = saved.plan.composition.name if spec is None else None
    spec = spec or SourceText(saved.spec_text)
    plan = plan_for(spec, by_model_name, graph=graph)
    wanted = [placed.member.name for placed in plan.members]
    missing = [name for name in wanted if name not in saved.members]
    if missing:
        raise ComposerError(
            f"{path} holds no member {_quoted(missing)}. It holds {_quoted(saved.members)}; a spec to load it under "
            f"may leave "
            "members out and change replicas and devices, not add members"
        )
    for placed in plan.members:
        name, model = placed.member.name, placed.member.model
        was = saved.members[name].plan.member.model
        if was != model:
            raise ComposerError(
                f"{path} holds `{name}` as the model `{was}`; the spec makes it `{model}`. A member keeps its own "
                f"weights: write `{was if was == name else f'{was} as {name}'}`"
            )
    models = {name: saved.members[name].model for name in wanted}
    joint = type(saved)(plan, models, spec_text=spec.text, name=saved.name)
    for name, member in joint.members.items():
        view = saved.members[name].trainer
        if isinstance(view, ModelView) and view.compiled:
            member.trainer.compile(**compile_settings(view), auto_scale_loss=False)
            if isinstance(member.trainer, ModelView):
                member.trainer.keep()
    return joint


def _models(config: Mapping[str, Any], here: DeviceTopology) -> list[keras.Model]:
    """The models of a file, each made where its first member ran, if that device is there."""
    homes: dict[int, Device] = {}
    for member in config["members"].values():
        homes.setdefault(member["model"], Device(*member["home"]))

    def scope(index: int) -> Any:
        home = homes[index]
        there = home.index < (here.gpus if home.kind == "gpu" else here.cpus)
        return tf.device(devices.tensorflow_name(home, here) if there else None)

    return layer_sharing.models_from_config(config, scope)


def _read(path: Path, custom_objects: Mapping[str, Any] | None) -> ComposedModel:
    from composer.runtime.composed_model import ComposedModel  # registers the class that the file names

    if not path.is_file():
        raise ComposerError(f"there is no file {path}. A joint model is saved with `joint.save({path.name!r})`")
    _check_class(path, ComposedModel.__name__)
    with _reading_for_other_devices():
        try:
            joint = keras.saving.load_model(path, custom_objects=custom_objects, safe_mode=True)
        except DeviceError:
            raise
        except Exception as error:  # Keras raises whatever a damaged file makes it stumble over
            raise ComposerError(f"{path} cannot be loaded: {_told(error)}") from error
    assert isinstance(joint, ComposedModel)
    return joint


def _check_class(path: Path, expected: str) -> None:
    """Refuse a file of another class before Keras builds what is in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = str(json.loads(archive.read("config.json"))["class_name"])
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise ComposerError(
            f"{path} cannot be loaded: it is damaged, or no `.keras` file ({_told(error)}). Expected a file that "
            "`joint.save` wrote"
        ) from error
    if held != expected:
        raise ComposerError(f"{path} holds a {held}, not a joint model. Load it with `keras.saving.load_model`")


def _told(error: Exception) -> str:
    """What an exception says, without the configuration that Keras quotes whole; a bare key says nothing."""
    text = str(error).partition("Full object config:")[0].strip()
    return f"its configuration is not what `joint.save` writes ({error!r})" if isinstance(error, KeyError) else text


@contextmanager
def _reading_for_other_devices() -> Iterator[None]:
    token = _for_other_devices.set(True)
    try:
        yield
    finally:
        _for_other_devices.reset(token)


def _quoted(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
