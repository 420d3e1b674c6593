"""From values, sources, options and branches to their canonical text, each on one line."""

from __future__ import annotations

import math

from composer.language import nodes

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def print_value(value: nodes.Value) -> str:
    """A value as a spec writes it."""
    if isinstance(value, nodes.Literal):
        return value.written or print_literal(value.value)
    if isinstance(value, nodes.Identifier):
        return value.name
    if isinstance(value, nodes.DeviceName):
        return f"{value.kind}:{value.index}"
    if isinstance(value, nodes.ListValue):
        return f"[{', '.join(map(print_value, value.items))}]"
    if isinstance(value, nodes.MapValue):
        return "{" + ", ".join(f"{print_value(key)}: {print_value(inner)}" for key, inner in value.items) + "}"
    return value.name.text + print_arguments(value.arguments)


def print_literal(value: int | float | str | bool | None) -> str:
    """A literal; what is read back is equal and of the same type."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return print_string(value)
    return print_float(value) if isinstance(value, float) else str(value)


def print_string(text: str) -> str:
    """A string in double quotes, or in single ones where that saves escapes."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{character}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if not character.isprintable() and ord(character) <= 0xFFFF:
        return f"\\u{ord(character):04x}"
    return character


def print_float(value: float) -> str:
    """The shortest text that reads back as the same number: `0.5`, `1e-3`, `2.5e-5`."""
    if not math.isfinite(value):
        raise ValueError(f"a spec cannot write the number {value}")
    text = repr(value)
    if value == 0 or 1e-2 <= abs(value) < 1e6:
        return text
    digits, _, exponent = f"{value:.16e}".partition("e")
    for precision in range(17):
        digits, _, exponent = f"{value:.{precision}e}".partition("e")
        if float(f"{digits}e{exponent}") == value:
            break
    short = f"{digits}e{int(exponent)}"
    return short if len(short) < len(text) else text


def print_option(option: nodes.Option) -> str:
    return f"{option.name.text}={print_value(option.value)}"


def print_arguments(arguments: tuple[nodes.Option, ...]) -> str:
    return f"({', '.join(map(print_option, arguments))})"


def print_source(source: nodes.Source) -> str:
    if isinstance(source, nodes.PathSource):
        return print_string(source.path)
    return f"{source.module}:{source.function}{print_arguments(source.arguments)}"


def print_branch(branch: nodes.Branch) -> str:
    words = [branch.model.text]
    if branch.replicas:
        words.append("x auto" if branch.replicas.count is None else f"x{branch.replicas.count}")
    if branch.alias:
        words += ["as", branch.alias.text]
    return " ".join([*words, *map(print_option, branch.options)])


def print_devices(devices: nodes.Devices) -> str:
    if devices.kind == "auto":
        return "on auto"
    if devices.indices is None:
        return f"on {devices.kind}={devices.count}"
    return f"on {devices.kind}=[{', '.join(map(str, devices.indices))}]"
