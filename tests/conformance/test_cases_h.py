"""Cases of users, group H: processes, sweeps and sets of weights. Threads (C83) are in `tests/runtime`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import composer
from tests.helpers import assert_same_history, assert_same_weights, net, rows
from tests.runtime.alone import compiled, fit_alone, set_state, state

ROOT = Path(__file__).parents[2]


WORKERS = """
import multiprocessing, os, sys

import keras
import numpy as np

import composer

X, Y = np.zeros((4, 3), "float32"), np.zeros((4, 2), "float32")


def composed():
    x = keras.Input((3,))
    model = keras.Model(x, keras.layers.Dense(2)(x))
    model.compile("sgd", "mse")
    return composer.compile("parallel(m)", m=model)


def work(_):
    return composed().predict({"m": X}, verbose=0)["m"].shape


if __name__ == "__main__":
    joint = composed()
    joint.predict({"m": X}, verbose=0)
    child = os.fork()
    if child == 0:
        for call, rows in ((joint.predict, X), (joint.evaluate, (X, Y)), (joint.fit, (X, Y))):
            try:
                call({"m": rows}, verbose=0)
            except composer.GraphError as error:
                print("refused:", error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    if "spawn" in sys.argv:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print("spawned:", pool.map(work, [0]), flush=True)
"""


def run_workers(folder: Path, *arguments: str) -> list[str]:
    """What the workers of that program print."""
    program = folder / "workers.py"
    program.write_text(WORKERS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return ran.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_c85_a_forked_worker_is_refused(tmp_path: Path) -> None:
    """TensorFlow waits for ever in a process that was forked from its own: the worker is told, and how to mend it."""
    refused = [line for line in run_workers(tmp_path) if line.startswith("refused:")]
    assert len(refused) == 3
    assert all("`m` was composed in process" in line and "'spawn'" in line for line in refused)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_c85_a_spawned_worker_works(tmp_path: Path) -> None:
    assert "spawned: [(4, 2)]" in run_workers(tmp_path, "spawn")


def test_c87_a_sweep_in_one_fit_gives_a_result_a_rate() -> None:
    """Four learning rates, one net, one set of rows: a history and weights each, those of a fit with that rate."""
    rates = [0.001, 0.01, 0.05, 0.1]
    spec = f"""
        train m optimizer=sgd(learning_rate={rates}) loss=mse epochs=2 batch=4
        parallel(m copies=4)
    """
    joint = composer.compile(spec, m=net())
    starts = [member.model.get_weights() for member in joint.members.values()]
    history = joint.fit({"m": rows(10)}, shuffle=False, verbose=0)
    alone = compiled(net(), "sgd", "mse")
    before = state(alone)
    for rate, start, (name, member) in zip(rates, starts, joint.members.items(), strict=True):
        set_state(alone, before)
        alone.set_weights(start)
        alone.optimizer.learning_rate = rate
        want = fit_alone(alone, rows(10), batch_size=4, epochs=2).history
        assert_same_weights(member.model, alone)
        assert_same_history(history.members[name].history, want)


def test_c89_sets_of_weights_are_scored_at_once_as_one_after_another() -> None:
    """Three sets of weights of one net, as three members: no set is written over another while it is scored."""
    candidates = [net().get_weights() for _ in range(3)]
    models = {f"m{index}": compiled(net(), "sgd", "mse") for index in range(3)}
    for model, weights in zip(models.values(), candidates, strict=True):
        model.set_weights(weights)
    joint = composer.compile("parallel(m0, m1, m2)", models=models)
    data = rows(9)
    scores = joint.evaluate(dict.fromkeys(models, data), verbose=0)
    alone = compiled(net(), "sgd", "mse")
    for name, weights in zip(models, candidates, strict=True):
        alone.set_weights(weights)
        assert scores[name]["loss"] == pytest.approx(alone.evaluate(*data, verbose=0), rel=1e-6)
    assert len({round(score["loss"], 6) for score in scores.values()}) == 3
    assert np.isfinite([score["loss"] for score in scores.values()]).all()
