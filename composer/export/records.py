"""What lies beside the graphs of an export: the spec, the plan, the manifest and example requests."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import keras
import tensorflow as tf

from composer.export.manifest import MANIFEST_PATH, Manifest, MemberEntry, SignatureEntry, Versions
from composer.export.protocols import Exportable
from composer.export.rest import request_body
from composer.version import __version__


def write_records(joint: Exportable, signatures: Sequence[SignatureEntry], keep_devices: bool, version: Path) -> None:
    """Write `assets.extra/composer/` into a version's folder."""
    folder = (version / MANIFEST_PATH).parent
    (folder / "requests").mkdir(parents=True)
    spec = joint.spec_text.encode()
    (folder / "spec.mgpu").write_bytes(spec)
    (folder / "plan.txt").write_text(joint.plan.to_text() + "\n", encoding="utf-8")
    (folder / "plan.json").write_text(joint.plan.to_json() + "\n", encoding="utf-8")
    for signature in signatures:
        if signature.request is not None:
            (folder / signature.request).write_text(json.dumps(request_body(signature)) + "\n", encoding="utf-8")
    manifest = Manifest(
        created=datetime.now(timezone.utc).replace(microsecond=0),
        versions=_versions(),
        spec_sha256=hashlib.sha256(spec).hexdigest(),
        keep_devices=keep_devices,
        members=_members(joint),
        signatures=tuple(signatures),
    )
    (version / MANIFEST_PATH).write_text(manifest.to_json(), encoding="utf-8")


def _members(joint: Exportable) -> tuple[MemberEntry, ...]:
    return tuple(
        MemberEntry(
            name=name,
            model=member.plan.member.model,
            source=joint.member_source(name),
            parameters=member.model.count_params(),
            signature=name,
        )
        for name, member in joint.members.items()
    )


def _versions() -> Versions:
    return Versions(
        composer=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
    )
