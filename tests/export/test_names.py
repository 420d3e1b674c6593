"""Names in an export: which are refused, which are mended, which are kept."""

from __future__ import annotations

import pytest

from composer.export.names import (
    argument_names,
    is_endpoint_name,
    joint_name_faults,
    joint_names,
    output_names,
    reserved_name_faults,
)
from composer.source import Span


@pytest.mark.parametrize("name", ["digits", "x2", "B", "serve", "a_1", "match", "inputs", "layers"])
def test_ordinary_names_are_endpoints(name: str) -> None:
    assert is_endpoint_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("variables", "is kept by TensorFlow"),
        ("signatures", "is kept by TensorFlow"),
        ("serving_default", "is kept by TensorFlow"),
        ("trainable_variables", "is kept by TensorFlow"),
        ("graph_debug_info", "is kept by TensorFlow"),
        ("tensorflow_version", "is kept by TensorFlow"),
        ("self", "is kept by TensorFlow"),
        ("_all_variables", "starts with an underscore"),
        ("class", "is a reserved word of Python"),
    ],
)
def test_reserved_names_are_refused_with_the_mend(name: str, reason: str) -> None:
    (fault,) = reserved_name_faults({"digits": None, name: None}, "")
    assert fault.code == "MG601"
    assert f"`{name}`" in fault.message
    assert reason in fault.message
    assert fault.help == (f"name the member otherwise, e.g. `as model_{name.strip('_')}`",)


def test_a_refused_name_is_shown_where_it_is_written() -> None:
    text = "parallel(a, m as variables)"
    (fault,) = reserved_name_faults({"a": Span(9, 10), "variables": Span(12, 26)}, text)
    assert fault.source is not None
    assert fault.span == Span(12, 26)
    assert fault.source.text[12:26] == "m as variables"


@pytest.mark.parametrize(
    ("own", "names"),
    [
        (["x", "y"], ("x", "y")),
        (["input_layer_3"], ("input_layer_3",)),
        (["my input"], ("my_input",)),
        (["a.b", "a-b"], ("a_b", "a_b_1")),
        (["a b", "a_b"], ("a_b_1", "a_b")),
        (["_x", "1x"], ("input_x", "input_1x")),
        (["class", "self"], ("class_", "self_")),
        (["x", "X"], ("x", "X_1")),
        (["ä"], ("input_",)),
        ([], ()),
    ],
)
def test_inputs_keep_their_names_where_tensorflow_takes_them(own: list[str], names: tuple[str, ...]) -> None:
    assert argument_names(own) == names


def test_repeated_outputs_are_numbered_past_names_that_are_there() -> None:
    assert output_names(["m", "m", "m_1"]) == ("m", "m_2", "m_1")


def test_joint_names_are_the_members_or_the_members_and_their_own() -> None:
    names = joint_names([("a", ["x"]), ("b", ["left", "right"])])
    assert [(entry.name, entry.member, entry.own) for entry in names] == [
        ("a", "a", "x"),
        ("b_left", "b", "left"),
        ("b_right", "b", "right"),
    ]
    assert joint_name_faults("input", names) == []


@pytest.mark.parametrize(("other", "words"), [("b_left", "be named `b_left`"), ("B_Left", "one name to TensorFlow")])
def test_joint_names_that_clash_are_refused(other: str, words: str) -> None:
    (fault,) = joint_name_faults("input", joint_names([("b", ["left", "right"]), (other, ["x"])]))
    assert fault.code == "MG602"
    assert words in fault.message
    assert f"`as model_{other}`" in fault.help[0]
