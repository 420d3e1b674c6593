"""What happens to one member changes no other: NaN, clipping, overflow, short data, a stop."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import net, rows
from tests.runtime.alone import Alone, Fleet, assert_equal_bits, compiled, set_state, state


def one_weight(start: float = 0.0) -> keras.Model:
    """Predicts its single weight: the gradient of `linear_loss` to it is the target."""
    x = keras.Input((1,))
    return keras.Model(x, layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(start))(x))


def linear_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(y_true * y_pred, axis=-1)


def weight(model: keras.Model) -> float:
    return float(np.array(model.weights[0]).item())


ONE = np.ones((1, 1), "float32")


class Fail(keras.callbacks.Callback):
    """Raises at the end of an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.at = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.at:
            raise RuntimeError("of the user's own")


def test_c63_clipping_is_by_member() -> None:
    """Gradients 3 and 4, global norm clipped to 1, rate 1: both step by 1.0 (a shared norm gives 0.6 and 0.8)."""
    models = {"a": one_weight(), "b": one_weight()}
    for model in models.values():
        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=1.0), linear_loss)
    joint = composer.compile("parallel(a, b)", models=models)
    joint.fit({"a": (ONE, 3 * ONE), "b": (ONE, 4 * ONE)}, verbose=0)
    assert weight(models["a"]) == pytest.approx(-1.0, abs=1e-6)
    assert weight(models["b"]) == pytest.approx(-1.0, abs=1e-6)


@pytest.fixture(scope="module")
def diverging() -> Fleet:
    """One member meets NaN, one an overflow of its loss scale, one a weightless NaN label; one is healthy."""
    x, y = rows(9)
    broken = x.copy()
    broken[4, 1] = np.nan
    labels = y.copy()
    labels[0] = np.nan
    weightless = np.ones(9)
    weightless[0] = 0.0

    def scaled() -> dict[str, Any]:
        inner = keras.optimizers.SGD(0.1, global_clipnorm=1.0)
        return {"optimizer": keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**126), "loss": "mse"}

    def plain() -> dict[str, Any]:
        return {"optimizer": keras.optimizers.SGD(0.1, global_clipnorm=1.0), "loss": "mse"}

    fit = {"epochs": 2, "batch_size": 4}
    members = {
        "nan": Alone(net(), lambda: (broken, y), plain, fit),
        "overflow": Alone(net(), lambda: (x, 100 * y), scaled, fit),
        "label": Alone(net(), lambda: (x, labels, weightless), plain, fit),
        "healthy": Alone(net(), lambda: (x, y), plain, fit),
    }
    with pytest.warns(composer.ComposerWarning, match="the targets of `label` hold 1 NaN"):
        return Fleet(members)


def test_c64_a_nan_stays_in_its_member(diverging: Fleet) -> None:
    """Also under a clipped global norm, which a shared optimizer would poison."""
    assert np.isnan(diverging.models["nan"].get_weights()[0]).all()
    diverging.assert_same("healthy")
    assert np.isnan(diverging.history.history["nan_loss"][1])
    assert np.isfinite(diverging.history.history["healthy_loss"]).all()


def test_a_nan_label_without_weight_stays_in_its_member(diverging: Fleet) -> None:
    """Its own weights turn to NaN, as they do alone (0 times NaN is NaN); no other member's do."""
    assert np.isnan(diverging.models["label"].get_weights()[0]).all()
    assert np.isnan(diverging.alone("label")[0].get_weights()[0]).all()
    assert np.isfinite(diverging.models["healthy"].get_weights()[0]).all()


def test_an_overflow_skips_the_steps_of_its_member_alone(diverging: Fleet) -> None:
    """A loss scale that overflows is halved and the step skipped, for that member."""
    diverging.assert_same("overflow")
    optimizer = diverging.models["overflow"].optimizer
    assert float(optimizer.dynamic_scale) < 2.0**126
    assert int(diverging.models["healthy"].optimizer.iterations) == 6


def test_c71_the_last_short_batch_counts_its_real_rows() -> None:
    """Targets 2 for two real rows, SGD at rate 1: loss 4.0 and weight 4.0 (padding to four rows gives 2.0 and 2.0)."""
    short, long = one_weight(), one_weight()
    for model in (short, long):
        model.compile(keras.optimizers.SGD(1.0), "mse")
    joint = composer.compile("parallel(short, long)", short=short, long=long)
    two, four = np.ones((2, 1)), np.ones((4, 1))
    history = joint.fit({"short": (two, 2 * two), "long": (four, 0 * four)}, batch_size=4, verbose=0)
    assert weight(short) == pytest.approx(4.0)
    assert history.history["short_loss"] == [pytest.approx(4.0)]


def test_an_exception_in_one_members_callback_may_stop_all() -> None:
    """The run ends with the exception; every model holds the steps taken, and the next fit starts as any other."""
    a, b = compiled(net(), "sgd", "mse"), compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(a, b)", a=a, b=b)
    start = state(b)
    data, validation = {"a": rows(8), "b": rows(8)}, {"a": rows(3), "b": rows(3)}
    joint.fit(data, epochs=4, batch_size=4, shuffle=False, validation_data=validation, verbose=0)
    want = state(b)
    set_state(b, start)
    with pytest.raises(composer.ComposerError, match="the callback `fail` of `a` failed in epoch 2: of the user's own"):
        joint.fit(data, epochs=4, batch_size=4, shuffle=False, callbacks={"a": [Fail(1)]}, on_error="raise", verbose=0)
    assert int(b.optimizer.iterations) == 4
    set_state(b, start)
    history = joint.fit(data, epochs=4, batch_size=4, shuffle=False, validation_data=validation, verbose=0)
    assert_equal_bits(state(b), want)
    assert len(history.history["val_b_loss"]) == 4


def test_a_member_of_no_epochs_is_left_as_it_is() -> None:
    """Averaged weights are not written over a model that took no step."""
    still, other = compiled(net(), keras.optimizers.SGD(use_ema=True), "mse"), compiled(net(), "sgd", "mse")
    joint = composer.compile("parallel(still, other)", still=still, other=other)
    before = state(still)
    history = joint.fit({"still": rows(8), "other": rows(8)}, epochs={"still": 0, "other": 1}, verbose=0)
    assert_equal_bits(state(still), before)
    assert history.members["still"].history == {}
    assert list(history.history) == ["other_loss"]
