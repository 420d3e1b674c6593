"""Golden diagnostics: each faulty spec of `specs/invalid` with what `composer.check` says of it.

`MG109_missing_comma.mgpu` shows the code in its name, and `MG109_missing_comma.err` holds the rendered diagnostics. To
add one, write the spec and run `UPDATE_GOLDEN=1 python -m pytest tests/language/test_golden.py`; read what was written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import composer
from composer.diagnostics import CODES, render_text

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "specs" / "invalid"
SPECS = sorted(FOLDER.glob("*.mgpu"))
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"


def rendered(spec: Path) -> str:
    """What `check` says, with the folder masked."""
    text = render_text(composer.check(spec), limit=100)
    return text.replace(f"{FOLDER}{os.sep}", "").replace(f"{FOLDER.parent}{os.sep}", "../") + "\n"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_spec_has_its_golden_diagnostics(spec: Path) -> None:
    golden = spec.with_suffix(".err")
    if UPDATE:
        golden.write_text(rendered(spec), encoding="utf-8")
    assert rendered(spec) == golden.read_text(encoding="utf-8")
    assert f"[{spec.stem.partition('_')[0]}]" in golden.read_text(encoding="utf-8")


def test_no_golden_file_without_a_spec_and_no_spec_without_a_golden_file() -> None:
    stems = {kind: {path.stem for path in FOLDER.glob(f"*.{kind}")} for kind in ("mgpu", "err")}
    assert stems["mgpu"] == stems["err"]
    assert {path.suffix for path in FOLDER.iterdir()} == {".mgpu", ".err"}


def test_every_code_has_a_golden_file_or_is_named_in_a_test() -> None:
    """Codes that no spec alone can trigger are shown by an ordinary test, which names them."""
    shown = {spec.stem.partition("_")[0] for spec in SPECS}
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    assert [code for code in CODES if code not in shown and code not in tests] == []
