"""Sizes of dense, embedding and normalization layers."""

from __future__ import annotations

from collections.abc import Sequence

from composer.catalog_files.sizes import UNKNOWN, Config, LayerSizes, Rule, Shape, kernel_flops, known, product


def _dense(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    if config.get("lora_rank") or config.get("quantization_config"):
        return UNKNOWN
    (shape, *_), units = inputs, config["units"]
    kernel = known(shape[-1]) * units
    bias = units if config["use_bias"] else 0
    return LayerSizes(((*shape[:-1], units),), kernel + bias, 0, kernel_flops(kernel, product(shape[1:-1])))


def _einsum_dense(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    if config.get("lora_rank") or config.get("quantization_config"):
        return UNKNOWN
    shape = inputs[0]
    terms, out_axes = config["equation"].replace(" ", "").split("->")
    in_axes, kernel_axes = terms.split(",")
    if "..." in in_axes:
        spare = len(shape) - len(in_axes) + 3
        filler = "".join(chr(ord("0") + index) for index in range(spare))  # digits: letters may be taken
        in_axes, out_axes = in_axes.replace("...", filler), out_axes.replace("...", filler)
    sizes: dict[str, int | None] = dict(zip(in_axes, shape, strict=True))
    given = config["output_shape"]
    given = [given] if isinstance(given, int) else list(given)
    for axis, dim in zip(reversed(out_axes), reversed(given), strict=False):
        if dim is not None:
            sizes[axis] = dim
    kernel = product(sizes[axis] for axis in kernel_axes)
    bias = product(sizes[axis] for axis in config["bias_axes"] or "") if config["bias_axes"] else 0
    outputs = (tuple(sizes[axis] for axis in out_axes),)
    if kernel is None or bias is None:
        return LayerSizes(outputs, None, 0, None)
    free = [sizes[axis] for axis in dict.fromkeys(in_axes + out_axes) if axis not in kernel_axes]
    return LayerSizes(outputs, kernel + bias, 0, kernel_flops(kernel, product(free[1:])))


def _embedding(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    if config.get("lora_rank") or config.get("quantization_config"):
        return UNKNOWN
    return LayerSizes(((*inputs[0], config["output_dim"]),), config["input_dim"] * config["output_dim"])


def _batch_norm(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    axis = config["axis"]
    dim = known(inputs[0][axis[0] if isinstance(axis, list) else axis])
    return LayerSizes((inputs[0],), dim * (bool(config["center"]) + bool(config["scale"])), 2 * dim)


def _layer_norm(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    axis = config["axis"]
    dim = product(inputs[0][index] for index in (axis if isinstance(axis, list) else [axis]))
    scales = bool(config.get("scale")) or bool(config.get("rms_scaling"))
    return LayerSizes((inputs[0],), known(dim) * (scales + (bool(config["center"]) and not config.get("rms_scaling"))))


def _group_norm(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    dim = known(inputs[0][config["axis"]])
    return LayerSizes((inputs[0],), dim * (bool(config["center"]) + bool(config["scale"])))


def _rms_norm(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    axis = config["axis"]
    return LayerSizes((inputs[0],), product(inputs[0][index] for index in (axis if isinstance(axis, list) else [axis])))


def _normalization(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    """Mean, variance and the number of rows they were taken from, where they are adapted to data."""
    if config.get("mean") is not None:
        return LayerSizes((inputs[0],))
    axis = config["axis"]
    axes = axis if isinstance(axis, list) else [] if axis is None else [axis]
    dims = known(product(inputs[0][index] for index in axes))
    return LayerSizes((inputs[0],), 0, 2 * dims + 1, wide_bytes=4)  # the count of rows is an int64


def _prelu(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    shared = config.get("shared_axes") or ()
    dims = [1 if axis in shared else dim for axis, dim in enumerate(inputs[0]) if axis > 0]
    return LayerSizes((inputs[0],), product(dims))


RULES: dict[str, Rule] = {
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Embedding": _embedding,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "Normalization": _normalization,
    "RMSNormalization": _rms_norm,
    "PReLU": _prelu,
}
