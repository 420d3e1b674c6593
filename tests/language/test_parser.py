"""Parsing: what a tree holds, where its nodes are, and that all faults come together, each once."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer.diagnostics import render_json, render_text
from composer.errors import SpecError
from composer.language import nodes
from composer.language.expected import WORDS as HUMAN_WORDS
from composer.language.grammar import lark_parser
from composer.language.parser import parse
from composer.language.printer import print_spec
from composer.source import SourceText, Span
from tests.language.strategies import WORDS, specs, word_soup

FIRST_LOOK = """
# Two unrelated models, one program: `wine` runs as two replicas of one set of weights.
model digits = "models/digits.keras"
model wine   = "models/wine.keras"

parallel(digits, wine x2) on gpus=4 merge=gpu
"""


def tree(text: str) -> nodes.Spec:
    return parse(SourceText(text))


def faults(text: str) -> list[tuple[str, int, int]]:
    """Code, line and column of each fault of a text."""
    with pytest.raises(SpecError, match=r"error\[MG1") as caught:
        tree(text)
    places = []
    for fault in caught.value.diagnostics:
        assert fault.source is not None
        line, column = fault.source.position(fault.span.start) if fault.span else (0, 0)
        places.append((fault.code, line, column))
    return places


def slices(text: str, node: object) -> str:
    span = node.span  # type: ignore[attr-defined]
    return text[span.start : span.end]


# Trees


def test_first_look_is_the_tree_it_says() -> None:
    assert tree(FIRST_LOOK) == nodes.Spec(
        (
            nodes.Model(nodes.Name("digits"), nodes.PathSource("models/digits.keras")),
            nodes.Model(nodes.Name("wine"), nodes.PathSource("models/wine.keras")),
            nodes.Parallel(
                (nodes.Branch(nodes.Name("digits")), nodes.Branch(nodes.Name("wine"), nodes.Replicas(2))),
                nodes.Devices("gpus", 4),
                (nodes.Option(nodes.Name("merge"), nodes.Identifier("gpu")),),
            ),
        )
    )


def test_model_may_be_called_x2_and_x() -> None:
    (composition,) = tree("parallel(x2 x2, x x auto as x3, x)").statements
    assert isinstance(composition, nodes.Parallel)
    assert [branch.model.text for branch in composition.branches] == ["x2", "x", "x"]
    assert [branch.replicas for branch in composition.branches] == [nodes.Replicas(2), nodes.Replicas(None), None]
    assert composition.branches[1].alias == nodes.Name("x3")


def test_option_may_start_like_a_replica_count() -> None:
    (composition,) = tree("parallel(a x2_=1, b x2 x2b=1, c x=1)").statements
    assert isinstance(composition, nodes.Parallel)
    assert [branch.replicas for branch in composition.branches] == [None, nodes.Replicas(2), None]
    assert [branch.options[0].name.text for branch in composition.branches] == ["x2_", "x2b", "x"]


def test_device_is_a_value_and_a_map_key_is_not() -> None:
    (composition,) = tree("parallel(a at=[gpu:0, cpu:1]) merge=gpu:1 m={gpu:1, b: gpu:1}").statements
    assert isinstance(composition, nodes.Parallel)
    at = nodes.ListValue((nodes.DeviceName("gpu", 0), nodes.DeviceName("cpu", 1)))
    assert composition.branches[0].options[0].value == at
    assert composition.options[0].value == nodes.DeviceName("gpu", 1)
    assert composition.options[1].value == nodes.MapValue(
        (
            (nodes.Identifier("gpu"), nodes.Literal(1)),
            (nodes.Identifier("b"), nodes.DeviceName("gpu", 1)),
        )
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-2", -2), ("0", 0), ("007", 7), ("1e-3", 0.001), ("1.", 1.0), (".5", 0.5), ("-.5e1", -5.0),
        ("1E+2", 100.0), ("true", True), ("false", False), ("none", None), ('"a"', "a"), ("'a'", "a"), ('""', ""),
        (r'"\"\'\\\n\t\r\u00e9"', "\"'\\\n\t\ré"), ("'it is \"it\"'", 'it is "it"'), ('"# no comment"', "# no comment"),
        ('"日本"', "日本"),
    ],
)  # fmt: skip
def test_literal_has_its_value_and_type(text: str, value: object) -> None:
    (train,) = tree(f"train a v={text}").statements
    assert isinstance(train, nodes.Train)
    literal = train.options[0].value
    assert literal == nodes.Literal(value)  # type: ignore[arg-type]
    assert type(literal.value) is type(value)  # type: ignore[union-attr]


def test_factory_is_module_function_and_arguments_keywords_in_its_path_included() -> None:
    (model,) = tree("model a = my.model.data:train(filters=16, name='b')").statements
    assert isinstance(model, nodes.Model)
    assert model.source == nodes.FactorySource(
        "my.model.data",
        "train",
        (
            nodes.Option(nodes.Name("filters"), nodes.Literal(16)),
            nodes.Option(nodes.Name("name"), nodes.Literal("b")),
        ),
    )


def test_train_star_has_no_name() -> None:
    assert tree("train * batch=2").statements[0] == nodes.Train(
        None, (nodes.Option(nodes.Name("batch"), nodes.Literal(2)),)
    )


@pytest.mark.parametrize(
    ("text", "kind", "count", "indices"),
    [("gpus=4", "gpus", 4, None), ("gpus=[0, 2]", "gpus", None, (0, 2)), ("cpus=[1]", "cpus", None, (1,)),
     ("cpus=0", "cpus", 0, None), ("auto", "auto", None, None)],
)  # fmt: skip
def test_devices(text: str, kind: str, count: int | None, indices: tuple[int, ...] | None) -> None:
    (composition,) = tree(f"parallel(a) on {text} merge=cpu").statements
    assert isinstance(composition, nodes.Parallel)
    assert composition.devices == nodes.Devices(kind, count, indices)  # type: ignore[arg-type]
    assert len(composition.options) == 1


def test_statements_run_over_lines_of_every_kind() -> None:
    assert tree("train a\r\n  batch=1\r\tepochs=2\n# end\r\nparallel(a)\r") == tree(
        "train a batch=1 epochs=2 parallel(a)"
    )


def test_comments_are_kept_with_their_places() -> None:
    text = "# one\nparallel(a) # two\r\n  # three  \n"
    spec = tree(text)
    assert [(c.text, c.own_line) for c in spec.comments] == [("# one", True), ("# two", False), ("# three", True)]
    assert [text[c.span.start] for c in spec.comments] == ["#", "#", "#"]


# Spans


def test_span_of_every_node_is_its_text() -> None:
    text = "\n# c\n let fleet = parallel( a x2 as b at=[gpu:0 , 1] , c) on gpus=[0, 2] merge={1: f( g = 'h' )}\n"
    (let,) = tree(text).statements
    assert isinstance(let, nodes.Let)
    composition = let.composition
    branch, other = composition.branches
    assert slices(text, let) == text[6:-1]
    assert slices(text, composition) == text[text.index("parallel") : -1]
    assert slices(text, branch) == "a x2 as b at=[gpu:0 , 1]"
    assert slices(text, branch.model) == "a"
    assert slices(text, branch.replicas) == "x2"
    assert slices(text, branch.alias) == "b"
    assert slices(text, branch.options[0]) == "at=[gpu:0 , 1]"
    assert slices(text, branch.options[0].name) == "at"
    assert slices(text, branch.options[0].value) == "[gpu:0 , 1]"
    assert slices(text, other) == "c"
    assert slices(text, composition.devices) == "on gpus=[0, 2]"
    mapping = composition.options[0].value
    assert isinstance(mapping, nodes.MapValue)
    assert slices(text, mapping) == "{1: f( g = 'h' )}"
    assert slices(text, mapping.items[0][1]) == "f( g = 'h' )"


def test_span_of_statements_is_their_text() -> None:
    pieces = ["model a = z:f( x=1 )", "data a = 'd.npz' validation = 0.2", "train *", "train a batch=2", "parallel(a)"]
    text = "\n".join(pieces)
    assert [slices(text, statement) for statement in tree(text).statements] == pieces


@settings(max_examples=20, deadline=None)
@given(specs)
def test_statement_parsed_by_its_span_alone_is_the_same(spec: nodes.Spec) -> None:
    text = print_spec(spec)
    for statement in tree(text).statements:
        assert tree(slices(text, statement)).statements == (statement,)


# Faults


def test_every_faulty_statement_gives_one_fault_of_its_own() -> None:
    text = (
        'model a = "a.keras\n'
        'modl b = "b.keras"\n'
        'model c = "c.keras"\n'
        "train a batch 32\n"
        "train b batch=2 batch=3 epochs=2 epochs=3\n"
        "train c\n    epochs=1_0\n"
        "let x = parallel(a b)\n"
        "parallel(a, b,)\n"
    )
    assert faults(text) == [
        ("MG116", 1, 11),
        ("MG104", 2, 1),
        ("MG112", 4, 15),
        ("MG113", 5, 17),
        ("MG113", 5, 34),
        ("MG118", 7, 12),
        ("MG109", 8, 20),
        ("MG110", 9, 14),
    ]


def test_faults_come_in_the_order_of_the_text() -> None:
    assert faults("parallel(a) merge=cpu merge=gpu gpus=4") == [("MG113", 1, 23), ("MG105", 1, 33)]


def test_unclosed_bracket_does_not_swallow_the_statements_behind_it() -> None:
    assert faults('parallel(a,\n  b\nmodel a = "a.keras"\ntrain a batch=') == [("MG107", 1, 9), ("MG106", 4, 15)]
    assert faults("train a metrics=[accuracy,\ntrain b batch=1\nparallel(a,, b)") == [
        ("MG107", 1, 17),
        ("MG110", 3, 12),
    ]


@pytest.mark.parametrize("text", ["parallel(a, b", "parallel(a, b  ", "parallel(a, b\n\n", "parallel(a, b # note\n# x"])
def test_unclosed_bracket_points_at_the_open_one(text: str) -> None:
    assert faults(text) == [("MG107", 1, 9)]


@pytest.mark.parametrize(
    "text", ["train a batch=", "train a batch=   ", "train a batch=\n\n", "train a batch= # note\n# x\n"]
)
def test_end_points_behind_the_last_word(text: str) -> None:
    assert faults(text) == [("MG106", 1, 15)]


def test_keyword_may_be_a_value_only_where_the_language_says_so() -> None:
    assert tree("parallel(a) fuse=on").statements[0].options[0].value == nodes.Identifier("on")  # type: ignore[union-attr]
    assert faults("train a loss=data") == [("MG114", 1, 14)]


@pytest.mark.parametrize("keyword", ["model", "data", "train", "let", "parallel", "on", "as"])
def test_keyword_is_no_name(keyword: str) -> None:
    for text, column in (
        (f'model {keyword} = "a.keras"', 7),
        (f"train {keyword} batch=2", 7),
        (f"train a {keyword}=2", 9),
        (f"train a optimizer=adam({keyword}=2)", 24),
        (f"parallel(a, {keyword})", 13),
        (f"parallel(a as {keyword})", 15),
        (f"let {keyword} = parallel(a)", 5),
        (f"parallel(a) {keyword}=2", 13),
    ):
        if text == "parallel(a) on=2":
            continue  # there `on` stands where it belongs
        assert faults(text) == [("MG114", 1, column)], text


def test_name_that_starts_with_a_keyword_is_a_name() -> None:
    names = ["model_a", "data1", "trains", "lets", "parallels", "one", "as_", "onx2"]
    (composition,) = tree(f"parallel({', '.join(names)})").statements
    assert [branch.model.text for branch in composition.branches] == names  # type: ignore[union-attr]


def test_number_beyond_all_bounds_is_a_fault_wherever_it_stands() -> None:
    huge = "9" * 5000
    assert faults(f"train a seed={huge}") == [("MG118", 1, 14)]
    text = f"parallel(a x{huge}, b at=gpu:{huge}) on gpus=[{huge}] merge=cpu"
    places = [text.index(word) + 1 for word in ("x9", "gpu:", "on gpus")]
    assert faults(text) == [("MG118", 1, column) for column in places]


def test_nesting_has_a_bound_and_stays_within_the_stack() -> None:
    assert tree("train a v=" + "[" * 32 + "]" * 32).statements
    assert faults("train a v=" + "[" * 33 + "]" * 33) == [("MG119", 1, 43)]
    assert faults("train a v=" + "[" * 10_000 + "]" * 10_000) == [("MG119", 1, 43)]
    assert faults("train a v=" + "f(g=" * 5_000 + "1" + ")" * 5_000)[0][0] == "MG119"


def test_half_a_character_is_a_fault() -> None:
    assert faults("model a = 'x\ud800'") == [("MG115", 1, 13)]


@pytest.mark.parametrize("text", ["", " \n\t", "# only this", "\r\n"])
def test_empty_text_is_a_fault(text: str) -> None:
    assert faults(text) == [("MG103", 0, 0)]


def test_message_shows_the_rendered_faults() -> None:
    with pytest.raises(SpecError, match="unknown statement `modl`") as caught:
        parse(SourceText('modl a = "x"', "cellar.mgpu"))
    assert str(caught.value) == render_text(caught.value.diagnostics)
    assert caught.value.diagnostics[0].help == ("did you mean `model`?",)
    assert " --> cellar.mgpu:1:1\n" in str(caught.value)


def test_every_terminal_has_words_for_people() -> None:
    terminals = {terminal.name for terminal in lark_parser().terminals} - set(lark_parser().lexer_conf.ignore)
    assert terminals | {"$END"} == set(HUMAN_WORDS)


def test_same_name_is_parsed_by_one_parser() -> None:
    assert lark_parser() is lark_parser()


# Anything


def assert_only_spec_errors(text: str) -> None:
    try:
        parse(SourceText(text))
    except SpecError as error:
        found = error.diagnostics
    else:
        return
    assert found
    for fault in found:
        assert fault.code.startswith("MG1")
        assert fault.span is None or fault.span.end <= len(text)
    starts = [(fault.span or Span(0, 0)).start for fault in found]
    assert starts == sorted(starts)
    shown = render_text(found, limit=len(starts))
    terminals = ("$END", "RPAR", "LSQB", "EQUAL", "REPLICAS", "FACTORY")
    assert not any(terminal in shown for terminal in terminals if terminal not in text)
    assert json.loads(render_json(found))["error_count"] == len(starts)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_any_text_parses_or_has_faults(text: str) -> None:
    assert_only_spec_errors(text)


@settings(max_examples=300, deadline=None)
@given(word_soup)
def test_any_words_parse_or_have_faults(text: str) -> None:
    assert_only_spec_errors(text)


@settings(max_examples=50, deadline=None)
@given(specs, st.data())
def test_sound_spec_with_a_slip_parses_or_has_faults(spec: nodes.Spec, data: st.DataObject) -> None:
    text = print_spec(spec)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 3, len(text))))
    assert_only_spec_errors(text[:start] + data.draw(st.sampled_from([*WORDS, ""])) + text[end:])


# Speed


def seconds(text: str) -> float:
    before = time.process_time()
    with contextlib.suppress(SpecError):
        tree(text)
    return time.process_time() - before


@pytest.mark.parametrize(
    "broken",
    ["", "model a 'x'\n", "parallel(a b\n", "train a batch=\n", "\x00"],
    ids=["sound", "equals", "bracket", "end", "character"],
)
@pytest.mark.parametrize("shape", ["branches", "statements"])
def test_time_grows_with_the_text_and_not_with_its_square(shape: str, broken: str) -> None:
    def text(count: int) -> str:
        if shape == "branches":
            body = "parallel(" + ",\n".join(f"m{index} x2 at=gpu:1" for index in range(count)) + ")"
        else:
            body = "\n".join(f"train m{index} batch={index}" for index in range(count))
        return f"{body}\n{broken}{body}"

    seconds(text(10))
    small = min(seconds(text(100)) for _ in range(3))
    large = min(seconds(text(800)) for _ in range(2))
    assert large < 8 * small * 3
