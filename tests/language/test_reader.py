"""Reading spec files, and what is none."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from composer.errors import SpecError
from composer.language.parser import parse
from composer.language.reader import read_spec


def refused(path: Path, match: str) -> SpecError:
    with pytest.raises(SpecError, match=match) as caught:
        read_spec(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_file_is_text_with_its_name_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "cellar.mgpu"
    path.write_bytes("\ufeffparallel(a)  # größe\r\n".encode())
    source = read_spec(path)
    assert source.text == "parallel(a)  # größe\r\n"
    assert (source.name, source.folder) == (str(path), tmp_path)
    assert len(parse(source).statements) == 1


def test_missing_file_offers_a_near_name(tmp_path: Path) -> None:
    (tmp_path / "cellar.mgpu").write_text("parallel(a)")
    error = refused(tmp_path / "celar.mgpu", r"MG101\]: the spec file cannot be read: it does not exist")
    assert error.diagnostics[0].help == ("did you mean `cellar.mgpu`?",)
    error = refused(tmp_path / "other.mgpu", "MG101")
    assert error.diagnostics[0].help == ("specs in that folder: cellar.mgpu",)
    error = refused(tmp_path / "no" / "other.mgpu", "MG101")
    assert error.diagnostics[0].help == (f"there is no folder `{tmp_path / 'no'}`",)


def test_folder_and_impossible_name_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, r"MG101\]: the spec file cannot be read: it is a folder")
    with pytest.raises(SpecError, match=r"MG101.*null"):
        read_spec("a\0b.mgpu")


def test_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cellar.mgpu"
    path.write_text("parallel(a)")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    refused(path, "MG101.*Permission denied")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"parallel(a)\n# caf\xe9\n", "byte 0xe9 in line 2 fits no character"),
        ("parallel(a)".encode("utf-16"), "is UTF-16 text, expected UTF-8"),
        (b"\x7fELF\0\0\0", "is binary, not a text"),
        (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"),
        (b"a" * 3 + b"\0", "is binary"),
    ],
)
def test_file_without_text_is_refused(tmp_path: Path, data: bytes, match: str) -> None:
    path = tmp_path / "cellar.mgpu"
    path.write_bytes(data)
    refused(path, f"MG102.*{match}")


def test_model_given_for_a_spec_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "wine.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
    error = refused(path, "MG102.*is an archive or a `.keras` model")
    assert error.diagnostics[0].help == ('name it in a spec: `model a = "file.keras"`',)


def test_huge_file_is_refused_before_it_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("composer.language.reader._LARGEST", 2**20)
    path = tmp_path / "huge.mgpu"
    path.write_text("#" * (2**20 + 1))
    refused(path, "MG102.*larger than 1 MiB")


def test_empty_file_is_read_and_refused_by_the_parser(tmp_path: Path) -> None:
    path = tmp_path / "empty.mgpu"
    path.touch()
    with pytest.raises(SpecError, match=r"MG103\]: the spec says nothing"):
        parse(read_spec(path))
