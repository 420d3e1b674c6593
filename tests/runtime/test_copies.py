"""`copies=`: members of one architecture with weights of their own, each from its own seed."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from composer.graph.copies import copy_model, derive_seed
from tests.helpers import net, rows, twin
from tests.runtime.alone import assert_equal_bits, assert_same_state, compiled, fit_alone


def random_net() -> keras.Model:
    body = [layers.Dense(8, activation="relu"), layers.Dropout(0.5, seed=1), layers.GaussianNoise(0.1), layers.Dense(1)]
    return keras.Sequential([layers.Input((3,)), *body], name="template")


def weights(joint: composer.ComposedModel) -> list[list[np.ndarray]]:
    return [member.model.get_weights() for member in joint.members.values()]


def test_copies_are_members_with_weights_and_seeds_of_their_own() -> None:
    template = random_net()
    before = template.get_weights()
    joint = composer.compile("parallel(m copies=3, other)", m=template, other=net())
    assert list(joint.members) == ["m_0", "m_1", "m_2", "other"]
    copies = [joint.members[f"m_{index}"].model for index in range(3)]
    kernels = [model.get_weights()[0] for model in copies]
    assert all(not np.array_equal(kernels[i], kernels[j]) for i in range(3) for j in range(i))
    seeds = [np.array(variable) for model in copies for variable in model.variables if "seed" in variable.path]
    assert len({value.tobytes() for value in seeds}) == len(seeds) == 6
    assert all(model is not template for model in copies)
    assert_equal_bits(template.get_weights(), before)


def test_copies_are_the_same_in_every_run_whatever_was_drawn_before() -> None:
    template = random_net()
    keras.utils.set_random_seed(1)
    first = composer.compile("parallel(m copies=3)", m=template)
    keras.utils.set_random_seed(2)
    state = np.random.get_state()[1].copy()
    second = composer.compile("parallel(other, m copies=4)", m=template, other=net())
    for mine, theirs in zip(weights(first), weights(second)[1:], strict=False):
        assert_equal_bits(mine, theirs)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # no global state is read or set
    assert derive_seed(1, ("a", 0)) != derive_seed(1, ("a", 1)) != derive_seed(2, ("a", 1))


def test_branch_names_reach_all_copies_and_members_one() -> None:
    """One set of rows for all copies; one rate each: a sweep. Each copy trains as the same model would alone."""
    joint = composer.compile("parallel(m copies=3)", m=net(units=2))
    twins = {name: twin(member.model) for name, member in joint.members.items()}
    rates = {f"m_{index}": rate for index, rate in enumerate((0.01, 0.1, 0.2))}
    optimizers = {name: keras.optimizers.SGD(rate) for name, rate in rates.items()}
    joint.compile(optimizer=optimizers, loss={"m": "mse"})
    data: Any = {"m": rows(10), "m_2": rows(7, seed=1)}
    history = joint.fit(data, epochs={"m": 2, "m_1": 3}, batch_size={"m": 4}, shuffle=False, verbose=0)
    assert {name: len(run.epoch) for name, run in history.members.items()} == {"m_0": 2, "m_1": 3, "m_2": 2}
    for name, alone in twins.items():
        compiled(alone, keras.optimizers.SGD(rates[name]), "mse")
        fit_alone(alone, data.get(name, data["m"]), epochs=3 if name == "m_1" else 2, batch_size=4)
        assert_same_state(joint.members[name].model, alone)
    x = rows(4)[0]
    predicted = joint.predict({"m": x}, verbose=0)
    assert {name: value.shape for name, value in predicted.items()} == {f"m_{i}": (4, 1) for i in range(3)}
    assert not np.array_equal(predicted["m_0"], predicted["m_1"])


def test_settings_come_along_and_optimizers_start_fresh() -> None:
    template = compiled(net(), keras.optimizers.Adam(0.05), "mae", metrics=["mse"])
    fit_alone(template, rows(8))
    joint = composer.compile("parallel(m copies=2)", m=template)
    for member in joint.members.values():
        assert member.model.loss == "mae"
        assert float(member.model.optimizer.learning_rate) == pytest.approx(0.05)
        assert int(member.model.optimizer.iterations) == 0
    optimizers = {id(member.model.optimizer) for member in joint.members.values()}
    assert id(template.optimizer) not in optimizers
    assert len(optimizers) == 2


def test_initializers_keep_what_they_draw_but_the_seed() -> None:
    """Constants stay constants; pretrained weights are not copied, since a copy is a fresh start."""
    x = keras.Input((2,))
    model = keras.Model(x, layers.Dense(3, bias_initializer="ones", kernel_initializer="he_normal")(x))
    copy = copy_model("m_0", model, seed=5)
    assert_equal_bits([copy.get_weights()[1]], [np.ones(3, "float32")])
    assert copy.layers[1].kernel_initializer.seed != model.layers[1].kernel_initializer.seed


def test_a_model_that_cannot_be_made_again_is_refused() -> None:
    class Unregistered(keras.Model):
        def __init__(self, units: int) -> None:
            super().__init__()
            self.head = layers.Dense(units)

        def call(self, inputs: Any) -> Any:
            return self.head(inputs)

    model = Unregistered(2)
    model(np.ones((1, 3)))
    with pytest.raises(composer.GraphError, match=r"(?s)`m_0` cannot be made as a copy.*get_config"):
        composer.compile("parallel(m copies=2)", m=model)
