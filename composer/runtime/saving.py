"""A joint model as a `.keras` file: the spec, and each model with its own settings and optimizer state.

The graph is not stored: it follows from the spec and the models, so a file can be loaded for other devices or with
    other
replica counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from composer.errors import ComposerError
from composer.runtime.planning import plan_for
from composer.runtime.programs import build_optimizer
from composer.source import SourceText

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel

spec_override: ContextVar[str | None] = ContextVar("spec_override", default=None)
"""The spec to load a file under, instead of its own."""


def config_of(joint: ComposedModel) -> dict[str, Any]:
    """What a `.keras` file holds of a joint model: each distinct model once."""
    models: list[keras.Model] = []
    members: dict[str, int] = {}
    for name, member in joint.members.items():
        index = next((i for i, model in enumerate(models) if model is member.model), len(models))
        if index == len(models):
            models.append(member.model)
        members[name] = index
        # Keras builds optimizers when it loads, and then misses the slots of one that was saved unbuilt.
        build_optimizer(member.unit)
    return {
        "name": joint.name,
        "spec": joint.spec_text,
        "graph": joint.plan.composition.name,
        "members": members,
        "member_models": {name: member.plan.member.model for name, member in joint.members.items()},
        "models": [keras.saving.serialize_keras_object(model) for model in models],
    }


def model_from_config(cls: type[ComposedModel], config: Mapping[str, Any]) -> ComposedModel:
    """Build the joint model again around the models of a file.

    Raises:
        ComposerError: if the spec to load under names other members than the file holds.
    """
    spec_text = spec_override.get() or config["spec"]
    models = [keras.saving.deserialize_keras_object(model) for model in config["models"]]
    there = {name: models[index] for name, index in config["members"].items()}
    by_model_name = {config["member_models"][name]: model for name, model in there.items()}
    plan = plan_for(SourceText(spec_text), by_model_name, graph=config["graph"])
    wanted = [placed.member.name for placed in plan.members]
    missing = [name for name in wanted if name not in there]
    if missing:
        raise ComposerError(
            f"the file holds no member {', '.join(f'`{name}`' for name in missing)}; it has "
            f"{', '.join(f'`{name}`' for name in there)}"
        )
    return cls(plan, {name: there[name] for name in wanted}, spec_text=spec_text, name=config["name"])


def load_joint(path: Path, spec_text: str | None, custom_objects: Mapping[str, Any] | None) -> ComposedModel:
    """Load a joint model in safe mode. See `composer.load`."""
    from composer.runtime.composed_model import ComposedModel  # registers the class that the file names

    if not path.is_file():
        raise ComposerError(f"there is no file {path}. A joint model is saved with `joint.save({path.name!r})`")
    token = spec_override.set(spec_text)
    try:
        joint = keras.saving.load_model(path, custom_objects=custom_objects, safe_mode=True)
    except ComposerError:
        raise
    except Exception as error:  # Keras raises whatever a damaged file makes it stumble over
        raise ComposerError(f"{path} cannot be loaded: {error}") from error
    finally:
        spec_override.reset(token)
    if not isinstance(joint, ComposedModel):
        raise ComposerError(
            f"{path} holds a {type(joint).__name__}, not a joint model. Load it with `keras.saving.load_model`"
        )
    return joint
