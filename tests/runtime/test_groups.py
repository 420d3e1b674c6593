"""`group=`: a member takes several rows for each row of the joint batch; its rows are given flat, and all count."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import net, rows, twin
from tests.runtime.alone import Alone, Fleet, assert_same_state, compiled, fit_alone


def sgd() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.SGD(0.05), "loss": "mse"}


def adam() -> dict[str, Any]:
    return {"optimizer": "adam", "loss": "mse"}


def test_c62_grouped_members_keep_step_and_lose_no_row() -> None:
    """30 rows in batches of 3 beside 300 in batches of 30; the last 5 of 305 are trained on, and predicted, too."""
    members = {
        "a": Alone(net(), lambda: rows(30), adam, {"epochs": 2, "batch_size": 3}),
        "b": Alone(net(2), lambda: rows(300, 2), sgd, {"epochs": 2, "batch_size": 30}),
        "c": Alone(net(2), lambda: rows(305, 2), sgd, {"epochs": 2, "batch_size": 30}),
    }
    fleet = Fleet(members, "parallel(a, b group=10, c x2 group=10) on gpus=2")
    for name in members:
        fleet.assert_same(name)
    assert set(fleet.history.history) == {"a_loss", "b_loss", "c_loss"}
    steps = {name: int(model.optimizer.iterations) for name, model in fleet.models.items()}
    assert steps == {"a": 20, "b": 20, "c": 22}
    x, y = rows(305, 2)
    predicted = fleet.joint.predict({"c": x}, batch_size=20, verbose=0)["c"]
    assert predicted.shape == (305, 1)
    np.testing.assert_allclose(predicted, fleet.models["c"](x), atol=1e-6)
    evaluated = fleet.joint.evaluate({"c": (x, y)}, batch_size=50, verbose=0)["c"]["loss"]
    assert evaluated == pytest.approx(float(np.mean((predicted - y) ** 2)), rel=1e-5)


def test_c43_the_graph_takes_groups_and_gives_them_back() -> None:
    """(5, 4, 3) in, (5, 4, 1) out; row by row what the model gives for the flat rows."""
    model = net()
    joint = composer.compile("parallel(m group=4, other)", m=model, other=net(2))
    x = np.random.default_rng(0).normal(size=(5, 4, 3)).astype("float32")
    out = joint({"m": x, "other": rows(2, 2)[0]})["m"]
    assert out.shape == (5, 4, 1)
    np.testing.assert_allclose(out, model(x.reshape(20, 3)).numpy().reshape(5, 4, 1), atol=1e-6)
    assert joint.input["m"].shape == (None, 4, 3)
    assert joint.output["m"].shape == (None, 4, 1)
    assert joint.predict({"m": x.reshape(20, 3)}, verbose=0)["m"].shape == (20, 1)


def test_groups_of_several_inputs_and_outputs() -> None:
    left, right = keras.Input((2,), name="left"), keras.Input((3, 2), name="right")
    h = layers.Concatenate()([left, layers.Flatten()(right)])
    model = keras.Model({"left": left, "right": right}, {"one": layers.Dense(1)(h), "two": layers.Dense(2)(h)})
    joint = composer.compile("parallel(m x2 group=3) on gpus=2", m=model)
    x = {"left": np.ones((4, 3, 2), "float32"), "right": np.ones((4, 3, 3, 2), "float32") * np.arange(3)[:, None, None]}
    out = joint({"m": x})["m"]
    flat = model({name: value.reshape(12, *value.shape[2:]) for name, value in x.items()})
    for name in ("one", "two"):
        np.testing.assert_allclose(np.reshape(out[name], (12, -1)), flat[name], atol=1e-6)


def test_a_grouped_members_batch_is_its_group_times_the_joint_batch() -> None:
    model = compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(m group=2)", m=model)
    joint.fit({"m": rows(130)}, verbose=0)
    assert int(model.optimizer.iterations) == 3  # 64 flat rows a batch


def test_group_auto_gives_all_members_the_same_number_of_steps() -> None:
    a, b = compiled(net(), "sgd", "mse"), compiled(net(2), "sgd", "mse")
    alone = twin(b)
    compiled(alone, "sgd", "mse")
    joint = composer.compile("parallel(a, b group=auto)", a=a, b=b)
    joint.fit({"a": rows(96), "b": rows(900, 2)}, shuffle=False, verbose=0)
    assert int(a.optimizer.iterations) == int(b.optimizer.iterations) == 3
    fit_alone(alone, rows(900, 2), batch_size=320)  # 10 rows for each row of the joint batch of 32
    assert_same_state(b, alone)


# Faults ------------------------------------------------------------------------------------------------------------


def test_a_batch_that_is_no_multiple_of_the_group_is_refused() -> None:
    joint = composer.compile("parallel(m group=10)", m=compiled(net(), "sgd", "mse"))
    with pytest.raises(
        composer.DataError, match=r"batch size of `m` counts flat rows.*group of 10. Received: 25; 20 would do"
    ):
        joint.fit({"m": rows(30)}, batch_size=25, verbose=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: keras.Sequential([layers.Input((3,), batch_size=4), layers.Dense(1)]), "fixed batch size of 4"),
        (
            lambda: keras.Sequential([layers.Input((5, 3), batch_size=4), layers.GRU(2, stateful=True, name="memory")]),
            "`memory`",
        ),
    ],
)
def test_what_cannot_be_grouped_is_found_when_compiling(model: Any, message: str) -> None:
    with pytest.raises(composer.SpecError, match=rf"`m` cannot take `group=2`.*{message}"):
        composer.compile("parallel(m group=2)", m=model())
