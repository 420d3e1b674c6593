"""The rows that a caller passes, by member: what Keras takes, brought to one form and checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.engine.batch_order import BatchOrder
from composer.errors import DataError
from composer.graph.keyed import last_rows
from composer.graph.private import data_adapter, tensor_of, yields_batches
from composer.runtime.faults import rows_fault
from composer.runtime.members import ByMember


@dataclass(frozen=True)
class MemberData:
    """One member's rows: arrays (`x`, `y`, `sample_weight`, each an array or a structure of arrays), or batches.

    Arrays are NumPy or TensorFlow; floats are of Keras' float type. Whatever yields batches (a `tf.data.Dataset`, a
    `PyDataset`, a generator) comes as a dataset of them and Keras' adapter, which counts them and hears of epochs.
    """

    x: Any = None
    y: Any = None
    sample_weight: Any = None
    dataset: tf.data.Dataset | None = None
    adapter: Any = None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """`(x,)`, `(x, y)` or `(x, y, sample_weight)`, as Keras packs them."""
        if self.sample_weight is not None:
            return (self.x, self.y, self.sample_weight)
        return (self.x,) if self.y is None else (self.x, self.y)

    @property
    def num_rows(self) -> int:
        return int(keras.tree.flatten(self.x)[0].shape[0])


def member_data(
    names: ByMember, x: Any, y: Any = None, sample_weight: Any = None, *, targets: bool = True
) -> dict[str, MemberData]:
    """Sort out the rows of each member.

    Args:
        names: the members.
        x: `{member: rows}`, where rows are `(x, y)`, `(x, y, sample_weight)`, `x` alone or what yields batches; or
            `{member: x}` beside `y` and `sample_weight`, the Keras way. With one member, its rows may stand alone.
        y: targets by member, if they are not in `x`.
        sample_weight: by member, if they are not in `x`.
        targets: whether a tuple is `(x, y, ...)`; in `predict` a tuple is the input itself.

    Raises:
        DataError: for an unknown member or rows of a kind that is not taken.
    """
    x = _lone_member(names, "the data", x)
    names.check_keys("the data", x)
    parts = {}
    for argument, value in (("`y`", y), ("`sample_weight`", sample_weight)):
        value = _lone_member(names, argument, value) if value is not None else {}
        names.check_keys(argument, value)
        parts[argument] = _expand(names, value)
    rows = _expand(names, x)
    for argument, values in parts.items():
        for name in values:
            if name not in rows:
                raise DataError(
                    f"{argument} has values for `{name}`, but there are no rows for it. Add `{name}` to the data"
                )
    return {
        name: _rows(name, value, parts["`y`"].get(name), parts["`sample_weight`"].get(name), targets)
        for name, value in rows.items()
    }


def weighted_by_class(name: str, data: MemberData, class_weight: Mapping[int, float]) -> MemberData:
    """The rows with the weight of each row's class as its sample weight, as Keras' `class_weight` means it.

    Raises:
        DataError: with sample weights besides, or with more than one output.
    """
    if data.dataset is not None:
        return replace(data, dataset=data.dataset.map(lambda *batch: _weigh_batch(name, batch, class_weight)))
    if data.sample_weight is not None or isinstance(data.y, (dict, list, tuple)) or data.y is None:
        raise _class_weight_error(name)
    labels = np.asarray(data.y)
    labels = labels if labels.ndim == 1 else (labels.argmax(-1) if labels.shape[-1] != 1 else labels[..., 0])
    weights = np.ones(len(labels), keras.config.floatx())
    for label, weight in class_weight.items():
        weights[np.round(labels).astype(np.int64) == label] = weight
    return replace(data, sample_weight=weights)


def split_validation(name: str, data: MemberData, fraction: float, keys: Any = None) -> tuple[MemberData, MemberData]:
    """Training rows and the last rows for validation, cut where Keras' `validation_split` cuts.

    Args:
        name: the member's.
        data: its rows.
        fraction: of them, to validate on.
        keys: of each row, where the member has a model for each key: then each key's rows are cut.

    Raises:
        DataError: for a dataset, or if one side would be empty.
    """
    if data.dataset is not None:
        raise DataError(
            f"`validation_split` cuts arrays, but the rows of `{name}` come in batches. Pass `validation_data` for it"
        )
    cut = int(np.floor(data.num_rows * (1.0 - fraction)))
    if not 0 < cut < data.num_rows:
        raise DataError(
            f"`validation_split={fraction}` leaves `{name}`, which has {data.num_rows} rows, with {cut} rows to train "
            f"on and "
            f"{data.num_rows - cut} to validate on. Both need at least one"
        )
    parts = (data.x, data.y, data.sample_weight)
    if keys is not None:
        chosen = last_rows(np.asarray(keys), fraction)
        split = [[None if part is None else _chosen(part, which) for part in parts] for which in (~chosen, chosen)]
        return MemberData(*split[0]), MemberData(*split[1])
    first = [None if part is None else _cut(part, 0, cut) for part in parts]
    last = [None if part is None else _cut(part, cut, data.num_rows) for part in parts]
    return MemberData(*first), MemberData(*last)


def _chosen(part: Any, which: np.ndarray) -> Any:
    return keras.tree.map_structure(lambda leaf: tf.boolean_mask(leaf, which), part)


def _cut(part: Any, start: int, stop: int) -> Any:
    def cut(leaf: Any) -> Any:
        if not isinstance(leaf, tf.SparseTensor):
            return leaf[start:stop]
        inner = leaf.shape.as_list()[1:]
        return tf.sparse.slice(leaf, [start, *(0 for _ in inner)], [stop - start, *inner])

    return keras.tree.map_structure(cut, part)


def _lone_member(names: ByMember, argument: str, value: Any) -> Mapping[str, Any]:
    """The value by member; with a single member it may stand alone."""
    if names.is_by_member(value, plain_dicts=len(names.names) == 1):
        return value
    if len(names.names) == 1 and value is not None:
        return {names.names[0]: value}
    members = ", ".join(f'"{name}": ...' for name in names.names[:3])
    received = "none" if value is None else type(value).__name__
    raise DataError(f"{argument} must be a dict by member, such as {{{members}}}. Received: {received}")


def _expand(names: ByMember, value: Mapping[str, Any]) -> dict[str, Any]:
    """Values by member in the order of the spec; what stands under a branch's name goes to all of its members."""
    spread = names.spread("the data", value) if value else {}
    return {name: item for name, item in spread.items() if item is not None}


