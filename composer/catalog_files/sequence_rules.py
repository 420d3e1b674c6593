"""Sizes of recurrent and attention layers."""

from __future__ import annotations

from collections.abc import Sequence

from composer.catalog_files.sizes import UNKNOWN, Config, LayerSizes, Rule, Shape, kernel_flops, known, product, total


def _recurrent(config: Config, inputs: Sequence[Shape], gates: int, states: int, biases: int = 1) -> LayerSizes:
    """`gates` kernels of input and state; `states` state vectors."""
    batch, steps, features = inputs[0]
    units = config["units"]
    kernel = gates * units * (known(features) + units)
    bias = biases * gates * units if config["use_bias"] else 0
    outputs = [(batch, steps, units) if config["return_sequences"] else (batch, units)]
    outputs += [(batch, units)] * states if config["return_state"] else []
    return LayerSizes(tuple(outputs), kernel + bias, 0, kernel_flops(kernel, steps))


def _simple_rnn(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return _recurrent(config, inputs, gates=1, states=1)


def _gru(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return _recurrent(config, inputs, gates=3, states=1, biases=2 if config["reset_after"] else 1)


def _lstm(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    return _recurrent(config, inputs, gates=4, states=2)


def _multi_head(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    """Query, value and, where it is given, key; one kernel each and one for the output."""
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    heads, key_dim = config["num_heads"], config["key_dim"]
    return _attention(config, (query, value, key), (heads, heads), (key_dim, config["value_dim"] or key_dim))


def _grouped_query(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    heads, shared, dim = config["num_query_heads"], config["num_key_value_heads"], config["head_dim"]
    return _attention(config, (query, value, key), (heads, shared), (dim, dim))


def _attention(
    config: Config, inputs: tuple[Shape, Shape, Shape], heads: tuple[int, int], dims: tuple[int, int]
) -> LayerSizes:
    if config.get("output_shape") is not None or config.get("attention_axes") not in (None, [1], (1,)):
        return UNKNOWN
    (query, value, key), (query_heads, other_heads), (key_dim, value_dim) = inputs, heads, dims
    if len(query) != 3 or len(value) != 3:
        return UNKNOWN
    width = known(query[-1])
    kernels = {
        "query": (width * query_heads * key_dim, query_heads * key_dim, query[1]),
        "key": (known(key[-1]) * other_heads * key_dim, other_heads * key_dim, key[1]),
        "value": (known(value[-1]) * other_heads * value_dim, other_heads * value_dim, value[1]),
        "output": (query_heads * value_dim * width, width, query[1]),
    }
    bias = sum(bias for _, bias, _ in kernels.values()) if config["use_bias"] else 0
    scores = kernel_flops(product((query[1], key[1])), query_heads * (key_dim + value_dim))
    flops = total([scores, *(kernel_flops(kernel, steps) for kernel, _, steps in kernels.values())])
    return LayerSizes((query,), sum(kernel for kernel, _, _ in kernels.values()) + bias, 0, flops)


def _dot_attention(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    query, value = inputs[0], inputs[1]
    if config.get("return_attention_scores"):
        return UNKNOWN
    scales = bool(config["use_scale"]) + (config.get("score_mode") == "concat")
    scores = kernel_flops(product((query[1], value[1])), total((query[-1], value[-1])))
    return LayerSizes(((*query[:-1], value[-1]),), scales, 0, scores)


def _additive_attention(config: Config, inputs: Sequence[Shape]) -> LayerSizes:
    query, value = inputs[0], inputs[1]
    scale = known(query[-1]) if config["use_scale"] else 0
    scores = kernel_flops(product((query[1], value[1])), total((query[-1], value[-1])))
    return LayerSizes(((*query[:-1], value[-1]),), scale, 0, scores)


RULES: dict[str, Rule] = {
    "SimpleRNN": _simple_rnn,
    "GRU": _gru,
    "LSTM": _lstm,
    "MultiHeadAttention": _multi_head,
    "GroupedQueryAttention": _grouped_query,
    "GroupQueryAttention": _grouped_query,
    "Attention": _dot_attention,
    "AdditiveAttention": _additive_attention,
}
