"""Reading an export back from its manifest. Neither TensorFlow nor NumPy is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from composer.errors import ExportError
from composer.export.faults import export_error
from composer.export.manifest import MANIFEST_PATH, Manifest, SignatureEntry, TensorEntry
from composer.export.rest import has_request_body as has_request_body
from composer.export.rest import request_body as request_body
from composer.export.version_folder import versions

GRAPH_FILE = "saved_model.pb"


@dataclass(frozen=True, slots=True)
class Export:
    """One version of an export: where it lies and what it holds."""

    path: Path
    manifest: Manifest

    def signature(self, name: str) -> SignatureEntry:
        """The signature of a name.

        Raises:
            KeyError: there is none; the message lists those there are.
        """
        for entry in self.manifest.signatures:
            if entry.name == name:
                return entry
        raise KeyError(f"no signature `{name}`. Expected one of: {', '.join(e.name for e in self.manifest.signatures)}")


def read_export(path: str | Path) -> Export:
    """Read the manifest of an export.

    Args:
        path: the folder of all versions, of which the newest is read, or the folder of one version.

    Raises:
        ExportError: MG607, there is no export, or its manifest cannot be read.

    Example:
        >>> joint.export(folder).name
        '1'
        >>> export = read_export(folder)
        >>> [(entry.name, entry.members) for entry in export.manifest.signatures]
        [('a', ('a',)), ('b', ('b',)), ('serving_default', ('a', 'b'))]
        >>> request_body(export.signature("serving_default"), rows=0)["inputs"]
        {'a': [], 'b': []}
    """
    folder = _version_folder(Path(path))
    file = folder / MANIFEST_PATH
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _not_an_export(
            f"{folder} holds a SavedModel that composer did not write: it has no {MANIFEST_PATH}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise _not_an_export(f"the manifest {file} cannot be read: {error}") from error
    try:
        return Export(folder, Manifest.model_validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise _not_an_export(
            f"the manifest {file} does not have the shape of a composer manifest: {place}: {first['msg']}"
        ) from error


def _version_folder(path: Path) -> Path:
    if not path.is_dir():
        raise _not_an_export(f"{path} is " + ("no folder" if path.exists() else "not there"))
    if (path / GRAPH_FILE).exists() or (path / MANIFEST_PATH).exists():
        return path
    try:
        numbers = versions(path)
    except OSError as error:
        raise _not_an_export(f"{path} cannot be read: {error.strerror}") from error
    if not numbers:
        raise _not_an_export(f"{path} holds no version: none of its folders has a number for a name")
    newest = next(entry for entry in path.iterdir() if entry.name.isdecimal() and int(entry.name) == numbers[-1])
    if not (newest / GRAPH_FILE).exists():
        raise _not_an_export(f"the newest version, {newest}, holds no {GRAPH_FILE}")
    return newest


def _not_an_export(message: str) -> ExportError:
    return export_error(
        "MG607", message, "give the folder that `composer compile -o` wrote, or one of the numbered versions in it"
    )


def describe(export: Export) -> str:
    """The members and signatures of an export as a text table, without a line end behind the last line."""
    manifest, by = export.manifest, export.manifest.versions
    devices = "replicas and device names kept" if manifest.keep_devices else "no device names"
    lines = [
        f"{export.path}, written {manifest.created:%Y-%m-%d %H:%M:%S} UTC",
        f"composer {by.composer}, TensorFlow {by.tensorflow}, Keras {by.keras}, Python {by.python}; {devices}",
        "",
        *_table(
            ("member", "model", "source", "parameters"),
            ((entry.name, entry.model, entry.source, f"{entry.parameters:,}") for entry in manifest.members),
            right={3},
        ),
        "",
        *_table(("signature", "", "name", "type", "shape"), _signature_rows(manifest.signatures)),
    ]
    return "\n".join(lines)


def _signature_rows(signatures: Iterable[SignatureEntry]) -> Iterator[tuple[str, ...]]:
    for signature in signatures:
        label = signature.name
        for direction, tensors in (("in", signature.inputs), ("out", signature.outputs)):
            for tensor in tensors:
                yield label, direction, tensor.name, tensor.dtype, _shape(tensor)
                label = direction = ""


def _shape(tensor: TensorEntry) -> str:
    if tensor.shape is None:
        return "any"
    names = [
        "n" if size is None and axis == 0 else "?" if size is None else str(size)
        for axis, size in enumerate(tensor.shape)
    ]
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] | set[int] = frozenset()
) -> Iterator[str]:
    """Lines of a table: columns as wide as their longest entry, those in `right` aligned there."""
    cells = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        aligned = (
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(aligned).rstrip()
