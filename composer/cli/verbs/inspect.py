"""`composer inspect`: what an export holds, without TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path

import click

from composer.cli.options import json_option, path_argument, shared_options
from composer.cli.terminal import Terminal
from composer.errors import ExportError
from composer.export.inspect import Export, describe, has_request_body, read_export, request_body
from composer.export.manifest import SignatureEntry

SHOWN_BODY = 1000
"""Characters of a request body that are shown; for a longer one the command that prints it is."""

_EXAMPLES = """\b
Examples:
  composer inspect export/fleet
  composer inspect export/fleet/2 --json | jq '.signatures[].name'
  composer inspect export/fleet --request wine > body.json
  curl -d @body.json http://localhost:8501/v1/models/fleet:predict
"""


@click.command(epilog=_EXAMPLES, short_help="Show what an export holds.")
@path_argument("directory", "DIR")
@json_option
@click.option("--request", metavar="SIGNATURE", help="Print a valid request body for this signature, and nothing else.")
@shared_options(simulate=False)
@click.pass_obj
def command(terminal: Terminal, directory: Path, as_json: bool, request: str | None) -> int:
    """Show the signatures and members of an export, and a request body for each signature.

    DIR is the folder that `composer compile -o` wrote, of which the newest version is read, or one version in it. The
    manifest is read, not the graphs; TensorFlow is not started.
    """
    export = read_export(directory)
    if request is not None:
        terminal.result(_body(_signature(export, request)))
    elif as_json:
        terminal.result(json.dumps({"path": str(export.path), **export.manifest.model_dump(mode="json")}, indent=2))
    else:
        terminal.result(f"{describe(export)}\n\n{_requests(export, directory)}")
    return 0


def _signature(export: Export, name: str) -> SignatureEntry:
    try:
        return export.signature(name)
    except KeyError as error:
        raise ExportError(f"{export.path} has {error.args[0]}") from None


def _requests(export: Export, directory: Path) -> str:
    """A request body for each signature."""
    lines = ["request bodies, for `POST .../v1/models/<name>:predict`"]
    for signature in export.manifest.signatures:
        if not has_request_body(signature):
            lines.append(f"  {signature.name}: none; JSON cannot hold one of its inputs")
            continue
        body = _body(signature)
        shown = body if len(body) <= SHOWN_BODY else f"composer inspect {directory} --request {signature.name}"
        lines.append(f"  {shown}")
    return "\n".join(lines)


def _body(signature: SignatureEntry) -> str:
    try:
        return json.dumps(request_body(signature))
    except ValueError as error:
        raise ExportError(f"there is no request body for `{signature.name}`: {error}") from None
