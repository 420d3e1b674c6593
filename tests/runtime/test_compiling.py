"""`joint.compile`: settings for all or by member reach each member's own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import net, rows, twin
from tests.runtime.alone import assert_same_state, compiled, fit_alone


def joint_of(**models: keras.Model) -> composer.ComposedModel:
    return composer.compile(f"parallel({', '.join(models)})", models=models)


def two_headed() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, {"p": layers.Dense(1, name="p")(x), "q": layers.Dense(2, name="q")(x)})


def test_one_value_for_all_or_by_member() -> None:
    joint = joint_of(a=net(), b=net())
    joint.compile(optimizer={"a": "adam", "b": keras.optimizers.SGD(0.3)}, loss="mae", metrics={"b": ["mse"]})
    a, b = (joint.members[name].model for name in "ab")
    assert (type(a.optimizer).__name__, type(b.optimizer).__name__) == ("Adam", "SGD")
    assert float(b.optimizer.learning_rate) == pytest.approx(0.3)
    assert a.loss == b.loss == "mae"
    evaluated = joint.evaluate({"a": rows(4), "b": rows(4)}, verbose=0)
    assert {name: set(values) for name, values in evaluated.items()} == {"a": {"loss"}, "b": {"loss", "mse"}}


def test_stars_and_branches_are_names_too() -> None:
    joint = composer.compile("parallel(m copies=2, other)", m=net(), other=net())
    joint.compile(optimizer={"m": "adam", "*": "sgd", "m_1": "rmsprop"}, loss="mse")
    names = {name: type(member.model.optimizer).__name__ for name, member in joint.members.items()}
    assert names == {"m_0": "Adam", "m_1": "RMSprop", "other": "SGD"}


def test_c70_one_optimizer_object_is_copied_for_each_member() -> None:
    """Its state belongs to one model; each copy trains as one of its own would."""
    a, b = net(), net()
    alone = twin(b)
    joint = joint_of(a=a, b=b)
    joint.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse", metrics=[keras.metrics.MeanAbsoluteError()]
    )
    assert a.optimizer is not b.optimizer
    joint.fit({"a": rows(8, seed=1), "b": rows(8)}, epochs=2, shuffle=False, verbose=0)
    compiled(alone, keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    fit_alone(alone, rows(8), epochs=2)
    assert_same_state(b, alone)


def test_losses_by_output_are_told_from_losses_by_member() -> None:
    joint = joint_of(m=two_headed())
    joint.compile(optimizer="sgd", loss={"p": "mse", "q": "mae"}, loss_weights={"p": 2.0, "q": 0.0})
    x, y = rows(4)[0], {"p": np.zeros((4, 1)), "q": np.zeros((4, 2))}
    got = joint.evaluate({"m": (x, y)}, verbose=0)["m"]
    model = joint.members["m"].model
    predicted = model.predict(x, verbose=0)["p"]
    assert got["loss"] == pytest.approx(2.0 * float((predicted**2).mean()), rel=1e-5)


def test_settings_left_out_stay_as_the_member_had_them() -> None:
    model = net()
    optimizer = keras.optimizers.SGD(0.3)
    model.compile(optimizer, "mae")
    joint = joint_of(a=model)
    joint.compile(metrics=["mse"])
    assert model.optimizer is optimizer
    assert model.loss == "mae"
    joint.compile(loss="mse")
    assert model.optimizer is optimizer
    assert model.loss == "mse"


def test_c24_freezing_after_a_first_phase() -> None:
    """Layers frozen on the user's own model stay to the bit; the head goes on from its first phase."""
    model, other = net(), compiled(net(), "sgd", "mse")
    model.compile("sgd", "mse")
    joint = composer.compile("parallel(m x2, other) on gpus=2", m=model, other=other)
    data = {"m": rows(9), "other": rows(9)}
    joint.fit(data, batch_size=4, shuffle=False, verbose=0)
    alone = twin(model)
    for each in (model, alone):
        each.layers[0].trainable = False
        each.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
    frozen = [np.array(weight) for weight in model.layers[0].weights]
    joint.fit(data, batch_size=4, epochs=2, shuffle=False, verbose=0)
    for before, weight in zip(frozen, model.layers[0].weights, strict=True):
        np.testing.assert_array_equal(before, np.array(weight))
    fit_alone(alone, rows(9), batch_size=4, epochs=2)
    assert_same_state(model, alone)


