"""Walks the layers of a saved model and counts them: `walk_model`.

The config of a functional model holds the shape of every tensor that a layer takes, so each call is judged by itself;
only the shapes of outputs that no other layer takes come from the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from composer.catalog_files import convolution_rules, dense_rules, sequence_rules, shape_rules
from composer.catalog_files.policy import bytes_of, bytes_of_weights, compute_dtype
from composer.catalog_files.sizes import UNKNOWN, LayerSizes, Rule, Shape
from composer.catalog_files.tally import Tally

RULES: dict[str, Rule] = {**dense_rules.RULES, **convolution_rules.RULES, **sequence_rules.RULES, **shape_rules.RULES}
"""Class name of a Keras layer -> its rule."""

Entry = dict[str, Any]
_History = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class End:
    """One input or output of a model."""

    name: str
    shape: Shape | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The inputs and outputs of a model, in flat order and under its own names."""

    inputs: tuple[End, ...]
    outputs: tuple[End, ...]


def is_model(entry: Entry) -> bool:
    """Whether a config is that of a functional or Sequential model of Keras' own."""
    return entry.get("class_name") in ("Functional", "Model", "Sequential") and _is_keras(entry)


def walk_model(entry: Entry, inputs: Sequence[Shape] | None, trainable: bool, tally: Tally) -> Ends | None:
    """Counts all layers of a model, as called once.

    Args:
        entry: the model's config.
        inputs: the shapes it is called on, where it is a part of another model.
        trainable: whether the model around it is trainable.
        tally: takes the counts.

    Returns:
        Its ends, or None for a Sequential that was never built.
    """
    config = entry["config"]
    trainable = trainable and config.get("trainable", True)
    if entry["class_name"] == "Sequential":
        return _walk_sequential(entry, inputs, trainable, tally)
    return _walk_functional(config, trainable, tally)


def _walk_sequential(entry: Entry, inputs: Sequence[Shape] | None, trainable: bool, tally: Tally) -> Ends | None:
    layers = entry["config"]["layers"]
    start = _sequential_start(entry, layers, inputs)
    if start is None:
        return None
    tally.add_call(0, [start.shape], bytes_of(start.dtype))
    shape, last = start.shape, entry
    for layer in layers:
        if layer["class_name"] == "InputLayer":
            continue
        if shape is None:
            shape = _shape((layer.get("build_config") or {}).get("input_shape"))
        outputs = _call(layer, [shape], trainable, tally, {})
        shape, last = (outputs[0] if outputs else None), layer
    return Ends((start,), (End(last["config"]["name"], shape, _output_dtype(last, start.dtype)),))


def _sequential_start(entry: Entry, layers: list[Entry], inputs: Sequence[Shape] | None) -> End | None:
    head = layers[0] if layers and layers[0]["class_name"] == "InputLayer" else None
    name = head["config"]["name"] if head is not None else "input"
    dtype = head["config"]["dtype"] if head is not None else compute_dtype(entry["config"])
    built = head["config"]["batch_shape"] if head is not None else entry["config"].get("build_input_shape")
    shape = inputs[0] if inputs else _shape(built)
    return None if shape is None else End(name, shape, dtype)


def _walk_functional(config: dict[str, Any], trainable: bool, tally: Tally) -> Ends:
    layers: dict[str, Entry] = {layer["name"]: layer for layer in config["layers"]}
    recorded = {history: shape for layer in layers.values() for history, shape in _recorded(layer)}
    seen: dict[tuple[str, int], dict[int, Shape]] = {}
    for (name, index, place), shape in recorded.items():
        seen.setdefault((name, index), {})[place] = shape
    made: dict[_History, Shape | None] = {}
    for name, layer in layers.items():
        if layer["class_name"] == "InputLayer":
            made[name, 0, 0] = _shape(layer["config"]["batch_shape"])
            tally.add_call(0, [made[name, 0, 0]], bytes_of(layer["config"]["dtype"]))
        for index, node in enumerate(layer["inbound_nodes"]):
            taken: list[Shape | None] = [shape for _, shape in _tensors_of(node)]
            for place, output in enumerate(_call(layer, taken, trainable, tally, seen.get((name, index), {}))):
                made[name, index, place] = output
    shapes = {**made, **recorded}
    ends = []
    for structure in (config["input_layers"], config["output_layers"]):
        named = _named(structure)
        ends.append(tuple(End(key, shapes.get(at), _output_dtype(layers[at[0]], "float32")) for key, at in named))
    return Ends(ends[0], ends[1])


def _call(
    entry: Entry, inputs: Sequence[Shape | None], trainable: bool, tally: Tally, seen: dict[int, Shape]
) -> list[Shape | None]:
    """Counts one call of a layer, of a model or of a wrapped layer.

    Args:
        entry: its config.
        inputs: the shapes it is called on.
        trainable: whether the model around it is trainable.
        tally: takes the counts.
        seen: the shapes of those outputs that other layers take, by position.

    Returns:
        The shapes of its outputs, as far as they are known.
    """
    config = entry["config"]
    known = [shape for shape in inputs if shape is not None]
    complete = len(known) == len(inputs) and bool(inputs)
    shared = (
        "shared_object_id" in entry
    )  # with a layer elsewhere, which may not carry the number: weights cannot be told
    if is_model(entry):
        ends = walk_model(entry, known if complete else None, trainable, tally)
        if shared:
            tally.add_weights(id(entry), UNKNOWN, trainable, None)
        if ends is not None:
            return [end.shape for end in ends.outputs]
    elif entry["class_name"] in _WRAPPERS and _is_keras(entry) and complete:
        return _WRAPPERS[entry["class_name"]](entry, known, trainable and config.get("trainable", True), tally)
    tally.add_traits(entry["class_name"], config)
    sizes = _sizes(entry, known) if complete else UNKNOWN
    weights = UNKNOWN if shared and (sizes.trainable or sizes.fixed) else sizes
    tally.add_weights(id(entry), weights, trainable and config.get("trainable", True), bytes_of_weights(config))
    outputs = _merge(sizes.outputs, seen)
    tally.add_call(sizes.flops, outputs, bytes_of(compute_dtype(config)))
    return outputs


