"""Reading an export back from its manifest alone."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from composer.errors import ExportError
from composer.export.inspect import describe, read_export, request_body
from composer.export.manifest import (
    MANIFEST_PATH,
    Manifest,
    MemberEntry,
    SignatureEntry,
    TensorEntry,
    Versions,
    manifest_schema,
)
from tests.export.joint import ROOT, run_python

SCHEMA = ROOT / "composer" / "export" / "manifest.schema.json"


def tensor(name: str, dtype: str, *shape: int | None, example: tuple[int, ...] = ()) -> TensorEntry:
    return TensorEntry(name=name, dtype=dtype, shape=shape, own_name=name, member="a", example_shape=example)


def signature(*inputs: TensorEntry) -> SignatureEntry:
    out = tensor("label", "float32", None, 2)
    return SignatureEntry(name="a", members=("a",), inputs=inputs, outputs=(out,), request="requests/a.json")


def write(folder: Path, parameters: int = 8) -> Path:
    manifest = Manifest(
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        versions=Versions(composer="0.1.0", tensorflow="2.21.0", keras="3.15.1", python="3.11.7"),
        spec_sha256="0" * 64,
        keep_devices=False,
        members=(MemberEntry(name="a", model="net", source="net.keras", parameters=parameters, signature="a"),),
        signatures=(signature(tensor("x", "float32", None, 3, example=(3,)), tensor("word", "string", None)),),
    )
    (folder / MANIFEST_PATH).parent.mkdir(parents=True)
    (folder / MANIFEST_PATH).write_text(manifest.to_json())
    (folder / "saved_model.pb").write_bytes(b"")
    return folder


def test_an_export_is_described_without_a_framework(tmp_path: Path) -> None:
    write(tmp_path / "1", parameters=12_345)
    code = (
        "import sys\nfrom composer.export.inspect import describe, read_export\n"
        "print(describe(read_export(sys.argv[1])))\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    assert run_python(code, tmp_path).stdout == (
        f"{tmp_path}/1, written 2026-01-02 03:04:05 UTC\n"
        "composer 0.1.0, TensorFlow 2.21.0, Keras 3.15.1, Python 3.11.7; no device names\n"
        "\n"
        "member  model  source     parameters\n"
        "a       net    net.keras      12,345\n"
        "\n"
        "signature       name   type     shape\n"
        "a          in   x      float32  (n, 3)\n"
        "                word   string   (n,)\n"
        "           out  label  float32  (n, 2)\n"
    )


def test_the_newest_version_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    for number in (2, 10, 9):
        write(tmp_path / str(number), parameters=number)
    (tmp_path / ".tmp-1-abc").mkdir()
    assert read_export(tmp_path).manifest.members[0].parameters == 10
    assert read_export(str(tmp_path / "9")).manifest.members[0].parameters == 9
    assert describe(read_export(tmp_path)).startswith(f"{tmp_path / '10'}, written")


def test_a_signature_is_found_by_name(tmp_path: Path) -> None:
    export = read_export(write(tmp_path / "1"))
    assert export.signature("a").inputs[1].name == "word"
    with pytest.raises(KeyError, match=r"no signature `b`\. Expected one of: a"):
        export.signature("b")


def test_a_request_body_has_the_rows_types_and_shapes_of_the_signature() -> None:
    entry = signature(
        tensor("x", "float32", None, 2, example=(2,)),
        tensor("tokens", "int64", None, None, example=(3,)),
        tensor("word", "string", None),
        tensor("state", "bool", 4, 1, example=(1,)),
    )
    assert request_body(entry, rows=2) == {
        "signature_name": "a",
        "inputs": {
            "x": [[0.0, 0.0], [0.0, 0.0]],
            "tokens": [[0, 0, 0], [0, 0, 0]],
            "word": ["", ""],
            "state": [[False], [False], [False], [False]],
        },
    }
    assert request_body(entry, rows=0)["inputs"]["x"] == []
    with pytest.raises(ValueError, match=r"0 or more\. Received: rows=-1"):
        request_body(entry, rows=-1)
    with pytest.raises(ValueError, match="JSON cannot carry the input `z` of the signature `a`: its type is complex64"):
        request_body(signature(tensor("z", "complex64", None)))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: None, "holds no version"),
        (lambda folder: (folder / "3").mkdir(), r"the newest version, .*3, holds no saved_model.pb"),
        (lambda folder: (folder / "saved_model.pb").write_bytes(b""), "SavedModel that composer did not write"),
        (
            lambda folder: write(folder) and (folder / MANIFEST_PATH).write_text("{"),
            "does not have the shape of a composer",
        ),
        (lambda folder: write(folder) and (folder / MANIFEST_PATH).write_text("[1]"), "does not have the shape"),
        (lambda folder: write(folder) and (folder / MANIFEST_PATH).write_bytes(b"\xff"), "cannot be read"),
        (lambda folder: _set(write(folder), "format_version", 2), "format_version: Input should be 1"),
        (lambda folder: _set(write(folder), "members", None), "members: Input should be a valid"),
    ],
)
def test_what_is_no_export_is_said(tmp_path: Path, break_it: object, message: str) -> None:
    break_it(tmp_path)  # type: ignore[operator]
    with pytest.raises(ExportError, match=rf"(?s)MG607.*{message}.*give the folder that `composer compile -o` wrote"):
        read_export(tmp_path)


def test_a_path_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="file is no folder"):
        read_export(tmp_path / "file")
    with pytest.raises(ExportError, match="nothing is not there"):
        read_export(tmp_path / "nothing")


def test_the_schema_is_published_as_it_is() -> None:
    assert json.loads(SCHEMA.read_text()) == manifest_schema()


def _set(folder: Path, key: str, value: object) -> None:
    file = folder / MANIFEST_PATH
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
