"""One training of a bundle, in a process of its own, for `tests.benchmarks.bundles`. Prints one JSON line.

    python -m tests.benchmarks.bundle_job PEERS KIND mlp|cnn|lstm MEMBERS [EPOCHS]

KIND is `epoch`, `uneven`, `ten`, `predict`, `memory`, `equality`, `keys` or `peak`.

PEERS is the folder of the peers, which has the workloads and the models.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


class Job:
    """The members of a workload, composed and alone.

    Args:
        workload: its name.
        members: how many.
        uneven: whether their rows run from 200 to all, instead of being equally many.
    """

    def __init__(self, workload: str, members: int, *, uneven: bool = False) -> None:
        import keras
        import numpy as np

        keras.utils.set_random_seed(0)
        peers, workloads = (importlib.import_module(name) for name in ("keras_peers", "workloads"))
        self.workload = workloads.WORKLOADS[workload]
        x, y = self.workload.arrays(members)
        sizes = np.linspace(200 if uneven else self.workload.samples, self.workload.samples, members).astype(int)
        self.rows = {f"m{i}": (x[i][:size], y[i][:size]) for i, size in enumerate(sizes)}

        def model() -> Any:
            made = peers.build(workload)
            made.compile(keras.optimizers.Adam(1e-3), peers.loss(self.workload))
            return made

        self.make = model
        self.models = {name: model() for name in self.rows}

    def joint(self, options: str = "") -> Any:
        import composer

        return composer.compile(f"parallel({', '.join(self.models)}) on auto {options}", models=self.models)

    def settings(self, epochs: int) -> dict[str, Any]:
        return {"batch_size": self.workload.batch, "epochs": epochs, "verbose": 0}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def epoch(workload: str, members: int, epochs: int, *, uneven: bool = False) -> dict[str, float]:
    """Seconds of an epoch after the first, and of the first, as the peers take them."""
    job = Job(workload, members, uneven=uneven)
    joint = job.joint()
    first = seconds(lambda: joint.fit(job.rows, **job.settings(1)))
    found = {"first_epoch_s": first, "epoch_s": seconds(lambda: joint.fit(job.rows, **job.settings(epochs))) / epochs}
    return {**found, "bundles": sum("batched program" in note for note in joint.plan.notes)}


def uneven(workload: str, members: int, epochs: int) -> dict[str, float]:
    """The same with unlike numbers of rows, beside the members' own fits."""
    found = epoch(workload, members, epochs, uneven=True)
    job = Job(workload, members, uneven=True)
    for name, model in job.models.items():
        model.fit(*job.rows[name], **job.settings(1))
    alone = seconds(lambda: [model.fit(*job.rows[name], **job.settings(2)) for name, model in job.models.items()])
    return {**found, "alone_s": alone / 2}


def ten(workload: str, members: int, _: int) -> dict[str, float]:
    """Ten epochs from the call of `fit` to its return."""
    job = Job(workload, members)
    joint = job.joint()
    return {"ten_s": seconds(lambda: joint.fit(job.rows, **job.settings(10)))}


def predict(workload: str, members: int, _: int) -> dict[str, float]:
    """All rows of all members, beside the members' own `predict`, each called once before."""
    job = Job(workload, members)
    joint = job.joint()
    rows = {name: x for name, (x, _) in job.rows.items()}
    joint.predict(rows, verbose=0)
    for name, model in job.models.items():
        model.predict(rows[name][:32], verbose=0)
    joint_s = seconds(lambda: joint.predict(rows, verbose=0))
    return {
        "predict_s": joint_s,
        "alone_s": seconds(lambda: [model.predict(rows[name], verbose=0) for name, model in job.models.items()]),
    }


