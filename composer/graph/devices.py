"""The machine's devices: what is there, what stands in for it, and what TensorFlow calls it."""

from __future__ import annotations

import tensorflow as tf

from composer.compiler.ir import Device
from composer.compiler.plan import DeviceTopology
from composer.errors import DeviceError

_simulated = 0  # GPUs that logical CPU devices stand in for, in this process


def simulate(count: int) -> None:
    """Let logical CPU devices stand in for GPUs in this process, for laptops and tests.

    Args:
        count: how many. A later call with as many or fewer changes nothing.

    Raises:
        DeviceError: if TensorFlow has started with fewer devices: they are fixed from then on.

    Example:
        >>> import composer
        >>> composer.simulate(4)
    """
    global _simulated  # a process has one set of devices
    if count < 1:
        raise DeviceError(f"`simulate` needs at least one device. Received: {count}")
    if count <= _simulated:
        return
    cpu = tf.config.list_physical_devices("CPU")[0]
    there = tf.config.get_logical_device_configuration(cpu)
    if there is None or len(there) < count:
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError:
            present = len(tf.config.list_logical_devices("CPU"))
            raise DeviceError(
                f"cannot simulate {count} devices: TensorFlow has started in this process with {present}, and they are "
                f"fixed from then on. Call `composer.simulate({count})` before the first model or tensor is made"
            ) from None
    _simulated = count


def topology() -> DeviceTopology:
    """The devices of this process. Asking starts TensorFlow's devices, which fixes them."""
    cpus = len(tf.config.list_logical_devices("CPU"))
    if _simulated:
        return DeviceTopology(cpus=cpus, gpus=_simulated, simulated=True)
    return DeviceTopology(cpus=cpus, gpus=len(tf.config.list_logical_devices("GPU")))


def tensorflow_name(device: Device, topology: DeviceTopology) -> str:
    """The name TensorFlow runs a device of the language under.

    Example:
        >>> tensorflow_name(Device("gpu", 1), DeviceTopology(cpus=4, gpus=4, simulated=True))
        '/device:CPU:1'
    """
    kind = "CPU" if device.kind == "cpu" or topology.simulated else "GPU"
    return f"/device:{kind}:{device.index}"
