"""Golden plans: each sound spec of `specs/valid` with the plan that `composer.plan` makes of it.

To add one, write the spec and run `UPDATE_GOLDEN=1 python -m pytest tests/compiler/test_golden_plans.py`; read what was
written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import composer
from composer.compiler.schema import validate_plan

FOLDER = Path(__file__).parents[1] / "specs" / "valid"
SPECS = sorted(FOLDER.glob("*.mgpu"))
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_spec_has_its_golden_plan(spec: Path) -> None:
    golden = spec.with_suffix(".plan")
    text = f"{composer.plan(spec)}\n"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_spec_is_clean_and_its_plan_fits_the_schema(spec: Path) -> None:
    assert composer.check(spec) == []
    validate_plan(composer.plan(spec).to_dict())


def test_no_golden_plan_without_a_spec() -> None:
    assert {path.stem for path in FOLDER.glob("*.plan")} == {spec.stem for spec in SPECS}
