"""The devices of a process: what is there, what stands in for it, what TensorFlow calls it, and what is missing."""

from __future__ import annotations

import pytest

import composer
from composer.compiler.ir import Device
from composer.compiler.plan import DeviceTopology
from composer.graph import devices
from tests.helpers import net


def test_logical_cpu_devices_stand_in_for_gpus() -> None:
    assert devices.topology() == DeviceTopology(cpus=4, gpus=4, simulated=True)


@pytest.mark.parametrize(
    ("device", "simulated", "name"),
    [
        (Device("gpu", 1), True, "/device:CPU:1"),
        (Device("gpu", 1), False, "/device:GPU:1"),
        (Device("cpu", 0), True, "/device:CPU:0"),
        (Device("cpu", 2), False, "/device:CPU:2"),
    ],
)
def test_names_are_tensorflows(device: Device, simulated: bool, name: str) -> None:
    assert devices.tensorflow_name(device, DeviceTopology(4, 4, simulated)) == name


def test_simulating_as_many_or_fewer_again_is_fine_and_more_is_not() -> None:
    composer.simulate(4)
    composer.simulate(1)
    assert devices.topology().gpus == 4
    with pytest.raises(composer.DeviceError, match=r"cannot simulate 5 devices: TensorFlow has started.*with 4"):
        composer.simulate(5)
    with pytest.raises(composer.DeviceError, match=r"at least one device. Received: 0"):
        composer.simulate(0)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("parallel(m x2) on gpus=16", "gpus=16"),
        ("parallel(m x2) on gpus=[0, 7]", "gpu:7"),
        ("parallel(m at=gpu:9) on auto", "gpu:9"),
        ("parallel(m x2) on auto merge=gpu:5", "gpu:5"),
        ("parallel(m) on cpus=9", "cpus=9"),
    ],
)
def test_missing_devices_are_an_error_that_lists_what_is_there(spec: str, told: str) -> None:
    with pytest.raises(composer.DeviceError) as caught:
        composer.compile(spec, m=net())
    message = str(caught.value)
    assert told in message
    assert "4" in message  # what is there
    assert caught.value.diagnostics[0].code.startswith("MG4")


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        ("parallel(m x4) on cpus=4", [0, 1, 2, 3]),
        ("parallel(m x auto) on auto", [0, 1, 2, 3]),
        ("parallel(m x3) on gpus=[1, 3]", [1, 1, 3]),
        ("parallel(m x auto at=[gpu:2, gpu:0]) on gpus=4", [0, 2]),
    ],
)
def test_cpus_auto_lists_and_pins_name_the_devices_that_are_used(spec: str, used: list[int]) -> None:
    joint = composer.compile(spec, m=net())
    assert sorted(joint.members["m"].layer.devices) == [f"/device:CPU:{index}" for index in used]


def test_c95_members_on_unlike_subsets_in_one_process_in_any_order() -> None:
    for spec in ("parallel(m x2) on gpus=[0, 1]", "parallel(m x2) on gpus=[2, 3]", "parallel(m x4) on gpus=4"):
        joint = composer.compile(spec, m=net())
        joint.compile(optimizer="sgd", loss="mse")
        assert joint.predict({"m": [[1.0, 2.0, 3.0]]}, verbose=0)["m"].shape == (1, 1)
