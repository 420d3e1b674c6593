"""composer: join many Keras models in one program, each trained and served exactly as if it were alone.

    joint = composer.compile("parallel(a, b x2) on gpus=2 merge=gpu", a=model_a, b=model_b)
    history = joint.fit({"a": (xa, ya), "b": (xb, yb)}, epochs={"a": 10, "b": 50})

Importing composer, and checking, formatting and planning specs, load no TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from composer.diagnostics import Diagnostic as Diagnostic
from composer.errors import ComposerError as ComposerError
from composer.errors import ComposerWarning as ComposerWarning
from composer.errors import DataError as DataError
from composer.errors import DeviceError as DeviceError
from composer.errors import ExportError as ExportError
from composer.errors import GraphError as GraphError
from composer.errors import InternalError as InternalError
from composer.errors import SpecError as SpecError
from composer.pipeline import check as check
from composer.pipeline import compile as compile
from composer.pipeline import format as format
from composer.pipeline import load as load
from composer.pipeline import parse as parse
from composer.pipeline import plan as plan
from composer.pipeline import simulate as simulate
from composer.version import __version__ as __version__

if TYPE_CHECKING:
    from composer.runtime.composed_model import ComposedModel as ComposedModel

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
    if name == "ComposedModel":
        from composer.runtime.composed_model import ComposedModel

        return ComposedModel
    raise AttributeError(f"module `composer` has no attribute `{name}`")
