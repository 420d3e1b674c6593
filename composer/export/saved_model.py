"""`export_saved_model`: a joint model as a SavedModel that any TensorFlow server loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from composer.errors import ComposerError
from composer.export.device_strings import strip_device_strings
from composer.export.faults import export_error, export_errors, not_written, reason
from composer.export.names import reserved_name_faults
from composer.export.protocols import Exportable
from composer.export.records import write_records
from composer.export.traced import Traced, trace
from composer.export.version_folder import staged_version

OnStep = Callable[[str], None]


def export_saved_model(
    joint: Exportable,
    directory: str | Path,
    *,
    keep_devices: bool = False,
    force_version: int | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Write a joint model as the next version of a SavedModel.

    Each member has a signature of its own name, with its model's own input and output names (characters that TensorFlow
    takes in no name become underscores); `serving_default` runs all members. There an input is named `<member>`, or
    `<member>_<input>` where the member has several, and outputs likewise; each member's number of rows is its own.
    Variables are stored once. The version's `assets.extra/composer/` holds the spec, the plan, a manifest and an
    example request a signature.

    Args:
        joint: the joint model; it and its members are not changed.
        directory: the folder of all versions; made where it is missing.
        keep_devices: keep the replicas and the names of their devices in the graphs. Otherwise each member is one
            un-placed call, which loads whatever devices there are.
        force_version: the version to write, from 1, instead of the next; refused where it is there already.
        on_step: called with a short description before each step.

    Returns:
        The folder of the version, `directory/<number>`.

    Raises:
        ExportError: nothing was written; earlier versions are as they were. The code says why (MG601 to MG606).

    Example:
        >>> export_saved_model(joint, "export/fleet").as_posix()
        'export/fleet/1'
    """
    base = Path(directory)
    report = on_step or (lambda step: None)
    faults = reserved_name_faults(
        {name: each.plan.member.span for name, each in joint.members.items()}, joint.spec_text
    )
    if faults:
        raise export_errors(faults)
    with _write_errors(base), staged_version(base, force_version) as (folder, publish):
        report("trace members")
        traced = trace(joint, keep_devices)
        report("write graphs and variables")
        _write_graphs(traced, folder)
        if not keep_devices:
            report("strip device names")
            strip_device_strings(folder)
        report("write manifest")
        write_records(joint, traced.signatures, keep_devices, folder)
        report("publish")
        return publish()


def _write_graphs(traced: Traced, folder: Path) -> None:
    try:
        traced.archive.write_out(str(folder), verbose=False)
    except (OSError, tf.errors.OpError):
        raise
    except Exception as error:  # TensorFlow raises AssertionError, TypeError and others for what it cannot save
        raise export_error(
            "MG604",
            f"TensorFlow cannot save the graphs: {reason(error)}",
            "use variables, tables and other resources only as attributes of a member's layers",
        ) from error


@contextmanager
def _write_errors(base: Path) -> Iterator[None]:
    """Turns what the file system refuses into an `ExportError` that says where."""
    try:
        yield
    except ComposerError:
        raise
    except (OSError, tf.errors.OpError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        where = getattr(error, "filename", None)
        raise not_written(base, " ".join(str(why).split()) + (f" ({where})" if where else "")) from error
