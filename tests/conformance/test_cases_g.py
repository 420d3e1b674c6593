"""Cases of users, group G: several models at once. The others of this group are in `tests/runtime`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import assert_same_history, net, rows
from tests.runtime.alone import assert_equal_bits, assert_same_state, compiled, fit_alone, set_state, state


def test_c60_ten_models_of_ten_data_sets_end_as_ten_fits() -> None:
    models = {f"m{index}": compiled(net(4, 1, 2), "sgd", "mse") for index in range(10)}
    alone = compiled(net(4, 1, 2), "sgd", "mse")
    starts = {name: state(model) for name, model in models.items()}
    data = {name: rows(6 + index, 4, seed=index) for index, name in enumerate(models)}
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    history = joint.fit(data, batch_size=4, epochs=2, shuffle=False, verbose=0)
    for name, model in models.items():
        set_state(alone, starts[name])
        want = fit_alone(alone, data[name], batch_size=4, epochs=2).history
        assert_same_state(model, alone)
        assert_same_history(history.members[name].history, want)


class Scripted(keras.Model):
    """A model whose validation scores are given, one an epoch."""

    def test_step(self, data: Any) -> dict[str, Any]:
        self.turn.assign_add(1)
        return {"score": tf.gather(self.script, self.turn)}


def scripted(losses: list[float]) -> keras.Model:
    x = keras.Input((3,))
    model = Scripted(x, layers.Dense(1)(x))
    model.script, model.turn = tf.constant(losses), tf.Variable(-1, trainable=False)
    return compiled(model, keras.optimizers.SGD(0.1, momentum=0.9), "mse")


def test_c65_one_stops_at_its_best_epoch_and_the_other_goes_on() -> None:
    """A 1.0, 0.9, 0.8 and B 1.0, 1.2, 1.4: their sum rises, but A runs on and B ends as after its first epoch."""
    models = {"a": scripted([1.0, 0.9, 0.8]), "b": scripted([1.0, 1.2, 1.4])}
    after: list[list[np.ndarray]] = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after.append(models["b"].get_weights()))
    stop = keras.callbacks.EarlyStopping
    early = [stop("val_score", patience=1, mode="min", restore_best_weights=True) for _ in models]
    joint = composer.compile("parallel(a, b)", models=models)
    history = joint.fit(
        {"a": rows(8), "b": rows(8)},
        epochs=3,
        batch_size=4,
        validation_data={"a": rows(2), "b": rows(2)},
        callbacks={"a": early[0], "b": [keep, early[1]]},
        verbose=0,
    )
    assert history.members["a"].history["val_score"] == pytest.approx([1.0, 0.9, 0.8])
    assert history.members["b"].history["val_score"] == pytest.approx([1.0, 1.2])
    assert int(models["a"].optimizer.iterations) == 6
    assert int(models["b"].optimizer.iterations) == 4
    assert_equal_bits(models["b"].get_weights(), after[0])


class Traced(layers.Layer):
    """Passes rows on; counts how often it is traced."""

    calls = 0

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        return inputs


def test_c67_a_member_that_is_stopped_or_frozen_costs_the_other_nothing() -> None:
    """Stopped in epoch 3 of 6, then frozen between two fits: the other keeps its slots, and its step its trace."""
    x = keras.Input((3,))
    traced = Traced()
    stopped = compiled(net(), "sgd", "mse")
    other = keras.Model(x, layers.Dense(1)(traced(x)))
    alone = keras.Model(x, layers.Dense(1)(Traced()(x)))
    alone.set_weights(other.get_weights())
    for model in (other, alone):
        compiled(model, "adam", "mse")
    stop = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: setattr(stopped, "stop_training", epoch == 2)
    )
    joint = composer.compile("parallel(stopped, other)", stopped=stopped, other=other)
    data = {"stopped": rows(8), "other": rows(8)}
    joint.fit(data, epochs=6, shuffle=False, callbacks={"stopped": [stop]}, verbose=0)
    assert int(stopped.optimizer.iterations) == 3
    calls = traced.calls
    stopped.layers[0].trainable = False
    compiled(stopped, "sgd", "mse")
    frozen = stopped.layers[0].get_weights()
    joint.fit(data, epochs=2, shuffle=False, verbose=0)
    assert_equal_bits(stopped.layers[0].get_weights(), frozen)
    assert traced.calls <= calls + 1  # the joint program is new: one of its members was compiled anew
    fit_alone(alone, rows(8), epochs=8)
    assert_same_state(other, alone)


def test_c79_members_on_one_embedding_hold_it_once() -> None:
    """Nine classifiers, one table: its weights are counted once, and the votes are those of the models alone."""
    words = keras.Input((4,), dtype="int32")
    embedding = layers.Embedding(50, 6)
    shared = layers.GlobalAveragePooling1D()(embedding(words))
    models = {f"v{index}": keras.Model(words, layers.Dense(3)(shared)) for index in range(9)}
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    assert joint.count_params() == 50 * 6 + 9 * (6 * 3 + 3)
    x = np.random.default_rng(0).integers(0, 50, size=(5, 4))
    got = joint.predict(dict.fromkeys(models, x), verbose=0)
    for name, model in models.items():
        np.testing.assert_allclose(got[name], model(x), atol=1e-6)


def test_c80_inputs_of_other_lengths_are_refused_with_both_lengths() -> None:
    """Five text models, one text: what fits one does not fit the others, and each says what it takes."""
    lengths = {"a": 14, "b": 15, "c": 17, "d": 16, "e": 11}
    models = {name: net(length) for name, length in lengths.items()}
    joint = composer.compile(f"parallel({', '.join(models)})", models=models)
    text = rows(3, 14)[0]
    assert joint.predict({"a": text}, verbose=0)["a"].shape == (3, 1)
    for name, length in list(lengths.items())[1:]:
        with pytest.raises(composer.DataError, match=rf"(?s)`{name}`.*{length}.*14"):
            joint.predict({"a": text, name: text}, verbose=0)
