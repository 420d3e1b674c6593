"""Specs and broken texts for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from composer.language import nodes

names = st.sampled_from(
    [
        *(
            "a",
            "b",
            "c",
            "wine",
            "digits",
            "x",
            "x2",
            "x10",
            "x_",
            "xauto",
            "auto",
            "gpu",
            "cpu",
            "gpus",
            "cpus",
            "off",
        ),
        *(
            "true",
            "false",
            "none",
            "true_",
            "model_b",
            "models",
            "data1",
            "one",
            "as_",
            "onx",
            "_",
            "A9",
            "E",
            "e1",
            "Z_z",
        ),
    ]
)
name_nodes = names.map(nodes.Name)
_CONSTANTS = ("true", "false", "none")  # names, but no values
identifiers = (names | st.just("on")).filter(lambda name: name not in _CONSTANTS).map(nodes.Identifier)
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["a.keras", "it's", 'say "x"', "\\", "\n"])
literals = (
    st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
    | texts
).map(nodes.Literal)
device_names = st.builds(nodes.DeviceName, st.sampled_from(["gpu", "cpu"]), st.integers(0, 99))
keys = literals | identifiers.filter(lambda identifier: identifier.name != "on")


def options(values: st.SearchStrategy[nodes.Value], most: int = 3) -> st.SearchStrategy[tuple[nodes.Option, ...]]:
    """Options with names of their own."""
    each = st.builds(nodes.Option, name_nodes, values)
    return st.lists(each, max_size=most, unique_by=lambda option: option.name.text).map(tuple)


def _deeper(inner: st.SearchStrategy[nodes.Value]) -> st.SearchStrategy[nodes.Value]:
    called = name_nodes.filter(lambda name: name.text not in _CONSTANTS)
    return (
        st.builds(nodes.ListValue, st.lists(inner, max_size=3).map(tuple))
        | st.builds(nodes.MapValue, st.lists(st.tuples(keys, inner), max_size=3).map(tuple))
        | st.builds(nodes.Call, called, options(inner))
    )


values = st.recursive(literals | identifiers | device_names, _deeper, max_leaves=6)
_dotted = st.lists(st.sampled_from(["zoo", "model", "data", "x2", "on"]), min_size=1, max_size=3).map(".".join)
sources = st.builds(nodes.PathSource, texts) | st.builds(nodes.FactorySource, _dotted, names, options(values))
replicas = st.builds(nodes.Replicas, st.none() | st.integers(0, 64))


def _outside_branches(option: nodes.Option) -> bool:
    return option.name.text not in ("gpus", "cpus")


def _in_branches(option: nodes.Option) -> bool:
    """`x2=3` behind a model's name is a replica count, not an option."""
    return not (option.name.text.startswith("x") and option.name.text[1:].isdecimal())


branch_options = options(values).map(lambda found: tuple(filter(_in_branches, found)))
branches = st.builds(nodes.Branch, name_nodes, st.none() | replicas, st.none() | name_nodes, branch_options)
_counts = st.integers(0, 9)
_index_lists = st.lists(_counts, min_size=1, max_size=3).map(tuple)
devices = (
    st.just(nodes.Devices("auto"))
    | st.builds(nodes.Devices, st.sampled_from(["gpus", "cpus"]), _counts)
    | st.builds(
        nodes.Devices,
        st.sampled_from(["gpus", "cpus"]),
        st.none(),
        st.lists(_counts, min_size=1, max_size=3).map(tuple),
    )
)
parallels = st.builds(
    nodes.Parallel,
    st.lists(branches, min_size=1, max_size=4).map(tuple),
    st.none() | devices,
    options(values).map(lambda found: tuple(filter(_outside_branches, found))),
)
statements = (
    st.builds(nodes.Model, name_nodes, sources)
    | st.builds(nodes.Data, name_nodes, sources, options(values))
    | st.builds(nodes.Train, st.none() | name_nodes, options(values))
    | st.builds(nodes.Let, name_nodes, parallels)
    | parallels
)
specs = st.builds(nodes.Spec, st.lists(statements, min_size=1, max_size=5).map(tuple))

WORDS = (
    *("model", "data", "train", "let", "parallel", "on", "as", "gpus", "cpus", "auto", "x", "x2", "2x", "xauto", "a"),
    *("wine", "batch", "optimizer", "adam", "gpu", "gpu:1", "cpu:0", "zoo.vision:lenet", "zoo.lenet", "true", "none"),
    *("(", ")", "[", "]", "{", "}", ",", ":", "=", "*", "=", "(", ")", ",", ">>", ";", "/", "-", ".", "\\", "\x00"),
    *("1", "-2", "0.5", "1e-3", "1_0", "1e999", "+3", "3abc", '"a.keras"', "'b'", '"open', "'", '"\\q"', '"\\ud800"'),
    *("# note\n", "#", "\n", "\n\n", "\r\n", "\r", "\t", "é", "“", "\u00d7", "\ufeff", "\u00a0", "\u2028", "日本"),
    *("b", "modl", "tran"),
)  # fmt: skip
word_soup = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", " ", "\n"])), max_size=25).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
