"""Values of the syntax tree as plain Python values, and back as the text a person wrote."""

from __future__ import annotations

from composer.compiler.ir import Device
from composer.language import nodes
from composer.source import Span


class Word(str):
    """A bare name used as a value (`auto`, `accuracy`): a string that was written without quotes."""

    __slots__ = ()


def plain(value: nodes.Value) -> object:
    """The value as Python sees it: lists become tuples, maps dicts, `gpu:1` a `Device`, calls stay nodes."""
    if isinstance(value, nodes.Literal):
        return value.value
    if isinstance(value, nodes.Identifier):
        return Word(value.name)
    if isinstance(value, nodes.DeviceName):
        return Device(value.kind, value.index) if value.kind in ("cpu", "gpu") else value  # type: ignore[arg-type]
    if isinstance(value, nodes.ListValue):
        return tuple(plain(item) for item in value.items)
    if isinstance(value, nodes.MapValue):
        return {_key(key): plain(item) for key, item in value.items}
    return value


def show(value: nodes.Value, width: int = 40) -> str:
    """The value as it would be written in a spec, cut to `width` characters."""
    text = _show(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def describe(value: nodes.Value) -> str:
    """What kind of value it is, in words, with the value itself: "the string 'a'"."""
    return f"{_noun(value)} {show(value)}" if not isinstance(value, nodes.ListValue) or value.items else "an empty list"


def item_span(value: nodes.Value, index: int) -> Span:
    """The place of one item of a list, or of the whole value where it has no such item."""
    if isinstance(value, nodes.ListValue) and index < len(value.items):
        return value.items[index].span
    return value.span


def _key(key: nodes.Value) -> object:
    key_value = plain(key)
    return key_value if isinstance(key_value, int | float | str | bool) or key_value is None else show(key)


def _noun(value: nodes.Value) -> str:
    if isinstance(value, nodes.Literal):
        kinds = {bool: "the truth value", int: "the integer", float: "the number", str: "the string"}
        return kinds.get(type(value.value), "the value")
    return {
        nodes.Identifier: "the name",
        nodes.DeviceName: "the device",
        nodes.ListValue: "the list",
        nodes.MapValue: "the map",
        nodes.Call: "the call",
    }[type(value)]


def _show(value: nodes.Value) -> str:
    if isinstance(value, nodes.Literal):
        return _show_literal(value.value)
    if isinstance(value, nodes.Identifier):
        return value.name
    if isinstance(value, nodes.DeviceName):
        return f"{value.kind}:{value.index}"
    if isinstance(value, nodes.ListValue):
        return f"[{', '.join(_show(item) for item in value.items)}]"
    if isinstance(value, nodes.MapValue):
        return "{" + ", ".join(f"{_show(key)}: {_show(item)}" for key, item in value.items) + "}"
    return f"{value.name.text}({', '.join(f'{a.name.text}={_show(a.value)}' for a in value.arguments)})"


def _show_literal(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
