"""What an export needs to know of a joint model, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import keras

from composer.compiler.plan import MemberPlan, Plan
from composer.graph.layers import PlacedReplicas


class ExportableMember(Protocol):
    """One member: the user's own model, and the layer that runs it placed over its replicas."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> keras.Model:
        """The user's own model, without any placement."""

    @property
    def layer(self) -> PlacedReplicas:
        """Calls the model once a replica, each call on its own device."""

    @property
    def merge(self) -> str:
        """TensorFlow name of the device on which the replicas' outputs are joined."""

    @property
    def plan(self) -> MemberPlan: ...


class Exportable(Protocol):
    """A joint model, as `export_saved_model` sees it."""

    @property
    def members(self) -> Mapping[str, ExportableMember]:
        """By name, in the order of the spec."""

    @property
    def plan(self) -> Plan: ...

    @property
    def spec_text(self) -> str: ...

    def member_source(self, name: str) -> str:
        """Where a member's model comes from: a path, a factory as it is written, or `python`."""
