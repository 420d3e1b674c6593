"""Specs resolve to the members, settings and seeds of the language. Faults are shown by `specs/invalid`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.compiler import ir
from composer.compiler.ir import Call, Device
from composer.compiler.resolver import diagnose
from composer.errors import SpecError
from composer.language.nodes import FactorySource, PathSource
from composer.language.parser import parse
from composer.source import SourceText
from tests.compiler.specs import members, resolved


def codes(text: str, catalog: dict[str, None] | None = None, graph: str | None = None) -> list[str]:
    with pytest.raises(SpecError, match="MG2") as caught:
        resolved(text, catalog, graph)
    assert all(fault.severity == "error" for fault in caught.value.diagnostics)
    return [fault.code for fault in caught.value.diagnostics]


# Members -----------------------------------------------------------------------------------------------------------


def test_branches_become_members_in_order_of_the_spec() -> None:
    composition = resolved(
        "parallel(b, a x2, c x auto, d group=10, e group=auto) on gpus=3 merge=gpu weights=spread jit=off"
    )
    assert [(m.name, m.model, m.branch) for m in composition.members] == [(n, n, n) for n in "bacde"]
    assert [m.replicas for m in composition.members] == [1, 2, None, 1, 1]
    assert [m.group for m in composition.members] == [None, None, None, 10, "auto"]
    assert all(m.copy_index is None and m.train == ir.TrainSettings() and m.data is None for m in composition.members)
    assert composition.devices == ir.DeviceRequest("gpu", (0, 1, 2))
    assert (composition.merge, composition.weights, composition.fuse, composition.jit) == (
        "gpu",
        "spread",
        "auto",
        "off",
    )
    assert composition.models == (("b", None), ("a", None), ("c", None), ("d", None), ("e", None))


def test_copies_are_numbered_members_of_one_branch() -> None:
    found = members("parallel(m copies=3 group=2, m as n copies=1, other)")
    assert list(found) == ["m_0", "m_1", "m_2", "n_0", "other"]
    assert [(m.branch, m.copy_index, m.model) for m in found.values()] == [
        ("m", 0, "m"), ("m", 1, "m"), ("m", 2, "m"), ("n", 0, "m"), ("other", None, "other"),
    ]  # fmt: skip
    assert found["m_2"].group == 2


def test_one_model_under_two_aliases_is_two_members() -> None:
    composition = resolved("parallel(m as day, m x2 as night)")
    assert [(m.name, m.model, m.copy_index) for m in composition.members] == [("day", "m", None), ("night", "m", None)]
    assert composition.models == (("m", None),)


def test_sources_are_those_of_the_models_in_use() -> None:
    composition = resolved('model a = "a.keras"\nmodel unused = "u.keras"\nmodel b = zoo:net(width=3)\nparallel(b, a)')
    (b, b_source), (a, a_source) = composition.models
    assert (a, b) == ("a", "b")
    assert a_source == PathSource("a.keras")
    assert isinstance(b_source, FactorySource)
    assert [warning.code for warning in composition.warnings] == ["MG220"]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=1, max_size=6))
def test_copies_expand_to_names_that_are_distinct_and_numbered(branches: list[tuple[bool, int]]) -> None:
    parts = [f"m{i} copies={count}" if copied else f"m{i}" for i, (copied, count) in enumerate(branches)]
    names = [m.name for m in resolved(f"parallel({', '.join(parts)})").members]
    expected = [
        name
        for i, (copied, count) in enumerate(branches)
        for name in ([f"m{i}_{c}" for c in range(count)] if copied else [f"m{i}"])
    ]
    assert names == expected


@pytest.mark.parametrize(
    "branches",
    [
        "m, m",
        "m copies=2, m",
        "m copies=2, m copies=3",
        "m copies=2, other as m_1",
        "other as m_1, m copies=2",
        "m copies=2, x as m",
        "m_0 copies=2, m copies=1",
        "a as b, b",
    ],
)
def test_names_are_taken_once(branches: str) -> None:
    assert codes(f"parallel({branches})") == ["MG205"]


def test_a_copy_may_be_named_like_nothing_else() -> None:
    assert list(members("parallel(m copies=2, m_2, m_00)")) == ["m_0", "m_1", "m_2", "m_00"]


# Names -------------------------------------------------------------------------------------------------------------


def test_without_models_and_catalog_every_name_is_free() -> None:
    assert [m.name for m in resolved("parallel(anything, at_all x2)").members] == ["anything", "at_all"]


def test_a_catalog_binds_the_names() -> None:
    assert codes("parallel(a, bb)", {"a": None, "b": None}) == ["MG203"]
    assert [m.name for m in resolved("parallel(a)", {"a": None, "b": None}).members] == ["a"]
    assert codes("parallel(a)", {}) == ["MG203"]


def test_declared_and_passed_models_go_together() -> None:
    composition = resolved('model a = "a.keras"\nparallel(a, b)', {"b": None})
    assert composition.models == (("a", PathSource("a.keras")), ("b", None))


def test_faults_of_all_kinds_come_together_in_order_of_the_text() -> None:
    text = "train a epochs=0\ntrain b optimizer=adamm\nparallel(a, b x2 at=[gpu:0], c merg=gpu) on gpus=2 merge=tpu"
    assert codes(text) == ["MG208", "MG212", "MG209", "MG207", "MG208"]


def test_the_message_shows_every_fault_with_its_place() -> None:
    with pytest.raises(SpecError) as caught:
        resolved("parallel(a, bb x2, c merg=gpu)", {"a": None, "b": None, "c": None})
    assert [fault.code for fault in caught.value.diagnostics] == ["MG203", "MG207"]
    message = str(caught.value)
    assert "<spec>:1:13" in message
    assert "did you mean `b`?" in message
    assert "  |             ^^ no model was passed under this name" in message


# Which composition -------------------------------------------------------------------------------------------------

SEVERAL = "let small = parallel(a)\nlet large = parallel(a, b)\n"


def test_the_unnamed_composition_is_taken_unless_one_is_named() -> None:
    text = SEVERAL + "parallel(c)"
    assert [m.name for m in resolved(text).members] == ["c"]
    assert resolved(text).name is None
    large = resolved(text, graph="large")
    assert [m.name for m in large.members] == ["a", "b"]
    assert large.name == "large"


def test_the_only_composition_needs_no_name() -> None:
    assert resolved("let one = parallel(a)").name == "one"


def test_several_named_ones_need_a_choice_that_exists() -> None:
    assert codes(SEVERAL) == ["MG202"]
    with pytest.raises(SpecError, match="did you mean `large`"):
        resolved(SEVERAL, graph="larg")
    with pytest.raises(SpecError, match="no composition is called `x`"):
        resolved("parallel(a)", graph="x")


def test_faults_of_a_composition_not_chosen_count_as_well() -> None:
    assert codes("let other = parallel(a copies=0)\nparallel(a)") == ["MG208"]


def test_models_are_passed_for_the_chosen_composition_only() -> None:
    text = SEVERAL + "parallel(c)"
    assert [m.name for m in resolved(text, {"a": None}, "small").members] == ["a"]
    assert codes(text, {"a": None}, "large") == ["MG203"]


def test_statements_may_be_for_another_composition() -> None:
    composition = resolved('data b = "b.npz"\n' + SEVERAL, graph="small")
    assert composition.members[0].data is None
    assert composition.warnings == ()


def test_diagnose_judges_all_compositions_and_needs_no_choice() -> None:
    def found(text: str, graph: str | None = None) -> list[str]:
        source = SourceText(text)
        return [fault.code for fault in diagnose(parse(source), source, graph=graph)]

    assert found(SEVERAL) == []
    assert found(SEVERAL, "larg") == ["MG202"]
    assert found('model a = "a.keras"\nmodel c = "c.keras"\nlet x = parallel(a at=gpu:4) on gpus=1') == [
        "MG220",
        "MG210",
    ]
    assert found('model a = "a.keras"') == ["MG201"]
    settings = 'model a = "a.keras"\nmodel b = "b.keras"\ndata b = "b.npz"\ntrain b epochs=2\n'
    assert found(settings + "parallel(a)") == ["MG220", "MG221", "MG221"]
    assert found(settings + "parallel(a, bb)") == ["MG203"]  # what `b` is for is not unused: `bb` misspells it


# Training ----------------------------------------------------------------------------------------------------------


def test_settings_are_what_keras_is_to_be_given() -> None:
    text = """
    train a optimizer=adam(learning_rate=cosine_decay(initial_learning_rate=1e-3, decay_steps=1000), amsgrad=true)
            loss=huber(delta=2) metrics=[accuracy, mae, TopKCategoricalAccuracy(k=3), auc]
            batch=16 epochs=3 callbacks=[early_stopping(patience=3, monitor=val_loss), TerminateOnNaN]
            class_weight={0: 1, 1: 2.5}
    parallel(a)
    """
    schedule = Call("schedule", "CosineDecay", (("initial_learning_rate", 1e-3), ("decay_steps", 1000)))
    assert members(text)["a"].train == ir.TrainSettings(
        optimizer=Call("optimizer", "Adam", (("learning_rate", schedule), ("amsgrad", True))),
        loss=Call("loss", "Huber", (("delta", 2),)),
        metrics=(
            Call("metric", "accuracy"),
            Call("metric", "mae"),
            Call("metric", "TopKCategoricalAccuracy", (("k", 3),)),
            Call("metric", "auc"),
        ),
        batch=16,
        epochs=3,
        callbacks=(
            Call("callback", "EarlyStopping", (("patience", 3), ("monitor", "val_loss"))),
            Call("callback", "TerminateOnNaN"),
        ),
        class_weight=ir.Map(((0, 1), (1, 2.5))),
    )


def test_losses_and_metrics_may_go_by_output() -> None:
    found = members(
        'train a loss={up: mse, "down": mae} metrics={up: [mae, mse]}\ntrain b loss=[mse, none]\nparallel(a, b)'
    )
    mse, mae = Call("loss", "mse"), Call("loss", "mae")
    assert found["a"].train.loss == ir.Map((("up", mse), ("down", mae)))
    assert found["a"].train.metrics == ir.Map((("up", (Call("metric", "mae"), Call("metric", "mse"))),))
    assert found["b"].train.loss == (mse, None)


def test_a_members_own_option_wins_over_its_branchs_and_the_default() -> None:
    found = members("""
    train * optimizer=adam epochs=1 batch=8
    train m epochs=2 loss=mse
    train m_1 epochs=3
    parallel(m copies=2, other)
    """)
    adam = Call("optimizer", "Adam")
    settings = {name: (m.train.optimizer, m.train.loss, m.train.epochs, m.train.batch) for name, m in found.items()}
    mse = Call("loss", "mse")
    assert settings == {"m_0": (adam, mse, 2, 8), "m_1": (adam, mse, 3, 8), "other": (adam, None, 1, 8)}


def test_an_alias_carries_the_settings() -> None:
    found = members("train day epochs=2\nparallel(m as day, m as night)")
    assert [m.train.epochs for m in found.values()] == [2, None]


def test_a_sweep_gives_each_copy_its_value() -> None:
    found = members("""
    train m optimizer=sgd(learning_rate=exponential_decay(initial_learning_rate=[0.1, 0.2, 0.3], decay_steps=9,
                          decay_rate=0.5), momentum=[0, 0.5, 0.9], nesterov=true)
    parallel(m copies=3)
    """)
    for name, rate, momentum in (("m_0", 0.1, 0), ("m_1", 0.2, 0.5), ("m_2", 0.3, 0.9)):
        arguments = (("initial_learning_rate", rate), ("decay_steps", 9), ("decay_rate", 0.5))
        schedule = Call("schedule", "ExponentialDecay", arguments)
        assert found[name].train.optimizer == Call(
            "optimizer", "SGD", (("learning_rate", schedule), ("momentum", momentum), ("nesterov", True))
        )


def test_a_list_that_an_argument_takes_is_no_sweep() -> None:
    schedule = "piecewise_constant_decay(boundaries=[5, 9], values=[1, 0.5, 0.1])"
    optimizer = members(f"train m optimizer=sgd(learning_rate={schedule})\nparallel(m)")["m"].train.optimizer
    assert optimizer is not None
    assert optimizer.arguments[0][1] == Call(
        "schedule", "PiecewiseConstantDecay", (("boundaries", (5, 9)), ("values", (1, 0.5, 0.1)))
    )


@pytest.mark.parametrize("name", ["m_0", "*"])
def test_a_sweep_belongs_to_copies(name: str) -> None:
    text = f"train {name} optimizer=adam(learning_rate=[1, 2])\nparallel(m copies=3, other)"
    assert set(codes(text)) == {"MG209"}


def test_a_sweep_with_a_text_in_it_is_a_bad_argument() -> None:
    assert codes('train m optimizer=adam(learning_rate=[1, "b"])\nparallel(m copies=2)') == ["MG214"]


def test_an_option_overruled_for_every_member_needs_no_fitting_sweep() -> None:
    found = members(
        "train * optimizer=adam(learning_rate=[1, 2])\ntrain other optimizer=sgd\nparallel(m copies=2, other)"
    )
    assert [m.train.optimizer and m.train.optimizer.name for m in found.values()] == ["Adam", "Adam", "SGD"]


def test_none_takes_a_default_back() -> None:
    found = members("""
    train * optimizer=adam loss=mse batch=8 callbacks=[terminate_on_nan] class_weight={0: 2}
    train a optimizer=none loss=none batch=none callbacks=none class_weight=none
    parallel(a, b)
    """)
    assert found["a"].train == ir.TrainSettings()
    assert found["b"].train.batch == 8


# Seeds -------------------------------------------------------------------------------------------------------------


def test_seeds_come_from_the_name_alone() -> None:
    alone = members("parallel(m copies=2)")
    among = members("parallel(other, m copies=3, third)")
    assert alone["m_0"].seed == among["m_0"].seed == 615837782
    assert alone["m_1"].seed == among["m_1"].seed
    assert len({m.seed for m in among.values()}) == 5


def test_seeds_are_the_same_in_another_process() -> None:
    code = (
        "from tests.compiler.specs import members; print([m.seed for m in members('parallel(m copies=2, x)').values()])"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}, check=True,
            capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert shown[0] == shown[1] == f"{[m.seed for m in members('parallel(m copies=2, x)').values()]}\n"


def test_a_seed_given_for_one_member_is_taken_as_it_is() -> None:
    found = members("train * seed=7\ntrain a seed=11\ntrain m_1 seed=12\nparallel(a, b, m copies=2)")
    assert found["a"].seed == 11
    assert found["m_1"].seed == 12
    assert found["b"].seed not in (7, members("parallel(b)")["b"].seed)
    assert len({m.seed for m in found.values()}) == 4


def test_a_base_seed_changes_all_that_have_none_of_their_own() -> None:
    one, two = members("train * seed=1\nparallel(a, b)"), members("train * seed=2\nparallel(b, a)")
    assert one["a"].seed != two["a"].seed
    assert one["a"].seed == members("train * seed=1\nparallel(a)")["a"].seed


def test_a_list_of_seeds_goes_by_copy() -> None:
    assert [m.seed for m in members("train m seed=[4, 5]\nparallel(m copies=2)").values()] == [4, 5]
    copies = members("train m seed=4\nparallel(m copies=2)")
    assert copies["m_0"].seed != copies["m_1"].seed


# Data --------------------------------------------------------------------------------------------------------------


def test_data_goes_to_the_member_or_to_all_of_its_branch() -> None:
    found = members("""
    data m = "all.csv" target=y features=[a, "b c"] validation=0.25 shuffle=false
    data m_1 = zoo:rows(n=3) validation="held/out.npz"
    parallel(m copies=2, other)
    """)
    assert found["m_0"].data == ir.DataSource(PathSource("all.csv"), ("y",), ("a", "b c"), 0.25, False)
    own = found["m_1"].data
    assert own is not None
    assert isinstance(own.source, FactorySource)
    assert (own.target, own.features, own.validation, own.shuffle) == (None, None, "held/out.npz", True)
    assert found["other"].data is None


@pytest.mark.parametrize("validation", ["0", "1", "1.0", "-0.5", "true", "[0.5]", '""', "held_out"])
def test_validation_is_a_fraction_or_a_path(validation: str) -> None:
    assert codes(f'data a = "a.npz" validation={validation}\nparallel(a)') == ["MG208"]


@pytest.mark.parametrize("value", ["true", "1.0", '"3"', "[1]", "many"])
@pytest.mark.parametrize("option", ["copies", "group"])
def test_counts_are_integers(option: str, value: str) -> None:
    assert codes(f"parallel(a {option}={value})") == ["MG208"]


# Devices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "request_"),
    [
        ("", ir.DeviceRequest("auto")),
        ("on auto", ir.DeviceRequest("auto")),
        ("on gpus=2", ir.DeviceRequest("gpu", (0, 1))),
        ("on gpus=[3, 1]", ir.DeviceRequest("gpu", (3, 1))),
        ("on cpus=2", ir.DeviceRequest("cpu", (0, 1))),
    ],
)
def test_devices_are_asked_for_by_count_or_list(on: str, request_: ir.DeviceRequest) -> None:
    assert resolved(f"parallel(a) {on}").devices == request_


def test_pins_are_devices_for_the_branch_or_for_its_replicas() -> None:
    found = members(
        "parallel(a at=gpu:1, b x2 at=gpu:1, c x2 at=[gpu:1, gpu:0], d x auto at=[gpu:0, gpu:1], e copies=2 at=gpu:0) "
        "on gpus=2"
    )
    first, second = Device("gpu", 0), Device("gpu", 1)
    pins = {name: (m.replicas, m.at) for name, m in found.items()}
    assert pins == {
        "a": (1, (second,)),
        "b": (2, (second,)),
        "c": (2, (second, first)),
        "d": (2, (first, second)),
        "e_0": (1, (first,)),
        "e_1": (1, (first,)),
    }


def test_the_host_may_always_join() -> None:
    assert resolved("parallel(a x2) on gpus=2 merge=cpu:0").merge == Device("cpu", 0)
    assert codes("parallel(a x2) on gpus=2 merge=cpu:1") == ["MG210"]


def test_resolving_needs_no_framework() -> None:
    code = (
        "import sys; from tests.compiler.specs import planned\n"
        "print(planned('train a optimizer=adam loss=mse\\nparallel(a x2) on gpus=2'))\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True)