def memory(workload: str, members: int, _: int) -> dict[str, float]:
    """The peak of a fit, TensorFlow's own and what a small fit takes left out, over weights, slots and rows."""
    small = Job(workload, 8)
    small.joint("fuse=on").fit(small.rows, **small.settings(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    job = Job(workload, members)
    joint = job.joint("fuse=on")
    joint.fit(job.rows, **job.settings(1))
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    weights = sum(weight.numpy().nbytes for model in job.models.values() for weight in model.trainable_variables)
    rows = sum(array.nbytes for pair in job.rows.values() for array in pair)
    return {"peak_ratio": taken / (3 * weights + rows), "peak_mib": taken / 2**20}


def equality(workload: str, members: int, epochs: int) -> dict[str, float]:
    """The largest difference of a weight or slot to the models alone, relative to the largest of its model.

    Over few steps: where a `relu` or the largest of a pool tips over by a rounding, the ways part.
    """
    import numpy as np

    job = Job(workload, members)
    twins = {name: job.make() for name in job.models}
    for name, twin in twins.items():
        twin.set_weights(job.models[name].get_weights())
    job.joint("fuse=on").fit(job.rows, shuffle=False, **job.settings(epochs))
    worst = 0.0
    for name, twin in twins.items():
        twin.fit(*job.rows[name], shuffle=False, **job.settings(epochs))
        pairs = [(job.models[name].trainable_variables, twin.trainable_variables)]
        pairs.append((job.models[name].optimizer.variables, twin.optimizer.variables))
        for mine, theirs in pairs:
            arrays = [(np.array(a, np.float64), np.array(b, np.float64)) for a, b in zip(mine, theirs, strict=True)]
            scale = max(float(np.abs(b).max()) for _, b in arrays)
            worst = max(worst, *(float(np.abs(a - b).max()) / scale for a, b in arrays))
    return {"difference": worst}


def keys(_: str, count: int, epochs: int) -> dict[str, float]:
    """`per=`: a small net for each of many keys of 50 rows, beside a loop of `fit` over a hundred, scaled to all; how
    far these end from their models is told too."""
    import keras
    import numpy as np

    import composer

    def net() -> Any:
        made = keras.Sequential([keras.Input((5,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
        made.compile("adam", "mse")
        return made

    rng, template = np.random.default_rng(0), net()
    key = np.repeat(np.arange(count), 50)
    x, y = rng.normal(size=(len(key), 5)).astype("float32"), rng.normal(size=(len(key), 1)).astype("float32")
    joint = composer.compile("parallel(net per=key)", net=template)
    given = {"batch_size": 32, "epochs": epochs, "shuffle": False, "verbose": 0}
    taken = seconds(lambda: joint.fit({"net": ({"key": key, "x": x}, y)}, **given))
    alone, difference = 0.0, 0.0
    some = range(0, count, max(count // 100, 1))
    for each in some:
        own = slice(50 * each, 50 * each + 50)

        def train(own: slice = own) -> Any:
            model = net()
            model.set_weights(template.get_weights())
            model.fit(x[own], y[own], **given)
            return model

        start = time.perf_counter()
        model = train()
        alone += time.perf_counter() - start
        for mine, theirs in zip(joint.members["net"].model.model_of(str(each)).weights, model.weights, strict=True):
            difference = max(difference, float(np.abs(np.array(mine) - np.array(theirs)).max()))
    return {"keys_s": taken, "alone_s": alone / len(some) * count, "difference": difference}


def peak(workload: str, members: int, _: int) -> dict[str, float]:
    """FLOPs of an epoch of dense nets, and the most that batched matrix products of their shapes reach a second."""
    import tensorflow as tf

    job = Job(workload, members)
    model = next(iter(job.models.values()))
    shapes = [tuple(weight.shape) for weight in model.trainable_variables if len(weight.shape) == 2]
    batch = job.workload.batch
    flops = sum(2 * batch * inputs * outputs for inputs, outputs in shapes) * members
    inputs = [tf.random.normal((members, batch, size)) for size, _ in shapes]
    weights = [tf.random.normal((members, *shape)) for shape in shapes]

    @tf.function
    def products() -> list[tf.Tensor]:
        return [tf.matmul(x, w) for x, w in zip(inputs, weights, strict=True)]

    products()
    best = min(seconds(products) for _ in range(50))
    steps = job.workload.samples // batch
    return {"epoch_flops": 3.0 * flops * steps, "peak_flops_s": flops / best}  # backwards takes two more


KINDS = {each.__name__: each for each in (epoch, uneven, ten, predict, memory, equality, keys, peak)}

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    kind, name, count = sys.argv[2:5]
    print(json.dumps(KINDS[kind](name, int(count), int(sys.argv[5]) if len(sys.argv) > 5 else 3)))
