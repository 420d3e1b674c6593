"""Taking device names out of a written SavedModel.

Even a graph that was traced without any placement has some: TensorFlow writes the device of each variable on the
nodes that save and restore it, and a user's own layer may open a device scope. A server whose devices are named
otherwise refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2

GRAPH_FILE = "saved_model.pb"
FINGERPRINT_FILE = "fingerprint.pb"


def device_strings(folder: Path) -> set[str]:
    """All device names in the graphs of a SavedModel, those in its function library included."""
    return {holder.device for holder in _holders(read_graph(folder)) if holder.device}


def strip_device_strings(folder: Path) -> None:
    """Rewrite the graphs of a SavedModel without device names, so that whoever loads it places it."""
    saved = read_graph(folder)
    for holder in _holders(saved):
        holder.device = ""
    (folder / GRAPH_FILE).write_bytes(saved.SerializeToString(deterministic=True))
    _renew_fingerprint(folder)


def read_graph(folder: Path) -> Any:
    """The `SavedModel` message of a SavedModel's folder."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / GRAPH_FILE).read_bytes())
    return saved


def _holders(saved: Any) -> Iterator[Any]:
    """Every message with a device: nodes, functions' nodes, variables and resources among the saved objects."""
    for meta_graph in saved.meta_graphs:
        yield from meta_graph.graph_def.node
        for function in meta_graph.graph_def.library.function:
            yield from function.node_def
        for node in meta_graph.object_graph_def.nodes:
            if node.HasField("variable"):
                yield node.variable
            if node.HasField("resource"):
                yield node.resource


def _renew_fingerprint(folder: Path) -> None:
    """The fingerprint is a checksum of the graphs. It is optional: better none than one that does not fit."""
    (folder / FINGERPRINT_FILE).unlink(missing_ok=True)
    with suppress(ImportError, AttributeError, ValueError):
        from tensorflow.python.saved_model import fingerprinting_utils

        fingerprinting_utils.write_fingerprint(str(folder))