def _merge(told: Sequence[Shape], seen: dict[int, Shape]) -> list[Shape | None]:
    """The outputs' shapes: what the config recorded wins over what the rule tells."""
    count = max([len(told), *(place + 1 for place in seen)])
    return [seen.get(place, told[place] if place < len(told) else None) for place in range(count)]


def _sizes(entry: Entry, inputs: list[Shape]) -> LayerSizes:
    name = entry["class_name"]
    if str(entry.get("module", "")).startswith("keras.src.ops"):
        return shape_rules.operation(name)
    rule = RULES.get(name)
    if rule is None or not _is_keras(entry):
        return UNKNOWN
    try:
        return rule(entry["config"], inputs)
    except (KeyError, IndexError, TypeError, ValueError):
        return UNKNOWN  # written by another version of Keras, with other entries


def _time_distributed(entry: Entry, inputs: list[Shape], trainable: bool, tally: Tally) -> list[Shape | None]:
    batch, steps, *rest = inputs[0]
    part = Tally()
    outputs = _call(entry["config"]["layer"], [(batch, *rest)], trainable, part, {})
    tally.add_repeated(part, steps)
    return [None if shape is None else (shape[0], steps, *shape[1:]) for shape in outputs]


def _bidirectional(entry: Entry, inputs: list[Shape], trainable: bool, tally: Tally) -> list[Shape | None]:
    config = entry["config"]
    forward, backward = config["layer"], config.get("backward_layer") or config["layer"]
    parts = [Tally(), Tally()]
    ahead, back = (
        _call(layer, list(inputs[:1]), trainable, part, {})
        for layer, part in zip((forward, backward), parts, strict=True)
    )
    if backward is forward:  # one config stands for both directions: traits are told once
        parts[1].stateful, parts[1].row_losses = [], []
    for part in parts:
        tally.add_repeated(part, 1)
    first, second = (outputs[0] if outputs else None for outputs in (ahead, back))
    mode = config["merge_mode"]
    states = [*ahead[1:], *back[1:]]
    if mode is None:
        return [first, second, *states]
    if (
        mode == "concat"
        and first is not None
        and second is not None
        and first[-1] is not None
        and second[-1] is not None
    ):
        return [(*first[:-1], first[-1] + second[-1]), *states]
    return [first, *states]


_WRAPPERS = {"TimeDistributed": _time_distributed, "Bidirectional": _bidirectional}


def _is_keras(entry: Entry) -> bool:
    """Whether a class is Keras' own: registered classes of users may have any name."""
    return str(entry.get("module", "")).split(".")[0] == "keras"


def _output_dtype(entry: Entry, default: str) -> str:
    config = entry["config"]
    if entry["class_name"] == "InputLayer":
        return str(config["dtype"])
    if is_model(entry):
        layers = config["layers"]
        return _output_dtype(layers[-1], default) if layers else default
    return compute_dtype(config) if "dtype" in config else default


def _recorded(layer: Entry) -> Iterator[tuple[_History, Shape]]:
    for node in layer["inbound_nodes"]:
        yield from _tensors_of(node)


def _tensors_of(node: Any) -> Iterator[tuple[_History, Shape]]:
    """The tensors that a call takes, positional ones first, each with its origin and shape."""
    if isinstance(node, dict):
        if node.get("class_name") == "__keras_tensor__":
            name, index, place = node["config"]["keras_history"]
            yield (name, index, place), tuple(node["config"]["shape"])
            return
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from _tensors_of(item)


def _named(structure: Any) -> list[tuple[str, _History]]:
    """The ends of a functional model in flat order with their names: those of the layers they come from, or under a
    dict the keys and positions on the way, joined by underscores."""
    if isinstance(structure, dict):
        return list(_by_path(structure, ()))
    return [(history[0], history) for _, history in _by_path(structure, ())]


def _by_path(structure: Any, path: tuple[str, ...]) -> Iterator[tuple[str, _History]]:
    if _is_history(structure):
        yield "_".join(path), (structure[0], structure[1], structure[2])
    elif isinstance(structure, dict):
        for key in sorted(structure):
            yield from _by_path(structure[key], (*path, key))
    else:
        for position, item in enumerate(structure):
            yield from _by_path(item, (*path, str(position)))


def _is_history(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3 and isinstance(item[0], str) and isinstance(item[1], int)


def _shape(value: Any) -> Shape | None:
    """A shape as configs hold it; None for anything else."""
    if isinstance(value, list) and all(dim is None or isinstance(dim, int) for dim in value):
        return tuple(value)
    return None
