"""composer: join many Keras models in one program, each trained and served exactly as if it were alone.

    joint = composer.compile("parallel(a, b x2) on gpus=2 merge=gpu", a=model_a, b=model_b)
    history = joint.fit({"a": (xa, ya), "b": (xb, yb)}, epochs={"a": 10, "b": 50})

Importing composer, and checking, formatting and planning specs, load no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from composer.version import __version__ as __version__

if TYPE_CHECKING:
    from composer.diagnostics import Diagnostic as Diagnostic
    from composer.errors import ComposerError as ComposerError
    from composer.errors import ComposerWarning as ComposerWarning
    from composer.errors import DataError as DataError
    from composer.errors import DeviceError as DeviceError
    from composer.errors import ExportError as ExportError
    from composer.errors import GraphError as GraphError
    from composer.errors import InternalError as InternalError
    from composer.errors import ResumeError as ResumeError
    from composer.errors import SpecError as SpecError
    from composer.pipeline import check as check
    from composer.pipeline import compile as compile
    from composer.pipeline import format as format
    from composer.pipeline import load as load
    from composer.pipeline import parse as parse
    from composer.pipeline import plan as plan
    from composer.pipeline import simulate as simulate
    from composer.runtime.composed_model import ComposedModel as ComposedModel

_ERRORS = (
    "ComposerError",
    "ComposerWarning",
    "DataError",
    "DeviceError",
    "ExportError",
    "GraphError",
    "InternalError",
    "ResumeError",
    "SpecError",
)
_STAGES = ("check", "compile", "format", "load", "parse", "plan", "simulate")
_HOMES = {
    **dict.fromkeys(_ERRORS, "composer.errors"),
    **dict.fromkeys(_STAGES, "composer.pipeline"),
    "ComposedModel": "composer.runtime.composed_model",
    "Diagnostic": "composer.diagnostics",
}
"""Where each public name is loaded from when it is first used, so that `import composer` costs next to nothing."""

__all__ = [
    "ComposedModel",
    "ComposerError",
    "ComposerWarning",
    "DataError",
    "DeviceError",
    "Diagnostic",
    "ExportError",
    "GraphError",
    "InternalError",
    "ResumeError",
    "SpecError",
    "check",
    "compile",
    "format",
    "load",
    "parse",
    "plan",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `composer` has no attribute `{name}`")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
