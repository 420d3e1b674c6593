"""Options are judged by their pydantic models, with or without a first look."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.compiler import options
from composer.compiler.ir import Device
from composer.compiler.option_models import MODELS, description, faults_of
from composer.compiler.values import Word

KINDS = tuple(MODELS)
NAMES = [(kind, name) for kind in KINDS for name in options.names_of(kind)]
WORDS = ["auto", "on", "off", "cpu", "gpu", "keep", "spread", "tpu", "", "a b"]
words = st.sampled_from(WORDS)
devices = st.builds(Device, st.sampled_from(["cpu", "gpu"]), st.integers(0, 9))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 200_000), st.integers(), st.floats(), words, words.map(Word), devices
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3).map(tuple),
    st.dictionaries(st.one_of(st.integers(0, 3), words), scalars, max_size=3),
)


def test_kinds_and_models_have_the_same_options_and_defaults() -> None:
    for kind, model in MODELS.items():
        assert {f.name: f.default for f in fields(kind)} == {n: f.default for n, f in model.model_fields.items()}


@given(st.sampled_from(NAMES), values)
def test_no_value_is_evident_that_the_model_refuses(option: tuple[type[options.Options], str], value: object) -> None:
    kind, name = option
    if options.is_evident(name, value):
        assert faults_of(kind, {name: value}) == {}
        model = MODELS[kind].model_validate({name: value})
        assert getattr(model, name) == value


def test_every_option_says_what_it_may_be() -> None:
    for kind, name in NAMES:
        if name not in ("optimizer", "loss", "metrics", "callbacks"):
            assert description(kind, name)


@pytest.mark.parametrize(
    ("kind", "value", "faults"),
    [
        (options.TrainOptions, {"seed": (1, -1)}, {"seed": 1}),
        (options.BranchOptions, {"at": (Device("gpu", 0), "x"), "copies": 0}, {"at": 1, "copies": None}),
        (options.DataOptions, {"target": ("a", "a"), "shuffle": True}, {"target": None}),
        (options.TrainOptions, {"class_weight": {0: -1.0}}, {"class_weight": 0}),
    ],
)
def test_faults_name_the_option_and_the_entry(
    kind: type[options.Options], value: dict[str, object], faults: dict[str, int | None]
) -> None:
    assert faults_of(kind, value) == faults


def test_a_sound_spec_loads_no_pydantic() -> None:
    text = (
        "train a batch=3 optimizer=adam\\ndata a = 'a.npz' validation=0.2\\nparallel(a x2 group=3) on gpus=2 merge=gpu"
    )
    code = (
        f"import sys; from tests.compiler.specs import planned; planned({text!r}); assert 'pydantic' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code.replace("\\\\n", "\\n")], env={"PYTHONPATH": ":".join(sys.path)}, check=True
    )
