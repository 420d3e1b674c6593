"""Members with a model for each key (`per=`): their rows, and the passes that train and evaluate them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np

from composer.engine.bundle_program import BundleProgram, Kind, Purpose
from composer.engine.feed import ArrayRows, Rows
from composer.engine.keyed import KeyedPass, KeyedRows, KeyedState, keyed_predictions, rows_by_key
from composer.engine.units import Unit
from composer.errors import DataError, GraphError
from composer.graph.keyed import KeyedModel, template_inputs
from composer.graph.private import compile_settings, yields_batches
from composer.runtime.bundle_form import cheapest_form
from composer.runtime.data import MemberData
from composer.runtime.likeness import rows_key, why_alone
from composer.runtime.members import ByMember, Member
from composer.runtime.metric_states import build_metrics
from composer.runtime.programs import compiled_as


def with_keys(members: Mapping[str, Member], names: ByMember, x: Any) -> Any:
    """The data of a call, the inputs of members with keys brought to `{column: keys, input: rows}`.

    They may come as a data frame with the column among the others, or as a dict; of a model with one input that may
    have any name.
    """
    keyed = {name: member.model for name, member in members.items() if isinstance(member.model, KeyedModel)}
    if not keyed or x is None:
        return x
    if not names.is_by_member(x, plain_dicts=len(names.names) == 1):
        return _rows_with_keys(*next(iter(keyed.items())), x) if len(names.names) == 1 else x
    return {name: _rows_with_keys(name, keyed[name], rows) if name in keyed else rows for name, rows in x.items()}


def keys_of(member: Member, data: MemberData) -> Any:
    """The keys of a member's rows; None where it is one model, or they come in batches."""
    if not isinstance(member.model, KeyedModel) or data.dataset is not None:
        return None
    return data.x[member.model.layer.column]


def _rows_with_keys(name: str, model: KeyedModel, rows: Any) -> Any:
    if yields_batches(rows):
        return rows  # which is refused later, as other rows that do not fit
    if isinstance(rows, tuple):
        return (_inputs(name, model, rows[0]), *rows[1:])
    return _inputs(name, model, rows)


def _inputs(name: str, model: KeyedModel, inputs: Any) -> dict[str, Any]:
    column = model.layer.column
    wanted = [each.name for each in model.inputs if each.name != column]
    if hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
        if column not in inputs.columns:
            raise _lacks(name, column, f"a data frame with the columns {', '.join(map(str, inputs.columns))}")
        others = inputs.drop(columns=[column])
        parts = others if len(wanted) > 1 else {wanted[0]: others.to_numpy(keras.config.floatx())}
    elif isinstance(inputs, Mapping):
        if column not in inputs:
            raise _lacks(name, column, f"a dict of {', '.join(map(str, inputs))}")
        parts = {key: value for key, value in inputs.items() if key != column}
        if len(wanted) == len(parts) == 1:
            parts = {wanted[0]: next(iter(parts.values()))}
    else:
        raise _lacks(name, column, f"a {type(inputs).__name__}")
    return {column: _as_text(name, column, inputs[column]), **{key: parts[key] for key in parts}}


def _lacks(name: str, column: str, received: str) -> DataError:
    return DataError(
        f"`{name}` has a model for each `{column}`, so its inputs are a dict or a data frame with `{column}` beside "
        f'them: `{{"{column}": keys, "x": rows}}`. Received: {received}',
        code="MG506",
        member=name,
    )


def _as_text(name: str, column: str, keys: Any) -> np.ndarray:
    found = np.asarray(keys)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    whole = found.dtype.kind == "f" and bool(np.all(found == np.floor(found)))
    if found.ndim != 1 or (found.dtype.kind not in "iuUSO" and not whole):
        raise DataError(
            f"the keys of `{name}` (`{column}`) are to be strings or whole numbers, one a row. Received: an array of "
            f"{found.dtype} of shape {found.shape}",
            code="MG506",
            member=name,
        )
    if whole:
        found = found.astype(np.int64)
    return found.astype(str).astype(object)


def keyed_training(unit: Unit, training: Rows, validation: Rows | None, jit: str) -> tuple[KeyedPass, KeyedPass | None]:
    """The passes of a member with keys; those of its first training make its keys.

    Raises:
        DataError: if its rows are no arrays, or have keys that are not known.
        GraphError: if its model cannot be batched.
    """
    model, rows = _keyed(unit), _arrays(unit, training)
    if not model.keys:
        model.layer.learn(sorted(set(rows.keys.tolist()), key=_natural))
    program = _program(unit, model, rows, jit, "train")
    state = KeyedState(unit.name, model, program, goes_on=_KEPT[model].goes_on)
    _KEPT[model].goes_on = True
    steps = KeyedPass(Kind("train", rows.batch_size), state, rows_by_key(model, program, rows))
    if validation is None:
        return steps, None
    evaluated = _arrays(unit, validation)
    return steps, KeyedPass(Kind("test", evaluated.batch_size), state, rows_by_key(model, program, evaluated))


