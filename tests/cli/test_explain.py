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
    ended = run("explain", "MG998")
    assert ended.code == 2
    assert "there is no code 'MG998'" in ended.err
    assert run("explain", "xyz").err.endswith("there is no code 'xyz'. `composer explain` lists them all.\n")


def test_lists_every_code(run: Run) -> None:
    lines = run("explain").out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  MG")] == list(CODES)
