"""Targets that are None: Keras takes them for outputs that no loss and no metric looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from composer.errors import DataError
from composer.graph.private import compile_settings
from composer.runtime.data import MemberData
from composer.runtime.members import Member

_LOOKING = ("loss", "metrics", "weighted_metrics")


def without_gaps(member: Member, data: MemberData) -> MemberData:
    """The rows with an array in place of each None among targets and sample weights, for the program to step through.

    By name, an output without a target is left out. By position zeros stand in for it, which nothing looks at; ones
    stand in for sample weights, which is what None means.

    Raises:
        DataError: a target is None, and a loss or a metric looks at it.
    """
    if not (_has_gaps(data.y) or _has_gaps(data.sample_weight)):
        return data
    outputs = member.signature.outputs
    settings = compile_settings(member.trainer)
    looking = {tensor.name: _looked_at(settings, place, tensor.name) for place, tensor in enumerate(outputs)}
    named = isinstance(data.y, Mapping)
    targets = data.y.items() if named else zip(looking, data.y, strict=False) if _has_gaps(data.y) else ()
    for name, array in targets:
        if array is None and looking.get(name):
            raise DataError(
                f"the targets of `{member.name}` are None for the output `{name}`, and its {looking[name]} needs them",
                code="MG507",
                member=member.name,
                mend="give targets for it, or compile the model with None for that output",
            )
    shapes = [tuple(size or 1 for size in (tensor.shape or (None, 1))[1:]) for tensor in outputs]
    zeros = [np.zeros((data.num_rows, *shape), keras.config.floatx()) for shape in shapes]
    ones = [np.ones(data.num_rows, keras.config.floatx())] * len(outputs)
    return replace(data, y=_filled(data.y, zeros), sample_weight=_filled(data.sample_weight, ones))


def _has_gaps(structure: Any) -> bool:
    parts = structure.values() if isinstance(structure, Mapping) else structure
    return isinstance(structure, Mapping | list | tuple) and any(part is None for part in parts)


def _filled(structure: Any, arrays: list[Any]) -> Any:
    if not _has_gaps(structure):
        return structure
    if isinstance(structure, Mapping):
        return {name: part for name, part in structure.items() if part is not None}
    filled = [array if part is None else part for part, array in zip(structure, arrays, strict=False)]
    return type(structure)([*filled, *structure[len(filled) :]])


def _looked_at(settings: Mapping[str, Any], place: int, name: str) -> str:
    """What a model was compiled with that looks at an output; empty where nothing does."""
    for key in _LOOKING:
        given = settings.get(key)
        if isinstance(given, Mapping):
            given = given.get(name)
        elif isinstance(given, list | tuple):
            given = given[place] if place < len(given) else None
        if given is not None and given != []:
            return key.replace("_", " ").removesuffix("s") if key != "loss" else key
    return ""
