"""The manifest of an export: what is in it, readable without TensorFlow; `manifest_schema` is its JSON Schema."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MANIFEST_PATH = "assets.extra/composer/manifest.json"
"""Where the manifest lies in a version's folder."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True)


class TensorEntry(_Entry):
    """One input or output of a signature."""

    name: str = Field(description="The name in the signature.")
    dtype: str = Field(description="TensorFlow's name of the type, e.g. `float32`.")
    shape: tuple[int | None, ...] | None = Field(
        description="The batch axis first; null for an open axis, and for the whole shape where the rank is not known."
    )
    own_name: str = Field(description="The name in the member's model.")
    member: str = Field(description="The member it belongs to.")
    example_shape: tuple[int, ...] | None = Field(
        default=None, description="Of an input: the shape without the batch axis that the example request uses."
    )


class SignatureEntry(_Entry):
    """One signature: what a request names, gives and gets."""

    name: str
    members: tuple[str, ...] = Field(description="The members that run.")
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    request: str | None = Field(
        description="An example request body, relative to the manifest; null where JSON cannot hold one."
    )


class MemberEntry(_Entry):
    """One member of the composition."""

    name: str
    model: str = Field(
        description="The model's name in the spec; members with the same one share weights unless they are copies."
    )
    source: str = Field(description="A path, a factory as it is written in the spec, or `python`.")
    parameters: int = Field(description="Number of weight elements.")
    signature: str = Field(description="The member's own signature.")


class Versions(_Entry):
    """What wrote the export."""

    composer: str
    tensorflow: str
    keras: str
    python: str


class Manifest(_Entry):
    """What an export holds."""

    format: Literal["composer-export"] = "composer-export"
    format_version: Literal[1] = 1
    created: datetime = Field(description="UTC.")
    versions: Versions
    spec_sha256: str = Field(description="Of `spec.mgpu`, the file beside the manifest.", pattern="^[0-9a-f]{64}$")
    keep_devices: bool = Field(description="Whether the graph holds replicas and device names.")
    members: tuple[MemberEntry, ...] = Field(description="In the order of the spec.")
    signatures: tuple[SignatureEntry, ...] = Field(
        description="The members' own in the order of the spec, then the joint one."
    )

    def to_json(self) -> str:
        """The text of `manifest.json`."""
        return self.model_dump_json(indent=2) + "\n"


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of `manifest.json` (draft 2020-12)."""
    schema = Manifest.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
