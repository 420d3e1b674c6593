"""The peak memory of a joint `fit` against the sum of its members' own, each in a process of its own.

python -m tests.benchmarks.memory alone a     prints the bytes that one member's own fit takes
python -m tests.benchmarks.memory joint a b   prints the bytes that a joint fit takes
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np

from tests.benchmarks.timing import report

MEMBERS = {"a": 1024, "b": 1280, "c": 1536}  # the width of its layers
NUM_ROWS, NUM_INPUTS = 20_000, 512


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(how: str, names: list[str]) -> int:
    """Trains members in this process and returns the bytes that this took, TensorFlow's own left out."""
    import keras
    from keras import layers

    import composer

    tiny = keras.Sequential([layers.Input((2,)), layers.Dense(1)])
    tiny.compile("adam", "mse")
    tiny.fit(np.zeros((4, 2)), np.zeros((4, 1)), verbose=0)
    before = peak()
    rows, models = {}, {}
    for name in names:
        width = MEMBERS[name]
        body = [layers.Dense(width, activation="relu") for _ in range(3)]
        models[name] = keras.Sequential([layers.Input((NUM_INPUTS,)), *body, layers.Dense(1)])
        draws = np.random.default_rng(width)
        rows[name] = tuple(draws.normal(size=(NUM_ROWS, size)).astype("float32") for size in (NUM_INPUTS, 1))
    settings = {"batch_size": 256, "epochs": 1, "verbose": 0}
    if how == "joint":
        joint = composer.compile(f"parallel({', '.join(names)})", models=models)
        joint.compile(optimizer="adam", loss="mse")
        joint.fit(rows, **settings)
    else:
        for name, model in models.items():
            model.compile("adam", "mse")
            model.fit(*rows[name], **settings)
    return peak() - before


def in_a_process(*arguments: str) -> int:
    command = [sys.executable, "-m", "tests.benchmarks.memory", *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def memory() -> bool:
    """The joint run over the sum of the members' own."""
    alone = [in_a_process("alone", name) for name in MEMBERS]
    joint = in_a_process("joint", *MEMBERS)
    detail = f"{joint / 2**20:.0f} MiB against {' + '.join(f'{size / 2**20:.0f}' for size in alone)}"
    return report(
        "peak memory of three members in one fit over the sum of their own", joint / sum(alone), 1.2, "", detail
    )


if __name__ == "__main__":
    print(measure(sys.argv[1], sys.argv[2:]))
