"""Where operations, gradients of them included, and variables really are: read from the executed partition graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import keras
import numpy as np
import pytest
from keras import layers
from tensorflow.python.eager import context  # run metadata has no public name

import composer
from composer.graph.placement import device_of, move_variables
from tests.helpers import assert_same_weights, net, rows, twin


def dense() -> keras.Model:
    return net(3, 2)


def convolution() -> keras.Model:
    body = [layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(2)]
    return keras.Sequential([layers.Input((8, 8, 1)), *body])


def recurrent() -> keras.Model:
    return keras.Sequential([layers.Input((6, 4)), layers.LSTM(5), layers.Dense(2)])


NETS: dict[str, tuple[Callable[[], keras.Model], set[str]]] = {
    "dense": (dense, {"_FusedMatMul", "MatMul", "ReluGrad", "BiasAddGrad"}),
    "convolution": (convolution, {"_FusedConv2D", "Conv2DBackpropFilter", "MaxPool", "MaxPoolGrad", "ReluGrad"}),
    "recurrent": (recurrent, {"SigmoidGrad", "TanhGrad", "Sigmoid", "TensorListPopBack"}),
}


def executed_operations(run: Callable[[], object]) -> dict[str, Counter[str]]:
    """How often each kind of operation ran on each device. The functions must not have run before."""
    context.enable_run_metadata()
    try:
        context.export_run_metadata()  # what earlier runs left
        run()
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for function in metadata.function_graphs:
        for graph in function.partition_graphs:
            for node in graph.node:
                found[node.op][node.device[-5:]] += 1
    return found


def batch(model: keras.Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    shape = model.input_shape[1:]
    return rng.normal(size=(count, *shape)).astype("float32"), rng.normal(size=(count, 2)).astype("float32")


@pytest.mark.parametrize("name", NETS)
def test_replicas_compute_forward_and_backward_on_their_own_devices(name: str) -> None:
    make, kinds = NETS[name]
    model, other = make(), net(5, 2)
    spec = "parallel(m x2 at=[gpu:1, gpu:3], other at=gpu:2) on gpus=4 merge=gpu"
    joint = composer.compile(spec, m=model, other=other)
    joint.compile(optimizer="adam", loss="mse")
    data = {"m": batch(model, 8), "other": rows(8, 5, 2)}
    found = executed_operations(lambda: joint.fit(data, batch_size=8, shuffle=False, verbose=0))
    for kind in kinds:
        devices = set(found[kind])
        assert {"CPU:1", "CPU:3"} <= devices, f"{kind} ran on {sorted(devices)}"
        assert devices <= {"CPU:1", "CPU:2", "CPU:3"}, f"{kind} ran on {sorted(devices)}"


def test_a_single_replica_runs_wholly_on_its_device() -> None:
    """The oracle of the test: under Keras' own fit gradients are on device 0 whatever the layer says (`facts`)."""
    model = net(3, 2)
    joint = composer.compile("parallel(m at=gpu:2) on gpus=4", m=model)
    joint.compile(optimizer="adam", loss="mse")
    found = executed_operations(lambda: joint.fit({"m": rows(8, 3, 2)}, shuffle=False, verbose=0))
    for kind in ("MatMul", "_FusedMatMul", "ReluGrad", "BiasAddGrad", "Sqrt"):
        assert set(found[kind]) == {"CPU:2"}, f"{kind} ran on {sorted(found[kind])}"


@pytest.mark.parametrize("branch", ["m at=gpu:3", "m x2 at=[gpu:3, gpu:1]"])
def test_slots_lie_beside_their_weights(branch: str) -> None:
    """Of replicas too, whose updates run where their outputs are joined: on another device."""
    model = net()
    joint = composer.compile(f"parallel({branch}) on gpus=4 merge=gpu weights=spread", m=model)
    joint.compile(optimizer="adam", loss="mse")
    joint.fit({"m": rows(8)}, verbose=0)
    assert {device_of(variable) for variable in model.variables} == {"/device:CPU:3"}
    slots = [v for v in model.optimizer.variables if "momentum" in v.path or "velocity" in v.path]
    assert len(slots) == 8
    assert {device_of(slot) for slot in slots} == {"/device:CPU:3"}


@pytest.mark.parametrize(
    ("weights", "device"), [("keep", "CPU:0"), ("cpu", "CPU:0"), ("gpu", "CPU:1"), ("spread", "CPU:3")]
)
def test_weights_live_where_the_spec_says(weights: str, device: str) -> None:
    model = net()
    composer.compile(f"parallel(m at=gpu:3) on gpus=[1, 3] weights={weights}", m=model)
    assert {device_of(variable) for variable in model.variables} == {f"/device:{device}"}


@pytest.mark.parametrize(("weights", "merge"), [("cpu", "cpu"), ("gpu", "gpu:1"), ("spread", "gpu")])
def test_places_of_weights_and_merge_change_no_number(weights: str, merge: str) -> None:
    model = net()
    alone = twin(model)
    joint = composer.compile(f"parallel(m x2) on gpus=2 merge={merge} weights={weights}", m=model)
    joint.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    joint.fit({"m": rows(13)}, batch_size=8, shuffle=False, verbose=0)
    alone.compile(keras.optimizers.SGD(0.1), "mse")
    alone.fit(*rows(13), batch_size=8, shuffle=False, verbose=0)
    assert_same_weights(model, alone)


def test_moving_keeps_values_and_the_model_and_trains_it_c22() -> None:
    """C22: relocation trained a hidden clone; here the user's own object holds the trained state."""
    model = net()
    alone = twin(model)
    before = [weight.copy() for weight in model.get_weights()]
    move_variables("m", model, "/device:CPU:2")
    for got, want in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(got, want)
    for each in (model, alone):
        each.compile(keras.optimizers.Adam(0.01), "mse")
        each.fit(*rows(20), batch_size=8, shuffle=False, verbose=0)
    assert {device_of(variable) for variable in model.variables} == {"/device:CPU:2"}
    assert_same_weights(model, alone, 0)


def test_weights_under_an_optimizer_with_state_do_not_move() -> None:
    model = net()
    model.compile("adam", "mse")
    model.fit(*rows(4), verbose=0)
    with pytest.raises(composer.GraphError, match=r"cannot move the weights of `m` .*: its optimizer has state"):
        composer.compile("parallel(m at=gpu:3) on gpus=4 weights=spread", m=model)
