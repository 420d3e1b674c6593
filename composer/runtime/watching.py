"""Which callbacks are to be told of each batch, and which may look at a model or change it."""

from __future__ import annotations

from collections.abc import Sequence

import keras

TRAIN_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
TEST_HOOKS = ("on_test_batch_begin", "on_test_batch_end")
_DEFAULT_HOOKS = tuple(getattr(keras.callbacks.Callback, hook) for hook in (*TRAIN_HOOKS, *TEST_HOOKS))


class BurstCallback(keras.callbacks.Callback):
    """A joint callback whose batch hooks need not be called right after each batch: several may be taken before."""


def watching(callbacks: Sequence[keras.callbacks.Callback], hooks: Sequence[str]) -> bool:
    """Whether a callback is to be told of each batch: it has its own version of one of the hooks, in its class or
    (`LambdaCallback`) on the object."""
    strict = (callback for callback in callbacks if not isinstance(callback, BurstCallback))
    own = (getattr(callback, hook) for callback in strict for hook in hooks)
    return any(getattr(hook, "__func__", None) not in _DEFAULT_HOOKS for hook in own)


_BLIND = (keras.callbacks.History, keras.callbacks.CSVLogger, keras.callbacks.TerminateOnNaN)


def looking(callbacks: Sequence[keras.callbacks.Callback]) -> bool:
    """Whether a callback may look at the model, or change it; of some it is known that they do not."""
    return any(
        not isinstance(callback, (keras.callbacks.History, BurstCallback))
        and type(callback) not in _BLIND
        and not (type(callback) is keras.callbacks.EarlyStopping and not callback.restore_best_weights)
        for callback in callbacks
    )
