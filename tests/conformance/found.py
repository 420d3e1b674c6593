"""What Keras has: the classes of a module, each once."""

from __future__ import annotations

import inspect
from typing import Any


def classes(module: Any, base: type) -> dict[str, type]:
    """The public classes of a Keras module that are of a kind, by class name; aliases count once."""
    found = {}
    for name in sorted(dir(module)):
        cls = getattr(module, name)
        if inspect.isclass(cls) and issubclass(cls, base):
            found[cls.__name__] = cls
    return found


def required(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments without which a class cannot be made, each with the value that its name has in a table."""
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    wanted = [p for p in inspect.signature(cls).parameters.values() if p.kind in plain and p.default is p.empty]
    return {parameter.name: values[parameter.name] for parameter in wanted}
