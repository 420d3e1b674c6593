"""Numbered folders that appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from composer.errors import ExportError
from composer.export.version_folder import staged_version, versions
from tests.export.joint import ROOT, names_in

HOLD = """
import sys, time
from pathlib import Path
from composer.export.version_folder import staged_version
with staged_version(Path(sys.argv[1])) as (folder, publish):
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def write(base: Path, text: str = "whole", version: int | None = None) -> Path:
    with staged_version(base, version) as (folder, publish):
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text(text)
        return publish()


def holder(base: Path) -> subprocess.Popen[str]:
    """A process that has begun to write a version and goes on for long."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(base)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_versions_count_up_from_the_highest_number(tmp_path: Path) -> None:
    base = tmp_path / "new" / "fleet"
    assert write(base) == base / "1"
    assert write(base) == base / "2"
    (base / "0041").mkdir()
    (base / "v99").mkdir()
    (base / "models.config").write_text("")
    assert write(base) == base / "42"
    assert versions(base) == [1, 2, 41, 42]
    assert (base / "42" / "sub" / "file").read_text() == "whole"


def test_a_version_can_be_asked_for_but_never_replaced(tmp_path: Path) -> None:
    assert write(tmp_path, "first", version=7) == tmp_path / "7"
    with pytest.raises(ExportError, match=r"MG606.*version 7 is there already"):
        write(tmp_path, "second", version=7)
    assert (tmp_path / "7" / "sub" / "file").read_text() == "first"
    assert names_in(tmp_path) == ["7"]
    with pytest.raises(ExportError, match=r"whole number from 1\. Received: 0"):
        write(tmp_path, version=0)


def test_nothing_is_published_when_the_block_fails(tmp_path: Path) -> None:
    write(tmp_path)

    def fail() -> None:
        with staged_version(tmp_path) as (folder, _):
            (folder / "half").write_text("half")
            assert names_in(tmp_path) == sorted(["1", folder.name])
            raise RuntimeError("the middle")

    with pytest.raises(RuntimeError, match="the middle"):
        fail()
    assert names_in(tmp_path) == ["1"]


def test_two_writers_at_once_get_two_versions(tmp_path: Path) -> None:
    with staged_version(tmp_path) as (first, publish_first), staged_version(tmp_path) as (second, publish_second):
        (first / "file").write_text("first")
        (second / "file").write_text("second")
        assert publish_second() == tmp_path / "1"
        assert publish_first() == tmp_path / "2"
    assert (tmp_path / "1" / "file").read_text() == "second"
    assert (tmp_path / "2" / "file").read_text() == "first"


def test_a_number_taken_in_the_last_moment_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def late(folder: Path, target: Path) -> Path:
        if target.name == "1":
            target.mkdir()
            (target / "file").write_text("the other's")
        return rename(folder, target)

    monkeypatch.setattr(Path, "rename", late)
    assert write(tmp_path) == tmp_path / "2"
    assert (tmp_path / "1" / "file").read_text() == "the other's"


def test_what_a_killed_writer_left_is_removed_and_a_living_one_is_left_alone(tmp_path: Path) -> None:
    dead, alive = holder(tmp_path), holder(tmp_path)
    try:
        dead.kill()
        dead.wait()
        left = names_in(tmp_path)
        assert len(left) == 2
        write(tmp_path)
        (temporary,) = set(names_in(tmp_path)) - {"1"}
        assert temporary.startswith(f".tmp-{alive.pid}-")
        assert (tmp_path / temporary / "half").read_text() == "half"
    finally:
        for process in (dead, alive):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_a_version_is_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        version = write(tmp_path)
    finally:
        os.umask(before)
    assert version.stat().st_mode & 0o777 == 0o755


def test_everything_is_flushed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(Path(f"/proc/self/fd/{fd}").readlink().name), sync(fd))[1]
    )
    monkeypatch.setattr(Path, "rename", lambda folder, to: (events.append("rename"), rename(folder, to))[1])
    with staged_version(tmp_path) as (folder, publish):
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("whole")
        publish()
    assert events == ["file", "sub", folder.name, "rename", tmp_path.name]
