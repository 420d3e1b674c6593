"""Folders that cannot be written: the message says where, and earlier versions stay as they are."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import composer
from composer.errors import ExportError
from tests.export.joint import names_in
from tests.helpers import net

NOBODY = 65534


@pytest.fixture(scope="module")
def joint() -> Any:
    return composer.compile("parallel(a)", a=net())


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that may be read, not written; root, whom no mode stops, becomes nobody meanwhile."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_read_only_folder_is_said(joint: Any, tmp_path: Path) -> None:
    joint.export(tmp_path)
    with (
        read_only(tmp_path),
        pytest.raises(
            ExportError, match=rf"(?s)MG605.*into {re.escape(str(tmp_path))}: Permission denied.*earlier versions"
        ),
    ):
        joint.export(tmp_path)
    assert names_in(tmp_path) == ["1"]


@pytest.mark.parametrize("path", ["file", "file/fleet"])
def test_a_file_in_the_way_is_said(joint: Any, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ExportError, match=rf"MG605.*{path}: (File exists|Not a directory)"):
        joint.export(tmp_path / path)
    assert (tmp_path / "file").read_text() == "mine"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow past a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [64, 3_000], ids=["variables", "graphs"])
def test_a_full_disk_is_said(joint: Any, tmp_path: Path, size: int) -> None:
    joint.export(tmp_path)
    with (
        files_of_at_most(size),
        pytest.raises(ExportError, match=r"(?s)MG605.*nothing was written, and earlier versions"),
    ):
        joint.export(tmp_path)
    assert names_in(tmp_path) == ["1"]