@pytest.mark.parametrize("setting", [{"run_eagerly": True}, {"jit_compile": True}])
def test_eager_and_jit_members_train_as_alone(setting: dict[str, Any]) -> None:
    model = net()
    alone = twin(model)
    for each in (model, alone):
        each.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], **setting)
    joint = joint_of(a=model, b=compiled(net(), "sgd", "mse"))
    history = joint.fit({"a": rows(5), "b": rows(9)}, batch_size=4, epochs={"a": 2}, shuffle=False, verbose=0)
    want = fit_alone(alone, rows(5), batch_size=4, epochs=2)
    assert_same_state(model, alone)
    np.testing.assert_allclose(history.history["a_mae"], want.history["mae"], rtol=1e-5)


# Faults ------------------------------------------------------------------------------------------------------------


def test_members_that_are_not_compiled_are_named_with_the_way_to_do_it() -> None:
    joint = joint_of(a=compiled(net(), "sgd", "mse"), b=net())
    with pytest.raises(composer.GraphError, match=r"`b` is not compiled.*joint.compile\(optimizer="):
        joint.fit({"a": rows(4), "b": rows(4)}, verbose=0)


def test_an_optimizer_object_that_two_models_hold_is_refused() -> None:
    shared = keras.optimizers.SGD()
    a, b = net(), net()
    a.compile(shared, "mse")
    b.compile(shared, "mse")
    with pytest.raises(composer.GraphError, match="`a` and `b` were compiled with one optimizer object"):
        joint_of(a=a, b=b).fit({"a": rows(4), "b": rows(4)}, verbose=0)


def test_an_optimizer_that_cannot_be_copied_is_told() -> None:
    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 0.1

    joint = joint_of(a=net(), b=net())
    with pytest.raises(composer.GraphError, match=r"one SGD object was given.*copied for each: .*'Schedule'"):
        joint.compile(optimizer=keras.optimizers.SGD(Schedule()), loss="mse")
    joint.compile(optimizer={name: keras.optimizers.SGD(Schedule()) for name in "ab"}, loss="mse")


def test_a_metric_object_that_two_models_hold_is_refused() -> None:
    """Side by side each would count the other's rows."""
    shared = keras.metrics.MeanAbsoluteError(name="mae")
    a, b = two_headed(), compiled(net(), "sgd", "mse", metrics=[shared])
    a.compile("sgd", "mse", weighted_metrics={"q": [shared]})
    joint = joint_of(a=a, b=b)
    two = np.zeros((4, 2))
    data = {"a": (rows(4)[0], {"p": two[:, :1], "q": two}), "b": rows(4)}
    for call in (joint.fit, joint.evaluate):
        with pytest.raises(composer.GraphError, match="`a` and `b` were compiled with one metric object, `mae`"):
            call(data, verbose=0)
    assert set(joint.evaluate({"b": data["b"]}, verbose=0)["b"]) == {"loss", "mae"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": {"aa": "sgd"}}, r"`optimizer` names `aa`, which is no member. Did you mean `a`"),
        ({"optimiser": "sgd"}, r"`compile` takes optimizer, loss.*Received: optimiser"),
        ({"steps_per_execution": 4}, r"Received: steps_per_execution"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(composer.ComposerError, match=message):
        joint_of(a=net(), b=net()).compile(**settings)


def test_a_frozen_backbone_may_be_shared(tmp_path: Path) -> None:
    backbone = keras.Sequential(
        [layers.Input((3, 3)), layers.GRU(4), layers.BatchNormalization(), layers.Dropout(0.0)], name="backbone"
    )
    backbone.trainable = False

    def head() -> keras.Model:
        x = keras.Input((3, 3))
        return keras.Model(x, layers.Dense(1)(backbone(x)))

    models = {"a": head(), "b": head()}
    alone = {name: twin(model) for name, model in models.items()}
    for model in (*models.values(), *alone.values()):
        compiled(model, keras.optimizers.SGD(0.1), "mse")
    x, y = np.random.default_rng(0).normal(size=(9, 3, 3)), rows(9)[1]
    joint = joint_of(**models)
    joint.fit({"a": (x, y), "b": (x[:5], y[:5])}, epochs=2, batch_size=4, shuffle=False, verbose=0)
    for name, size in {"a": 9, "b": 5}.items():
        fit_alone(alone[name], (x[:size], y[:size]), batch_size=4, epochs=2)
        assert_same_state(models[name], alone[name])
    joint.save(tmp_path / "joint.keras")
    again = {name: member.model for name, member in composer.load(tmp_path / "joint.keras").members.items()}
    assert again["a"].get_layer("backbone") is again["b"].get_layer("backbone")
    for name, model in again.items():
        assert not model.get_layer("backbone").trainable_variables
        assert_same_state(model, models[name], counters=False)  # Keras saves no state of a cell that draws nothing


# Names that Keras does not know ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"loss": {"b": "msee"}},
            r"`loss` of `b`: Keras has no loss 'msee'; did you mean `mse`.*Pass a loss of yo",
        ),
        ({"loss": "quadratic"}, r"`loss` of `a`: Keras has no loss 'quadratic'\. Pass a loss of your own as an object"),
        ({"optimizer": "adamm", "loss": "mse"}, r"`optimizer` of `a`: Keras has no optimizer 'adamm'; .*`adam`"),
        ({"loss": "mse", "metrics": {"b": ["mae", "maee"]}}, r"`metrics` of `b`: Keras has no metric 'maee'; .*`mae`"),
        ({"loss": "mse", "weighted_metrics": ["acuracy"]}, r"`weighted_metrics` of `a`.*'acuracy'; .*`accuracy`"),
    ],
    ids=["loss", "far from all", "optimizer", "metric", "weighted metric"],
)
def test_misspelt_names_are_told_and_nothing_is_compiled(settings: dict[str, Any], message: str) -> None:
    joint = joint_of(a=net(), b=net())
    with pytest.raises(composer.GraphError, match=message):
        joint.compile(**settings)
    assert not any(member.model.compiled for member in joint.members.values())


