"""`composer fmt`: in place, whole or not at all, comments kept."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run

UGLY = "parallel( a,b   x2 )on gpus = 2 # both\n"
NEAT = "parallel(a, b x2) on gpus=2  # both\n"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("spec.mgpu")
    path.write_text(UGLY)
    return path


def test_rewrites_in_place(run: Run, spec: Path) -> None:
    spec.chmod(0o640)
    ended = run("fmt", spec)
    assert (ended.code, ended.out, ended.err) == (0, "formatted spec.mgpu\n", "")
    assert spec.read_text() == NEAT
    assert spec.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in Path.cwd().iterdir()] == ["spec.mgpu"]
    before = spec.stat().st_mtime_ns
    assert run("fmt", spec).out == ""
    assert spec.stat().st_mtime_ns == before


def test_a_link_stays_a_link(run: Run, spec: Path) -> None:
    link = Path("link.mgpu")
    link.symlink_to(spec)
    assert run("fmt", link).code == 0
    assert link.is_symlink()
    assert spec.read_text() == NEAT


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_only_looks(run: Run, spec: Path, option: str) -> None:
    ended = run("fmt", spec, option)
    assert ended.code == 1
    assert spec.read_text() == UGLY
    spec.write_text(NEAT)
    assert run("fmt", spec, option).code == 0


def test_check_lists_and_diff_shows(run: Run, spec: Path) -> None:
    assert run("fmt", spec, "--check").out == "would format spec.mgpu\n"
    lines = run("fmt", spec, "--diff").out.splitlines()
    assert f"-{UGLY.strip()}" in lines
    assert f"+{NEAT.strip()}" in lines


def test_standard_input_to_standard_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(UGLY.encode())))
    assert run("fmt", "-").out == NEAT


def test_faulty_spec_is_left_and_the_others_are_formatted(run: Run, spec: Path) -> None:
    Path("faulty.mgpu").write_text("parallel( a,")
    ended = run("fmt", "faulty.mgpu", spec)
    assert ended.code == 1
    assert "error[MG1" in ended.err
    assert Path("faulty.mgpu").read_text() == "parallel( a,"
    assert spec.read_text() == NEAT


def test_a_full_disk_leaves_the_file(run: Run, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ended = run("fmt", spec)
    assert ended.code == 1
    assert ended.err == "error: spec.mgpu cannot be rewritten, and is as it was: No space left on device\n"
    assert spec.read_text() == UGLY
    assert [path.name for path in Path.cwd().iterdir()] == ["spec.mgpu"]
