"""Sizes of layers without weights: activations, noise, reshapes and merges."""

from __future__ import annotations

from collections.abc import Sequence

from composer.catalog_files.sizes import Config, LayerSizes, Rule, Shape, product, total


def _same(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return LayerSizes((inputs[0],))


def _flatten(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return LayerSizes(((inputs[0][0], product(inputs[0][1:])),))


def _reshape(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    target = list(config["target_shape"])
    if -1 in target:
        size, rest = product(inputs[0][1:]), product(dim for dim in target if dim != -1)
        target[target.index(-1)] = None if size is None or not rest else size // rest
    return LayerSizes(((inputs[0][0], *target),))


def _permute(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return LayerSizes(((inputs[0][0], *(inputs[0][axis] for axis in config["dims"])),))


def _repeat(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return LayerSizes(((inputs[0][0], config["n"], inputs[0][1]),))


def _broadcast(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    shape = inputs[0]
    for other in inputs[1:]:
        if len(other) != len(shape):
            return LayerSizes(())
        shape = tuple(b if a == 1 else a if b in (1, None) else b for a, b in zip(shape, other, strict=True))
    return LayerSizes((shape,))


def _concatenate(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    axis = config["axis"] % len(inputs[0])
    joined = total(shape[axis] for shape in inputs)
    return LayerSizes(((*inputs[0][:axis], joined, *inputs[0][axis + 1 :]),))


def _dot(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    first, second = inputs
    axes = config["axes"]
    one, other = axes if isinstance(axes, list) else (axes, axes)
    one, other = one % len(first), other % len(second)
    left = [dim for axis, dim in enumerate(first) if axis != one]
    right = [dim for axis, dim in enumerate(second) if axis not in (0, other)]
    flops = product((*left[1:], *right, first[one]))
    return LayerSizes(((*left, *right) if len(left) + len(right) > 1 else (left[0], 1),), 0, 0, flops and 2 * flops)


_SAME = {
    "Activation", "ActivityRegularization", "AlphaDropout", "Dropout", "ELU", "GaussianDropout", "GaussianNoise",
    "Identity", "LeakyReLU", "Masking", "RandomBrightness", "RandomContrast", "RandomFlip", "RandomRotation",
    "RandomTranslation", "RandomZoom", "ReLU", "Rescaling", "Softmax", "SpatialDropout1D", "SpatialDropout2D",
    "SpatialDropout3D", "UnitNormalization",
}  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), _broadcast),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Permute": _permute,
    "RepeatVector": _repeat,
    "Concatenate": _concatenate,
    "Dot": _dot,
}


def operation(name: str) -> LayerSizes:
    """Sizes of a function of `keras.ops` in a functional model: no weights, and FLOPs that are few or not known."""
    heavy = ("matmul", "einsum", "dot", "conv", "attention", "rnn", "lstm", "gru", "scan", "map", "cond", "while")
    return LayerSizes((), 0, 0, None) if any(word in name.lower() for word in heavy) else LayerSizes(())
