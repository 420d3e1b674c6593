"""Sizes of convolutions and of pooling, padding, cropping and upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from composer.catalog_files.sizes import UNKNOWN, Config, LayerSizes, Rule, Shape, kernel_flops, known, product


def _conv(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    if config.get("lora_rank") or config.get("quantization_config"):
        return UNKNOWN
    space, channels = _split(config, inputs[0])
    kernel = known(product(config["kernel_size"])) * (channels // config["groups"]) * config["filters"]
    return _convolved(config, inputs[0], _slid(config, space, config["kernel_size"]), config["filters"], kernel)


def _transposed(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    kernel = known(product(config["kernel_size"])) * channels * config["filters"]
    padding = config.get("output_padding")
    outside = padding if isinstance(padding, list) else [padding] * len(space)
    sides = zip(space, config["kernel_size"], config["strides"], config["dilation_rate"], outside, strict=True)
    out = [_transposed_side(config["padding"], *side) for side in sides]
    return _convolved(config, inputs[0], out, config["filters"], kernel)


def _transposed_side(
    padding: str, length: int | None, kernel: int, stride: int, dilation: int, outside: int | None
) -> int | None:
    if length is None:
        return None
    kernel = kernel + (kernel - 1) * (dilation - 1)
    if outside is None:
        return length * stride + (max(kernel - stride, 0) if padding == "valid" else 0)
    return (length - 1) * stride + kernel - (0 if padding == "valid" else 2 * (kernel // 2)) + outside


def _depthwise(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    filters = channels * config["depth_multiplier"]
    kernel = known(product(config["kernel_size"])) * filters
    return _convolved(config, inputs[0], _slid(config, space, config["kernel_size"]), filters, kernel)


def _separable(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    inner = channels * config["depth_multiplier"]
    kernel = known(product(config["kernel_size"])) * inner + inner * config["filters"]
    return _convolved(config, inputs[0], _slid(config, space, config["kernel_size"]), config["filters"], kernel)


def _convolved(config: Config, shape: Shape, space: Sequence[int | None], filters: int, kernel: int) -> LayerSizes:
    bias = filters if config["use_bias"] else 0
    outputs = (_join(config, shape, space, filters),)
    return LayerSizes(outputs, kernel + bias, 0, kernel_flops(kernel, product(space)))


def _pooled(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    return LayerSizes((_join(config, inputs[0], _slid(config, space, config["pool_size"]), channels),))


def _global_pooled(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    if config.get("keepdims"):
        return LayerSizes((_join(config, inputs[0], [1] * len(space), channels),))
    return LayerSizes(((inputs[0][0], channels),))


def _padded(config: Config, inputs: Sequence[Shape], sign: int = 1) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    amounts = config["padding" if sign > 0 else "cropping"]
    pairs = [pair if isinstance(pair, list) else [pair, pair] for pair in _as_list(amounts, len(space))]
    out = [None if dim is None else dim + sign * sum(pair) for dim, pair in zip(space, pairs, strict=True)]
    return LayerSizes((_join(config, inputs[0], out, channels),))


def _as_list(amounts: object, rank: int) -> list[object]:
    if not isinstance(amounts, list):
        return [amounts] * rank
    return [amounts] if rank == 1 and amounts and not isinstance(amounts[0], list) else amounts


def _upsampled(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    space, channels = _split(config, inputs[0])
    size = config["size"]
    factors = size if isinstance(size, list) else [size] * len(space)
    out = [None if dim is None else dim * factor for dim, factor in zip(space, factors, strict=True)]
    return LayerSizes((_join(config, inputs[0], out, channels),))


def _resized(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    _, channels = _split(config, inputs[0])
    return LayerSizes((_join(config, inputs[0], [config["height"], config["width"]], channels),))


def _first(config: Config) -> bool:
    return config.get("data_format") == "channels_first"


def _split(config: Config, shape: Shape) -> tuple[Shape, int]:
    """Inner sides and channels of a shape."""
    return (shape[2:], known(shape[1])) if _first(config) else (shape[1:-1], known(shape[-1]))


def _join(config: Config, shape: Shape, space: Sequence[int | None], channels: int) -> Shape:
    return (shape[0], channels, *space) if _first(config) else (shape[0], *space, channels)


def _slid(config: Config, space: Shape, window: int | list[int]) -> list[int | None]:
    """The sides that a window gives as it slides over `space`."""
    rank = len(space)
    strides = config["strides"] if config["strides"] is not None else window
    sizes = [
        value if isinstance(value, list) else [value] * rank
        for value in (window, strides, config.get("dilation_rate", 1))
    ]
    return [_side(config["padding"], *side) for side in zip(space, *sizes, strict=True)]


def _side(padding: str, length: int | None, window: int, stride: int, dilation: int) -> int | None:
    if length is None:
        return None
    if padding in ("same", "causal"):
        return -(-length // stride)
    return (length - (window - 1) * dilation - 1) // stride + 1


_RANKS = ("1D", "2D", "3D")
RULES: dict[str, Rule] = {
    **{f"Conv{rank}": _conv for rank in _RANKS},
    **{f"Conv{rank}Transpose": _transposed for rank in _RANKS},
    **{f"DepthwiseConv{rank}": _depthwise for rank in _RANKS[:2]},
    **{f"SeparableConv{rank}": _separable for rank in _RANKS[:2]},
    **{f"{kind}Pooling{rank}": _pooled for kind in ("Max", "Average") for rank in _RANKS},
    **{f"Global{kind}Pooling{rank}": _global_pooled for kind in ("Max", "Average") for rank in _RANKS},
    **{f"ZeroPadding{rank}": _padded for rank in _RANKS},
    **{f"Cropping{rank}": partial(_padded, sign=-1) for rank in _RANKS},
    **{f"UpSampling{rank}": _upsampled for rank in _RANKS},
    "Resizing": _resized,
    "CenterCrop": _resized,
    "RandomCrop": _resized,
}
