"""`composer explain`."""

from __future__ import annotations

import pytest

from composer.diagnostics import CODES
from tests.cli.conftest import Run


@pytest.mark.parametrize("name", ["MG203", "mg203", "unknown-model"])
def test_by_code_in_any_case_or_by_name(run: Run, name: str) -> None:
    ended = run("explain", name)
    assert (ended.code, ended.out) == (0, CODES["MG203"].explain)


def test_unknown_code_is_wrong_usage_and_near_ones_are_told(run: Run) -> None:
    ended = run("explain", "MG230")
    assert ended.code == 2
    assert "there is no code 'MG230'. Did you mean MG220 (unused-model), MG210 (device-outside) or MG203" in ended.err
    assert "Did you mean unknown-model?" in run("explain", "unknwon-model").err
    for far in ("xyz", "MG999"):  # there is no family MG9
        assert run("explain", far).err.endswith(f"there is no code '{far}'. `composer explain` lists them all.\n")


def test_lists_every_code(run: Run) -> None:
    lines = run("explain").out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  MG")] == list(CODES)