def _rows(name: str, value: Any, y: Any, sample_weight: Any, targets: bool) -> MemberData:
    if yields_batches(value):
        if y is not None or sample_weight is not None:
            raise DataError(
                f"`{name}` comes as a {_kind(value)}, which holds its own targets: leave out `y` and `sample_weight` "
                "for it"
            )
        return _batches(name, value)
    if hasattr(value, "__next__") and not hasattr(value, "shape"):
        raise DataError(
            f"the rows of `{name}` are a {type(value).__name__}, which Keras' `fit` does not take. Pass arrays, a "
            "`tf.data.Dataset` or a `keras.utils.PyDataset` of batches, or a generator (a function that yields them, "
            "called)"
        )
    if targets and y is None and isinstance(value, tuple):
        if not 1 <= len(value) <= 3:
            raise DataError(f"`{name}` takes (x, y) or (x, y, sample_weight). Received a tuple of {len(value)}")
        if sample_weight is not None and len(value) == 3:
            raise DataError(f"`{name}` has sample weights twice: in its rows and in `sample_weight`")
        value, y, weights = (*value, None, None)[:3]
        sample_weight = weights if sample_weight is None else sample_weight
    if value is None:
        raise DataError(f"`{name}` has no rows: its x is None")
    return MemberData(_arrays(name, value), *(_arrays(name, part, gaps=True) for part in (y, sample_weight)))


def _batches(name: str, value: Any) -> MemberData:
    """What yields batches, its first ones looked at where it cannot tell their shapes."""
    if isinstance(value, keras.utils.PyDataset):
        value = BatchOrder(value)
        if value.num_batches == 0:
            raise DataError(f"`{name}` has no rows: its PyDataset has no batches")
    try:
        adapter = data_adapter(value)
        dataset = adapter.get_tf_dataset()
    except Exception as error:
        raise rows_fault(name, error) from error
    spec = dataset.element_spec
    if isinstance(spec, tuple) and _is_nothing(spec[-1]):  # `(x, y, None)`, as some generators yield
        kept = max(index for index, part in enumerate(spec) if not _is_nothing(part)) + 1
        dataset = dataset.map(lambda *batch: batch[:kept])
    return MemberData(dataset=dataset, adapter=adapter)


