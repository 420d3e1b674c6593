"""Every private name of Keras and TensorFlow that composer needs, each because no public one does the work.

`tests/graph/test_private.py` uses each of them as the code does, and so tells when a new version moves one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from types import GeneratorType
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.optimizers.base_optimizer import BaseOptimizer as BaseOptimizer
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.eager import context as eager_context

_CELL_RATES = ("dropout", "recurrent_dropout")


def flatten_layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """All layers below a model, each once, those inside wrappers and nested models included."""
    return list(model._flatten_layers(include_self=False, recursive=True))


def graph_calls(model: keras.Model) -> dict[int, list[tuple[list[Any], list[Any]]]]:
    """The calls that the functional graphs of a model and of those nested in it are made of.

    Only these: a layer may have been called elsewhere too, and a Sequential model calls its layers anew whenever one is
    added.

    Returns:
        By the `id` of the layer called, the symbolic inputs and outputs of each call.
    """
    calls: dict[int, list[tuple[list[Any], list[Any]]]] = {}
    seen = set()
    for part in (model, *flatten_layers(model)):
        graph = getattr(part, "_functional", None) or part
        for node in itertools.chain.from_iterable(getattr(graph, "_nodes_by_depth", {}).values()):
            if id(node) not in seen:
                seen.add(id(node))
                calls.setdefault(id(node.operation), []).append((node.input_tensors, node.output_tensors))
    return calls


def layer_name(tensor: Any) -> str | None:
    """The name of the layer that a symbolic tensor comes from; None of one that stands alone."""
    history = getattr(tensor, "_keras_history", None)
    return None if history is None else str(history.operation.name)


def replace_value(variable: keras.Variable, value: tf.Variable) -> None:
    """Let a Keras variable stand for another TensorFlow variable: the only way to move one to another device."""
    variable._value = value


@contextmanager
def unlocked(layer: keras.layers.Layer) -> Iterator[None]:
    """Within it, a layer that is built takes new weights."""
    locked = layer._tracker.locked
    layer._tracker.unlock()
    try:
        yield
    finally:
        if locked:
            layer._lock_state()


def untrack(layer: keras.layers.Layer, variables: list[keras.Variable]) -> None:
    """Let a layer forget weights."""
    for variable in variables:
        layer._untrack_variable(variable)


def mask_of(tensor: Any) -> Any:
    """The mask a layer left on its output: the steps of a sequence that count in a loss. None where all of them do."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor: Any, mask: Any) -> None:
    """Leave a mask on a tensor, for the loss and the metrics to read."""
    tensor._keras_mask = mask


def compiled_metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    """The metric objects that a model was compiled with; those given by name are not made before the first batch."""
    compiled = model._compile_metrics
    given = [] if compiled is None else [compiled._user_metrics, compiled._user_weighted_metrics]
    return [leaf for leaf in keras.tree.flatten(given) if isinstance(leaf, keras.metrics.Metric)]


@contextmanager
def unweighted_losses(model: keras.Model) -> Iterator[None]:
    """Within it, the losses that a model logs for each of several outputs are means over batches, as Keras has them in
    steps that are traced for any number of rows: it weighs a batch by its rows where it knows their number."""
    compiled = model._compile_loss
    metrics = [] if compiled is None else list(compiled.metrics)
    for metric in metrics:
        metric.update_state = partial(_without_weight, metric.update_state)
    try:
        yield
    finally:
        for metric in metrics:
            del metric.update_state


def _without_weight(update_state: Callable[..., None], values: Any, sample_weight: Any = None) -> None:
    update_state(values)


def compile_settings(model: keras.Model) -> dict[str, Any]:
    """The arguments that a model was compiled with, as the objects they are; its optimizer is the one it steps with.

    `get_compile_config` would serialize them, which a function that is not registered does not survive.
    """
    if not model.compiled:
        return {}
    given = getattr(model, "_compile_config", None)  # a class that compiles in its own way may have none
    return {**(given.config if given is not None else {}), "optimizer": model.optimizer}


def carried_states(model: keras.Model) -> list[keras.Variable]:
    """What stateful recurrent layers carry from batch to batch: they are no variables of the model's."""
    recurrent = (each for each in [model, *flatten_layers(model)] if isinstance(each, keras.layers.RNN))
    states = keras.tree.flatten([each.states for each in recurrent if each.stateful])
    return [state for state in states if isinstance(state, keras.Variable)]


