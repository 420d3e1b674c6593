"""The names in an export: which a member may have, and what inputs and outputs are called."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from composer.diagnostics import Diagnostic
from composer.source import SourceText, Span

JOINT_SIGNATURE = "serving_default"
"""The signature of all members together: the one a server runs when a request names none."""

RESERVED = frozenset(
    {
        JOINT_SIGNATURE,
        # Attributes of what `tf.saved_model.load` returns; an endpoint of that name would hide them or be hidden.
        "graph_debug_info",
        "non_trainable_variables",
        "signatures",
        "tensorflow_git_version",
        "tensorflow_version",
        "trainable_variables",
        "variables",
        # An input of this name breaks TensorFlow's own methods.
        "self",
    }
)


@dataclass(frozen=True, slots=True)
class JointName:
    """An input or output in the joint signature: its name there, its member, and its name in the member's signature."""

    name: str
    member: str
    own: str


def reserved_name_faults(spans: Mapping[str, Span | None], spec_text: str) -> list[Diagnostic]:
    """The members whose names cannot be endpoints.

    Args:
        spans: where each member is written in the spec, by name.
        spec_text: the spec.
    """
    source = SourceText(spec_text)
    places = {name: span if span is not None and span.end <= len(spec_text) else None for name, span in spans.items()}
    return [
        _reserved(name, place, source if place else None)
        for name, place in places.items()
        if not is_endpoint_name(name)
    ]


def is_endpoint_name(name: str) -> bool:
    """Whether TensorFlow takes a name for a signature, an attribute and an input."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and not keyword.iskeyword(name) and name not in RESERVED


def _reserved(name: str, span: Span | None, source: SourceText | None) -> Diagnostic:
    if keyword.iskeyword(name):
        reason = "is a reserved word of Python, and an input cannot be named so"
    elif name.startswith("_"):
        reason = "starts with an underscore, and TensorFlow names no input so"
    else:
        reason = "is kept by TensorFlow"
    suggestion = "model_" + name.strip("_")
    return Diagnostic(
        "MG601",
        f"the member `{name}` cannot be exported under its name, which {reason}",
        span=span,
        source=source,
        label="no name for an endpoint",
        help=(f"name the member otherwise, e.g. `as {suggestion}`",),
    )


def argument_names(own_names: Sequence[str]) -> tuple[str, ...]:
    """What the inputs of a model are called in its signature: their own names, wherever TensorFlow takes them.

    Other characters become underscores, a name that starts with none of the letters gets `input_` before it, and a name
    that is there already (upper and lower case are one to TensorFlow) gets a number.

    Example:
        >>> argument_names(["x", "my input", "1st", "class", "X"])
        ('x', 'my_input', 'input_1st', 'class_', 'X_1')
    """
    wished = [_argument_name(own) for own in own_names]
    names: dict[int, str] = {}
    # Names that need no mending go first, so that `a_b` stays itself beside `a b`.
    for index in sorted(range(len(wished)), key=lambda index: wished[index] != own_names[index]):
        names[index] = _unused(wished[index], set(names.values()))
    return tuple(names[index] for index in range(len(wished)))


def _argument_name(own: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", own)
    if not re.match(r"[A-Za-z]", name):
        name = "input_" + name.lstrip("_")
    return name + "_" if keyword.iskeyword(name) or name == "self" else name


def output_names(own_names: Sequence[str]) -> tuple[str, ...]:
    """What the outputs of a model are called in its signature: their own names, repeated ones numbered.

    Example:
        >>> output_names(["dense", "dense", "label"])
        ('dense', 'dense_1', 'label')
    """
    names: list[str] = []
    for own in own_names:
        names.append(own if own not in names else _unused(own, {*own_names, *names}))
    return tuple(names)


def _unused(name: str, taken: set[str]) -> str:
    """The name itself, or the name with the first number that makes it new; upper and lower case are one."""
    folded = {other.lower() for other in taken}
    candidates = (name if number == 0 else f"{name}_{number}" for number in itertools.count())
    return next(candidate for candidate in candidates if candidate.lower() not in folded)


def joint_names(tensors: Sequence[tuple[str, Sequence[str]]]) -> tuple[JointName, ...]:
    """The names in the joint signature: `<member>` for a member with one tensor, else `<member>_<own name>`.

    Args:
        tensors: of each member its name and the names of its inputs (or outputs) in its own signature.

    Example:
        >>> [entry.name for entry in joint_names([("a", ["x"]), ("b", ["left", "right"])])]
        ['a', 'b_left', 'b_right']
    """
    return tuple(
        JointName(member if len(own_names) == 1 else f"{member}_{own}", member, own)
        for member, own_names in tensors
        for own in own_names
    )


def joint_name_faults(kind: str, names: Sequence[JointName]) -> list[Diagnostic]:
    """The names that two inputs (or outputs) of the joint signature would share.

    Args:
        kind: `input` or `output`.
        names: what `joint_names` gave.
    """
    first: dict[str, JointName] = {}
    faults = []
    for entry in names:
        other = first.setdefault(entry.name.lower(), entry)
        if other is not entry:
            faults.append(_clash(kind, other, entry))
    return faults


def _clash(kind: str, first: JointName, second: JointName) -> Diagnostic:
    same = (
        f"`{first.name}`"
        if first.name == second.name
        else f"`{first.name}` and `{second.name}`, one name to TensorFlow"
    )
    return Diagnostic(
        "MG602",
        f"in `{JOINT_SIGNATURE}` the {kind} `{first.own}` of the member `{first.member}` and the {kind} "
        f"`{second.own}` of "
        f"the member `{second.member}` would both be named {same}",
        help=(f"name one of the members otherwise, e.g. `as model_{second.member}`",),
    )