def _is_nothing(spec: Any) -> bool:
    return isinstance(spec, tf.OptionalSpec) or type(spec).__name__ == "NoneTensorSpec"


def _kind(value: Any) -> str:
    return "dataset" if isinstance(value, tf.data.Dataset) else type(value).__name__


def _arrays(name: str, structure: Any, *, gaps: bool = False) -> Any:
    """Arrays of a structure, floats in Keras' float type, as Keras converts them; with `gaps`, None stays."""

    def convert(leaf: Any) -> Any:
        if gaps and leaf is None:
            return None
        leaf = _from_frame(tensor_of(leaf))
        if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) or tf.is_tensor(leaf):
            floats = leaf.dtype.is_floating and leaf.dtype.name != keras.config.floatx()
            return tf.cast(leaf, keras.config.floatx()) if floats else leaf
        try:
            array = np.asarray(leaf)
        except ValueError as error:
            raise DataError(f"`{name}` has rows of unlike lengths, which make no array: {error}") from None
        if array.dtype.kind in "mM":
            raise DataError(f"`{name}` has dates or times ({array.dtype}); numbers or strings are needed")
        if array.dtype == object and not all(isinstance(item, (str, bytes)) for item in array.flat):
            raise DataError(
                f"`{name}` has an array of Python objects ({_object_kind(array)}); numbers or strings are needed. "
                "Are all rows of the same length?"
            )
        floats = np.issubdtype(array.dtype, np.floating) and array.dtype.name != keras.config.floatx()
        return array.astype(keras.config.floatx()) if floats else array

    return _map_arrays(convert, structure)


def _from_frame(leaf: Any) -> Any:
    """The array of a pandas DataFrame, and that of a Series as a column, as Keras takes them."""
    if type(leaf).__module__.partition(".")[0] != "pandas" or not hasattr(leaf, "iloc"):
        return leaf
    if leaf.ndim == 1:
        return leaf.to_numpy()[:, None]
    kinds = {getattr(dtype, "kind", "O") for dtype in leaf.dtypes}
    numbers = "f" in kinds and kinds <= set("biuf")  # else columns of several types would make an array of objects
    return leaf.astype(keras.config.floatx()).to_numpy() if numbers else leaf.to_numpy()


def _map_arrays(convert: Any, structure: Any) -> Any:
    """Apply to every array; a list is a structure only where its items are arrays or None, else it is data itself."""
    if isinstance(structure, Mapping):
        return {key: _map_arrays(convert, item) for key, item in structure.items()}
    if isinstance(structure, (list, tuple)) and structure and all(map(_is_array_or_none, structure)):
        return type(structure)(_map_arrays(convert, item) for item in structure)
    return convert(structure)


def _is_array_or_none(item: Any) -> bool:
    return item is None or hasattr(item, "shape")


def _object_kind(array: np.ndarray) -> str:
    return ", ".join(sorted({type(item).__name__ for item in array.flat}))


def _weigh_batch(name: str, batch: tuple[Any, ...], class_weight: Mapping[int, float]) -> tuple[Any, ...]:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    if sample_weight is not None or isinstance(y, (dict, list, tuple)) or y is None:
        raise _class_weight_error(name)
    if y.shape.rank is not None and y.shape.rank >= 2:
        y_classes = tf.argmax(y, axis=-1) if y.shape[-1] != 1 else tf.squeeze(y, -1)
    else:
        y_classes = y
    y_classes = tf.cast(tf.round(tf.cast(y_classes, tf.float32)), tf.int64)
    table = tf.constant([class_weight.get(label, 1.0) for label in range(max(class_weight) + 1)], keras.config.floatx())
    known = y_classes < table.shape[0]
    weights = tf.where(known, tf.gather(table, tf.where(known, y_classes, 0)), tf.ones_like(y_classes, table.dtype))
    return x, y, weights


def _class_weight_error(name: str) -> DataError:
    return DataError(
        f"`class_weight` of `{name}` needs one array of class labels as its targets and no sample weights besides",
        code="MG512",
        member=name,
        option="class_weight",
        mend="pass `sample_weight` instead: one weight a row",
    )
