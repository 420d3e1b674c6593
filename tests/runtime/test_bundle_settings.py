"""Members of one batched program whose optimizers have numbers of their own: each trains as its model alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import keras
import pytest

from composer.engine.functional_optimizers import varying
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, compiled
from tests.runtime.test_bundles import FUSED, notes_of

Make = Callable[[int], keras.optimizers.Optimizer]


def momentum(i: int) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.05 * (i + 1), momentum=0.5 + 0.4 * i, nesterov=True, global_clipnorm=0.3 + i)


def betas(i: int) -> keras.optimizers.Optimizer:
    return keras.optimizers.AdamW(
        0.01, weight_decay=0.1 * (i + 1), beta_1=0.9 - 0.3 * i, beta_2=0.999 - 0.1 * i, epsilon=1e-7 + i, clipnorm=1.0
    )


def averages(i: int) -> keras.optimizers.Optimizer:
    return keras.optimizers.RMSprop(
        0.01, rho=0.9 - 0.2 * i, momentum=0.1 + i / 2, use_ema=True, ema_momentum=0.9 - 0.4 * i, clipvalue=0.1 + i
    )


@pytest.mark.parametrize("make", [momentum, betas, averages])
def test_numbers_of_the_optimizer_may_differ(make: Make) -> None:
    members = {
        name: Alone(
            net(),
            partial(rows, 16, seed=i),
            partial(lambda i: {"optimizer": make(i), "loss": "mse"}, i),
            {"batch_size": 8, "epochs": 2},
        )
        for i, name in enumerate(["a", "b"])
    }
    fleet = Fleet(members, "parallel(a, b) on cpus=1 fuse=on jit=off")
    assert fleet.joint.plan.notes[-1] == "2 members like `a` are one batched program"
    for name in members:
        fleet.assert_same(name, FUSED)
    assert fleet.models["a"].optimizer.get_config() == make(0).get_config() | {"name": fleet.models["a"].optimizer.name}


def test_a_number_that_decides_what_a_rule_does_parts_members() -> None:
    """Without momentum there are no slots for it."""
    given = {"a": 0.0, "b": 0.9, "c": 0.0, "d": 0.5}
    models = {name: compiled(net(), keras.optimizers.SGD(0.1, momentum=value), "mse") for name, value in given.items()}
    told = notes_of(models, {name: rows(8) for name in models})
    assert [note for note in told if "batched" in note] == [
        "2 members like `a` are one batched program, compiled by XLA",
        "2 members like `b` are one batched program, compiled by XLA",
    ]


def test_a_rule_is_asked_whether_it_can_do_without_a_number() -> None:
    assert varying(keras.optimizers.SGD(momentum=0.9), "momentum") == ("momentum", "float64")
    assert varying(keras.optimizers.SGD(clipvalue=1.0), "clipvalue") == ("clipvalue", "float32")
    assert varying(keras.optimizers.SGD(momentum=0.0), "momentum") is None