def test_a_misspelt_name_in_the_members_own_compile_is_told_before_training() -> None:
    joint = joint_of(a=compiled(net()), b=net())
    joint.members["b"].model.compile("sgd", "maee")
    with pytest.raises(composer.GraphError, match="`loss` of `b`: Keras has no loss 'maee'; did you mean `mae`"):
        joint.fit({"a": rows(4), "b": rows(4)}, verbose=0)
    assert int(joint.members["a"].model.optimizer.iterations) == 0


def test_names_that_keras_takes_are_taken_and_give_its_history() -> None:
    x, y = rows(8)
    settings = {"loss": "MSE", "metrics": ["auc", "accuracy", "acc", "cosine_similarity", "AUC"]}
    alone = net()
    joint = joint_of(a=twin(alone))
    keras.backend.clear_session()  # begin to number anew
    alone.compile("SGD", **settings)
    expected = alone.fit(x, y > 0, verbose=0).history
    keras.backend.clear_session()
    joint.compile("SGD", **settings)
    found = joint.fit({"a": (x, y > 0)}, verbose=0).members["a"].history
    assert list(found) == list(expected)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-6)


def test_an_optimizer_that_is_registered_goes_by_its_name() -> None:
    @keras.saving.register_keras_serializable("shop")
    class Slow(keras.optimizers.SGD):
        pass

    joint = joint_of(a=net())
    with keras.saving.custom_object_scope({"slow": Slow}):
        joint.compile("slow", "mse")
    assert isinstance(joint.members["a"].model.optimizer, Slow)


# Models that are passed --------------------------------------------------------------------------------------------


def test_a_model_that_the_spec_does_not_use_is_told() -> None:
    with pytest.warns(composer.ComposerWarning, match=r"no branch of the model `c` that was passed: it has `a`, `b`"):
        composer.compile("parallel(a as day, b)", a=net(), b=net(), models={"c": net()})
    with pytest.warns(composer.ComposerWarning, match=r"model `wines` that was passed; did you mean `wine`\?"):
        composer.compile("parallel(wine)", wine=net(), wines=net())


def test_models_of_all_compositions_may_be_passed_at_once() -> None:
    spec = "let small = parallel(a)\nlet large = parallel(a, b)"
    assert list(composer.compile(spec, graph="small", a=net(), b=net()).members) == ["a"]


def test_a_model_is_either_declared_or_passed(tmp_path: Path) -> None:
    net().save(tmp_path / "a.keras")
    (tmp_path / "fleet.mgpu").write_text('model a = "a.keras"\nparallel(a)\n')
    with pytest.raises(composer.GraphError, match=r"`a` is passed, and the spec declares it \(`model a = "):
        composer.compile(tmp_path / "fleet.mgpu", a=net())