def random_states(model: keras.Model) -> list[keras.Variable]:
    """The states from which the layers of a model draw. A recurrent cell has one even where it drops nothing."""
    layers = [model, *flatten_layers(model)]
    drawing = [each for each in layers if [getattr(each, name, None) for name in _CELL_RATES] != [0, 0]]
    return [generator.state for layer in drawing for generator in layer._seed_generators]


def resumed_epoch(model: keras.Model) -> int:
    """The epoch that `BackupAndRestore` has told a model to go on at; 0 where none."""
    return model._initial_epoch or 0


def yields_batches(rows: Any) -> bool:
    """Whether Keras' own `fit` takes batches from an object: a dataset, a `PyDataset`, a generator or a loader."""
    return (
        isinstance(rows, (tf.data.Dataset, keras.utils.PyDataset, GeneratorType))
        or data_adapters.is_torch_dataloader(rows)
        or data_adapters.is_grain_dataset(rows)
    )


def data_adapter(rows: Any) -> Any:
    """Keras' own adapter of an object that yields batches. It takes the first two out of those that cannot tell their
    shapes, and puts them back."""
    return data_adapters.get_data_adapter(rows)


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset whose iterators run no thread that tunes them, unless its options ask for one.

    An iterator that is let go of waits for that thread, holding up all of Python, and in one of some thirty times
    TensorFlow 2.21 fails to wake it: the wait grows with the iterator's age, up to a minute.
    """
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class EpochIterator(TFEpochIterator):
    """What Keras' own `fit` steps through, epoch after epoch; it notes that the rows ran out where Keras warns.

    Args:
        adapter: what `data_adapter` gave.
        dataset: the batches, its own or what is made of them.
        steps: `steps_per_epoch`.
    """

    def __init__(self, adapter: Any, dataset: tf.data.Dataset, steps: int | None = None) -> None:
        super().__init__(x=adapter, steps_per_epoch=steps, distribute_strategy=tf.distribute.get_strategy())
        self._distributed_dataset = without_autotune(dataset)
        self.ran_out = False

    def _interrupted_warning(self) -> None:
        self.ran_out = True

    def end_of_data(self) -> None:
        """The iterator has no more, which ends the epoch."""
        with self.catch_stop_iteration():
            raise StopIteration


def tensor_of(rows: Any) -> Any:
    """A sparse matrix of SciPy's as a `tf.SparseTensor`; anything else as it is."""
    if not data_adapter_utils.is_scipy_sparse(rows):
        return rows
    rows = rows.tocsr(copy=True)  # in the order of the rows, each place once
    rows.sum_duplicates()
    return data_adapter_utils.scipy_sparse_to_tf_sparse(rows)


def sliceable(rows: Any) -> Any:
    """A tensor that `take_rows` can take rows of: a sparse one cannot be indexed as it is."""
    return array_slicing.to_tensorflow_sparse_wrapper(rows) if isinstance(rows, tf.SparseTensor) else rows


def take_rows(rows: Any, index: tf.Tensor) -> Any:
    """The rows of what `sliceable` gave at some positions."""
    if isinstance(rows, array_slicing.TensorflowSparseWrapper):
        return array_slicing.slice_tensorflow_sparse_wrapper(rows, index)
    return tf.gather(rows, index, axis=0)


@contextmanager
def light_optimizing() -> Iterator[None]:
    """Let functions that this thread calls go without those passes of TensorFlow's graph optimizer that change no
    result: on the first call of a large one they cost more than they ever bring.

    The passes that may round otherwise stay on, so that a model computes as it does alone. They are options of each
    call, so the functions must be called like this every time, or they are optimized anew; the settings of the process
    are left alone, and what the user has set holds.
    """
    context = eager_context.context()
    usual = context.function_call_options
    light = context.function_call_options = _light_options(usual)
    try:
        yield
    finally:
        if context.function_call_options is light:  # else it was set in a callback
            context.function_call_options = usual


@lru_cache(maxsize=8)  # a change of the settings makes a new object
def _light_options(usual: Any) -> Any:
    config = ConfigProto.FromString(usual.config_proto_serialized)
    rewriting = config.graph_options.rewrite_options
    off = {"loop_optimization": RewriterConfig.OFF}
    if not tf.config.list_logical_devices("GPU"):  # they lay out images for GPUs, and save memory of theirs
        off.update(layout_optimizer=RewriterConfig.OFF, memory_optimization=RewriterConfig.NO_MEM_OPT)
    for option, value in off.items():
        if not getattr(rewriting, option):
            setattr(rewriting, option, value)
    rewriting.disable_tfg_optimizer = True
    return eager_context.FunctionCallOptions(usual.executor_type, config)