def keyed_evaluation(unit: Unit, rows: Rows, jit: str) -> KeyedPass:
    """The pass that evaluates a member with keys."""
    model, arrays = _known(unit), _arrays(unit, rows)
    program = _program(unit, model, arrays, jit, "test")
    state = KeyedState(unit.name, model, program)
    return KeyedPass(Kind("test", arrays.batch_size), state, rows_by_key(model, program, arrays))


def keyed_outputs(unit: Unit, rows: Rows, jit: str) -> Any:
    """The predictions of a member with keys, in the order of its rows."""
    model, arrays = _known(unit), _arrays(unit, rows)
    program = _program(unit, model, arrays, jit, "predict")
    return keyed_predictions(KeyedState(unit.name, model, program), arrays)


def _keyed(unit: Unit) -> KeyedModel:
    assert isinstance(unit.model, KeyedModel)
    return unit.model


def _known(unit: Unit) -> KeyedModel:
    model = _keyed(unit)
    if not model.keys:
        raise GraphError(
            f"`{unit.name}` knows no key of `{model.layer.column}` yet: it learns them from the rows of `fit`"
        )
    return model


def _arrays(unit: Unit, rows: Rows) -> KeyedRows:
    if not isinstance(rows, KeyedRows):
        raise DataError(
            f"`{unit.name}` has a model for each key, which takes arrays: they are sorted by key, and an epoch is all "
            "of them. Leave out `steps_per_epoch` and `steps`, and pass no datasets",
            code="MG506",
            member=unit.name,
        )
    return rows


@dataclass
class _Kept:
    """What is kept of a model from call to call.

    Args:
        compiled: what it was compiled with; a new `compile` lets go of the rest.
        programs: by purpose and the like.
        goes_on: whether a next training goes on with the optimizers as they are: after one, or of a model that was
            loaded.
    """

    compiled: list[Any]
    programs: dict[Any, BundleProgram] = field(default_factory=dict)
    goes_on: bool = False


_KEPT: WeakKeyDictionary[KeyedModel, _Kept] = WeakKeyDictionary()


def keyed_rows(model: KeyedModel, rows: ArrayRows) -> KeyedRows:
    """Rows in memory, with the keys of `{column: keys, ...}`."""
    keys = rows.arrays[0][model.layer.column].numpy().astype(bytes)
    return KeyedRows(**vars(rows), keys=np.char.decode(keys))


def _program(unit: Unit, model: KeyedModel, rows: ArrayRows, jit: str, purpose: Purpose) -> BundleProgram:
    """The program of all keys."""
    template = model.layer.template
    inputs = template_inputs(template, rows.arrays[0])
    given = ArrayRows((inputs, *rows.arrays[1:]), rows.num_rows, rows.batch_size)
    own = replace(unit, model=template)
    now = compiled_as([model])
    if model not in _KEPT or _KEPT[model].compiled != now:
        _KEPT[model] = _Kept(now, goes_on=model not in _KEPT)
        if model.compiled:
            template.compile(**_settings(unit.name, model))
            template.optimizer.build(template.trainable_variables)
    if purpose != "predict":
        build_metrics([own], {unit.name: given})
    reason = why_alone(own, given, Counter(), purpose)
    if reason is not None:
        raise GraphError(f"`{unit.name}` cannot have a model for each `{model.layer.column}`: {reason}")
    form = cheapest_form(own, given, jit, purpose)
    programs, key = _KEPT[model].programs, (purpose, form.jit, rows_key(given))
    if key not in programs:
        units = [Unit(each, template, unit.devices, unit.merge) for each in model.keys]
        programs[key] = BundleProgram(units, jit=form.jit, trains=purpose == "train")
    return programs[key]


def _settings(name: str, model: KeyedModel) -> dict[str, Any]:
    settings = compile_settings(model)
    optimizer = settings["optimizer"]
    if optimizer.use_ema:
        raise GraphError(f"`{name}` has a model for each key, which `use_ema` does not work with")
    return {**settings, "optimizer": type(optimizer).from_config(optimizer.get_config()), "auto_scale_loss": False}


def _natural(key: str) -> tuple[int, int, str]:
    """Whole numbers in their order, then the rest in theirs."""
    return (0, int(key), "") if key.removeprefix("-").isdecimal() else (1, 0, key)
