"""`joint.save` and `composer.load`: safe mode, optimizer state, other replicas; and each member as a file."""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import composer
from tests.helpers import net, rows, twin
from tests.runtime.alone import assert_equal_bits, assert_same_state, compiled, fit_alone, state


def text_net() -> keras.Model:
    x = keras.Input((1,), dtype="string", name="colour")
    ids = layers.StringLookup(vocabulary=["red", "green"])(x)
    return keras.Model(x, {"score": layers.Dense(1)(layers.Flatten()(layers.Embedding(4, 3)(ids)))})


def conv_net() -> keras.Model:
    body = [layers.Conv2D(2, 3), layers.BatchNormalization(), layers.Flatten(), layers.Dropout(0.5), layers.Dense(2)]
    return keras.Sequential([layers.Input((4, 4, 1)), *body])


def saved_state(model: keras.Model) -> list[np.ndarray]:
    """The state that a `.keras` file of Keras holds: all but the states of random layers."""
    kept = [variable for variable in model.variables if "seed_generator" not in variable.path]
    return [np.array(variable) for variable in (*kept, *model.optimizer.variables)]


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(n).normal(size=(n, 4, 4, 1)).astype("float32"), rows(n, 3, 2)[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[composer.ComposedModel, Path]:
    """Three members after two epochs, and the file they were saved to."""
    spec = "parallel(a x2, image, text) on gpus=4"
    models = {"a": net(), "image": conv_net(), "text": text_net()}
    joint = composer.compile(spec, models=models)
    joint.compile(
        optimizer={"a": keras.optimizers.Adam(1e-2), "image": keras.optimizers.SGD(0.01, momentum=0.9)},
        loss={"a": "mse", "image": "mae", "text": {"score": "mse"}},
        metrics={"a": ["mae"]},
    )
    words = np.array([["red"], ["green"], ["blue"]], dtype=object)
    data = {"a": rows(20), "image": images(7), "text": (words, {"score": np.ones((3, 1))})}
    joint.fit(data, epochs=2, batch_size=8, shuffle=False, verbose=0)
    path = tmp_path_factory.mktemp("saved") / "fleet.keras"
    joint.save(path)
    return joint, path


def test_c18_a_loaded_joint_model_predicts_the_same(trained: Any) -> None:
    joint, path = trained
    again = composer.load(path)
    assert list(again.members) == ["a", "image", "text"]
    assert str(again.plan) == str(joint.plan)
    words = np.array([["green"], ["pink"]], dtype=object)
    x = {"a": rows(5)[0], "image": images(3)[0], "text": words}
    got, want = again.predict(x, verbose=0), joint.predict(x, verbose=0)
    np.testing.assert_array_equal(got["a"], want["a"])
    np.testing.assert_array_equal(got["image"], want["image"])
    np.testing.assert_array_equal(got["text"]["score"], want["text"]["score"])


def test_loaded_members_hold_weights_statistics_slots_and_settings(trained: Any) -> None:
    joint, path = trained
    again = composer.load(path)
    for name in ("a", "image", "text"):
        mine, theirs = again.members[name].model, joint.members[name].model
        assert_equal_bits(saved_state(mine), saved_state(theirs))
        assert mine.get_compile_config() == theirs.get_compile_config()
    assert again.members["a"].model.optimizer is not joint.members["a"].model.optimizer


def test_the_file_needs_no_code_but_composers(trained: Any) -> None:
    """It loads in safe mode through Keras' own function, and holds no Python of anybody's."""
    joint, path = trained
    again = keras.saving.load_model(path, safe_mode=True)
    assert isinstance(again, composer.ComposedModel)
    with zipfile.ZipFile(path) as file:
        assert sorted(file.namelist()) == ["config.json", "metadata.json", "model.weights.h5"]
        assert b"__lambda__" not in file.read("config.json")
    assert_equal_bits(state(again.members["a"].model), state(joint.members["a"].model))


def test_c23_training_goes_on_where_it_was(tmp_path: Path) -> None:
    """2 epochs, save, load, 2 epochs are 4 epochs: also with other replicas, and with another order of members."""
    a, b = compiled(net(), keras.optimizers.Adam(1e-2), "mse"), compiled(net(5), "sgd", "mse")
    alone = compiled(twin(a), keras.optimizers.Adam(1e-2), "mse")
    joint = composer.compile("parallel(a x2, b) on gpus=4", a=a, b=b)
    data = {"a": rows(20), "b": rows(9, 5)}
    joint.fit(data, epochs=2, batch_size=8, shuffle=False, verbose=0)
    joint.save(tmp_path / "half.keras")
    fit_alone(alone, data["a"], epochs=4, batch_size=8)
    for spec, replicas in ((None, 2), ("parallel(b, a x3) on gpus=3", 3)):
        again = composer.load(tmp_path / "half.keras", spec)
        assert len(again.members["a"].plan.devices) == replicas
        again.fit(data, epochs=2, batch_size=8, shuffle=False, verbose=0)
        assert_same_state(again.members["a"].model, alone, 4e-6)


def test_c26_each_member_is_a_plain_model_that_saves_by_itself(trained: Any, tmp_path: Path) -> None:
    joint, _ = trained
    for name, x in (("a", rows(5)[0]), ("image", images(3)[0])):
        model = joint.members[name].model
        model.save(tmp_path / f"{name}.keras")
        alone = keras.saving.load_model(tmp_path / f"{name}.keras", safe_mode=True)
        assert [layer.name for layer in alone.layers] == [layer.name for layer in model.layers]
        np.testing.assert_array_equal(alone.predict(x, verbose=0), joint.predict({name: x}, verbose=0)[name])
        assert_equal_bits(saved_state(alone), saved_state(model))


def test_members_that_share_a_model_share_it_again(tmp_path: Path) -> None:
    m = net()
    joint = composer.compile("parallel(m as day, m as night, m copies=2)", m=m)
    joint.save(tmp_path / "shared.keras")
    again = composer.load(tmp_path / "shared.keras")
    models = {name: member.model for name, member in again.members.items()}
    assert models["day"] is models["night"]
    assert len({id(model) for model in models.values()}) == 3
    for name, model in models.items():
        assert_equal_bits(model.get_weights(), joint.members[name].model.get_weights())
    assert again.count_params() == joint.count_params() == 3 * m.count_params()


def test_models_never_compiled_save_and_load(tmp_path: Path) -> None:
    joint = composer.compile("parallel(a, b group=2)", a=net(), b=net(5))
    joint.save(tmp_path / "fresh.keras")
    again = composer.load(tmp_path / "fresh.keras")
    assert not again.members["a"].model.compiled
    x = rows(3, 5)[0]
    np.testing.assert_array_equal(
        again.predict({"b": x}, verbose=0)["b"], joint.members["b"].model.predict(x, verbose=0)
    )


def test_weights_alone_are_saved_and_loaded(trained: Any, tmp_path: Path) -> None:
    joint, path = trained
    other = composer.load(path)
    for variable in other.members["a"].model.variables:
        variable.assign(variable * 0)
    joint.save_weights(tmp_path / "fleet.weights.h5")
    other.load_weights(tmp_path / "fleet.weights.h5")
    assert_equal_bits(state(other.members["a"].model), state(joint.members["a"].model))


# Faults ------------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(composer.ComposerError, match=r"there is no file .*none.keras"):
        composer.load(tmp_path / "none.keras")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.keras").write_bytes(b"no model at all")
    with pytest.raises(composer.ComposerError, match=r"bad.keras cannot be loaded: it is damaged, or no `.keras` file"):
        composer.load(tmp_path / "bad.keras")


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a `.keras` file with another configuration."""
    copy = path.with_name("rewritten.keras")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                config = json.loads(content)
                change(config)
                content = json.dumps(config).encode()
            new.writestr(name, content)
    return copy


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda config: config["config"].pop("members"), r"lacks `members`\. Expected a file that `joint\.save`"),
        (lambda config: config["config"]["members"].update(a={}), r"is not what `joint\.save` writes \(KeyError"),
        (lambda config: config.update(class_name="Fleet"), r"rewritten\.keras holds a Fleet, not a joint model"),
    ],
    ids=["key", "entry", "class"],
)
def test_a_file_that_was_not_written_by_save_says_so(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    composer.compile("parallel(a)", a=net()).save(tmp_path / "a.keras")
    with pytest.raises(composer.ComposerError, match=told):
        composer.load(rewritten(tmp_path / "a.keras", change))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt("now"), ValueError("no config")])
def test_a_save_that_fails_in_the_middle_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    joint = composer.compile("parallel(a)", a=net())
    joint.save(tmp_path / "a.keras")
    before = (tmp_path / "a.keras").read_bytes()

    def half(model: keras.Model, path: Path, **arguments: object) -> None:
        Path(path).write_bytes(before[: len(before) // 2])
        raise error

    monkeypatch.setattr(keras.Model, "save", half)
    full = isinstance(error, OSError)
    told = r"a\.keras cannot be written: No space left on device\. Free some space" if full else str(error)
    with pytest.raises(composer.ComposerError if full else type(error), match=told):
        joint.save(tmp_path / "a.keras")
    assert (tmp_path / "a.keras").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.keras"]


def test_a_file_stands_under_its_name_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a process that is killed while it saves leaves the earlier file."""
    joint = composer.compile("parallel(a)", a=net())
    written: list[str] = []
    save = keras.Model.save

    def watched(model: keras.Model, path: Path, **arguments: object) -> None:
        save(model, path, **arguments)
        written.append(Path(path).name)
        assert not (tmp_path / "a.keras").exists()

    monkeypatch.setattr(keras.Model, "save", watched)
    joint.save(tmp_path / "a.keras")
    assert len(written) == 1
    assert written[0].startswith(".a.")
    assert [path.name for path in tmp_path.iterdir()] == ["a.keras"]


def test_what_load_cannot_read_is_not_saved(tmp_path: Path) -> None:
    joint = composer.compile("parallel(a)", a=net())
    with pytest.raises(composer.ComposerError, match=r"leave `zipped` out\. Received: zipped=False"):
        joint.save(tmp_path / "a.keras", zipped=False)
    joint.save(tmp_path / "a.keras")
    with pytest.raises(composer.ComposerError, match=r"a.keras exists already. Save to another file"):
        joint.save(tmp_path / "a.keras", overwrite=False)
    with pytest.raises(composer.ComposerError, match=r"none/a.keras cannot be written: No such file or directory"):
        joint.save(tmp_path / "none" / "a.keras")


def test_a_file_of_one_model_is_told_from_a_joint_one(tmp_path: Path) -> None:
    net().save(tmp_path / "one.keras")
    with pytest.raises(composer.ComposerError, match=r"one.keras holds a Sequential, not a joint model"):
        composer.load(tmp_path / "one.keras")


def test_members_may_be_left_out_but_not_added(trained: Any) -> None:
    assert list(composer.load(trained[1], "parallel(image)").members) == ["image"]
    with pytest.raises(composer.ComposerError, match=r"`wine`"):
        composer.load(trained[1], "parallel(a, wine)")


def test_a_member_never_gets_the_weights_of_another_model(tmp_path: Path) -> None:
    """Two nets of one shape: nothing but the names tells whose weights are whose."""
    composer.compile("parallel(a as day, b)", a=net(), b=net()).save(tmp_path / "two.keras")
    with pytest.raises(composer.ComposerError, match=r"`day` as the model `a`; the spec makes it `b`.*`a as day`"):
        composer.load(tmp_path / "two.keras", "parallel(b as day)")
    with pytest.raises(composer.ComposerError, match=r"`b` as the model `b`; the spec makes it `a`.*write `b`"):
        composer.load(tmp_path / "two.keras", "parallel(a as b)")


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    for name in ("fleet.h5", "fleet"):
        with pytest.raises(composer.ComposerError, match=r"saved as a `.keras` file. Received: .*fleet"):
            composer.compile("parallel(a)", a=net()).save(tmp_path / name)


def test_devices_that_are_not_there_are_named(trained: Any) -> None:
    with pytest.raises(composer.DeviceError, match=r"gpu:4|8"):
        composer.load(trained[1], "parallel(a x2) on gpus=8")


def test_a_layer_of_the_users_own_needs_custom_objects(tmp_path: Path) -> None:
    class Own(layers.Dense):
        pass

    model = keras.Sequential([layers.Input((3,)), Own(1)])
    composer.compile("parallel(m)", m=model).save(tmp_path / "own.keras")
    with pytest.raises(composer.ComposerError, match="Own"):
        composer.load(tmp_path / "own.keras")
    again = composer.load(tmp_path / "own.keras", custom_objects={"Own": Own})
    assert_equal_bits(again.members["m"].model.get_weights(), model.get_weights())
