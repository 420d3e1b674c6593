"""`composer compile`: one SavedModel for all members."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from composer.cli.opening import open_joint
from composer.cli.options import (
    allow_python_option,
    graph_option,
    json_option,
    out_option,
    path_argument,
    shared_options,
)
from composer.cli.status import working
from composer.cli.terminal import Terminal
from composer.export.names import JOINT_SIGNATURE
from composer.export.version_folder import check_export_place

_EXAMPLES = """\b
Examples:
  composer compile fleet.mgpu -o export/fleet
  composer compile runs/first -o export/fleet    # the trained members of a run
  composer inspect export/fleet
"""


@click.command(epilog=_EXAMPLES, short_help="Export all members as one SavedModel.")
@path_argument("spec", "RUN_OR_SPEC")
@out_option("DIR", "The folder of all versions; the next one is written into it.")
@graph_option
@click.option("--keep-devices", is_flag=True, help="Keep replicas and device names, for a server with these devices.")
@allow_python_option
@json_option
@shared_options()
@click.pass_obj
def command(
    terminal: Terminal,
    spec: Path,
    out: Path,
    graph: str | None,
    keep_devices: bool,
    allow_python: bool,
    as_json: bool,
) -> int:
    """Export a spec, or a run of `composer fit`, as DIR/<next integer>, which any TensorFlow server loads.

    There is one signature a member, and `serving_default` for all. A version is written whole or not at all, and
    earlier ones are never touched.
    """
    check_export_place(out)
    joint, _ = open_joint(terminal, spec, graph=graph, allow_python=allow_python)
    with working(terminal, "exporting"), redirect_stdout(sys.stderr):
        version = joint.export(out, keep_devices=keep_devices)
    signatures = [*joint.members, JOINT_SIGNATURE]
    if as_json:
        terminal.result(json.dumps({"path": str(version), "version": int(version.name), "signatures": signatures}))
    else:
        terminal.result(f"{version}: signatures {', '.join(signatures)}")
    return 0
