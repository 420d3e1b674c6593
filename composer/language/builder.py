"""From what the parser recognises to syntax nodes: one method a rule of the grammar. Nothing is judged here."""

from __future__ import annotations

import math
import re
from typing import Any

from lark import Token

from composer.language import nodes
from composer.source import Span

_Children = list[Any]

_CONSTANTS = {"true": True, "false": False, "none": None}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_MOST_DIGITS = 1000  # Python refuses to read integers of more than some thousands


class NodeBuilder:
    """Called by the parser with the children of each rule, every token among them, in the order of the text."""

    # Statements

    def spec(self, children: _Children) -> nodes.Spec:
        end = children[-1].span.end if children else 0
        return nodes.Spec(tuple(children), span=Span(0, end))

    def model(self, children: _Children) -> nodes.Model:
        keyword, name, _, source = children
        return nodes.Model(_name(name), source, Span(keyword.start_pos, source.span.end))

    def data(self, children: _Children) -> nodes.Data:
        keyword, name, _, source, *options = children
        return nodes.Data(_name(name), source, tuple(options), Span(keyword.start_pos, children[-1].span.end))

    def train(self, children: _Children) -> nodes.Train:
        keyword, name, *options = children
        end = options[-1].span.end if options else name.end_pos
        return nodes.Train(None if name == "*" else _name(name), tuple(options), Span(keyword.start_pos, end))

    def let(self, children: _Children) -> nodes.Let:
        keyword, name, _, composition = children
        return nodes.Let(_name(name), composition, Span(keyword.start_pos, composition.span.end))

    # Sources

    def path_source(self, children: _Children) -> nodes.PathSource:
        (token,) = children
        return nodes.PathSource(unquote(token), _span(token))

    def factory_source(self, children: _Children) -> nodes.FactorySource:
        path, (arguments, end) = children
        module, _, function = path.partition(":")
        return nodes.FactorySource(module, function, arguments, Span(path.start_pos, end))

    # Compositions

    def parallel(self, children: _Children) -> nodes.Parallel:
        branches = tuple(child for child in children if type(child) is nodes.Branch)
        behind = children[2 * len(branches) + 2 :]
        devices = behind[0] if behind and type(behind[0]) is nodes.Devices else None
        options = tuple(behind[1:] if devices else behind)
        return nodes.Parallel(branches, devices, options, Span(children[0].start_pos, _end(children[-1])))

    def branch(self, children: _Children) -> nodes.Branch:
        model = _name(children[0])
        replicas = alias = None
        first_option = 1
        if len(children) > first_option and type(children[first_option]) is nodes.Replicas:
            replicas = children[first_option]
            first_option += 1
        if len(children) > first_option and type(children[first_option]) is nodes.Name:
            alias = children[first_option]
            first_option += 1
        end = children[-1].span.end if len(children) > 1 else model.span.end
        return nodes.Branch(model, replicas, alias, tuple(children[first_option:]), Span(model.span.start, end))

    def replicas(self, children: _Children) -> nodes.Replicas:
        (token,) = children
        return nodes.Replicas(None if token.type == "REPLICAS_AUTO" else _integer(token[1:]), _span(token))

    def alias(self, children: _Children) -> nodes.Name:
        return _name(children[1])

    def devices(self, children: _Children) -> nodes.Devices:
        keyword, kind, *rest = children
        if not rest:
            return nodes.Devices("auto", span=Span(keyword.start_pos, kind.end_pos))
        (count, indices, end) = rest[1]
        return nodes.Devices(str(kind), count, indices, Span(keyword.start_pos, end))  # type: ignore[arg-type]

    def device_set(self, children: _Children) -> tuple[int | None, tuple[int, ...] | None, int]:
        end = children[-1].end_pos
        if len(children) == 1:
            return _integer(children[0]), None, end
        return None, tuple(_integer(child) for child in children[1::2]), end

    # Options and values

    def option(self, children: _Children) -> nodes.Option:
        name, _, value = children
        return nodes.Option(_name(name), value, Span(name.start_pos, value.span.end))

    def literal(self, children: _Children) -> nodes.Literal:
        (token,) = children
        value = _constant(token)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return nodes.Literal(value, _span(token), str(token) if is_number else "")

    def identifier(self, children: _Children) -> nodes.Identifier:
        (token,) = children
        return nodes.Identifier(str(token), _span(token))

    identifier_key = identifier

    def device_name(self, children: _Children) -> nodes.DeviceName:
        (token,) = children
        kind, _, index = token.partition(":")
        return nodes.DeviceName(kind, _integer(index), _span(token))

    def list_value(self, children: _Children) -> nodes.ListValue:
        return nodes.ListValue(tuple(children[1:-1:2]), Span(children[0].start_pos, children[-1].end_pos))

    def map_value(self, children: _Children) -> nodes.MapValue:
        return nodes.MapValue(tuple(children[1:-1:2]), Span(children[0].start_pos, children[-1].end_pos))

    def entry(self, children: _Children) -> tuple[nodes.Value, nodes.Value]:
        key, _, value = children
        return key, value

    def call(self, children: _Children) -> nodes.Call:
        name, (arguments, end) = children
        return nodes.Call(_name(name), arguments, Span(name.start_pos, end))

    def arguments(self, children: _Children) -> tuple[tuple[nodes.Option, ...], int]:
        return tuple(children[1:-1:2]), children[-1].end_pos


def unquote(text: str) -> str:
    """The value of a quoted string. An unknown escape stands for itself: `checks` reports it."""
    body = str(text[1:-1])
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, match[0])


def _constant(token: Token) -> int | float | str | bool | None:
    if token.type == "STRING":
        return unquote(token)
    if token.type == "INT":
        return _integer(token)
    if token.type == "FLOAT":
        return float(token)
    return _CONSTANTS[token]


def _integer(digits: str) -> int:
    """The integer, or infinity where it has more digits than anyone means: `checks` reports that."""
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf  # type: ignore[return-value]


def _name(token: Token) -> nodes.Name:
    return nodes.Name(str(token), _span(token))


def _span(token: Token) -> Span:
    return Span(token.start_pos, token.end_pos)  # type: ignore[arg-type]


def _end(child: Token | nodes.Devices | nodes.Option) -> int:
    return _span(child).end if isinstance(child, Token) else child.span.end
