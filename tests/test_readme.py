"""The README tells the truth: its Python runs, its commands print what it shows, its table is the registry.

A fenced block marked `python` is run, all of them in order in one namespace. In a block marked `console` each line
after `$ ` is run, and what it prints must be the lines below it, where a line of `...` stands for any lines, and `...`
inside a line for anything. Blocks marked `sh` hold the two set-up commands; `.ci/run` runs the second.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from composer.diagnostics import CODES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^\| (MG\d{3}) \| ([a-z0-9-]+) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """One command of a `console` block and what the README says it prints."""

    line: str
    output: str


def blocks(kind: str) -> list[str]:
    return [match["text"] for match in BLOCK.finditer(README) if match["kind"] == kind]


def commands() -> list[Command]:
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            found.append(Command(line, output.strip("\n")))
    return found


def pattern_of(output: str) -> str:
    """The regular expression that shown output stands for."""
    lines = [
        ".*" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*?") for line in output.split("\n")
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, since the commands write beside them."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as printed, with `composer`, `mgpu` and `python` being those of this environment."""
    words = shlex.split(line)
    head = {
        "composer": [sys.executable, "-m", "composer"],
        "mgpu": [sys.executable, "-m", "composer"],
        "python": [sys.executable],
    }[words[0]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(
        [*head, *words[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_commands_print_what_the_readme_shows(checkout: Path) -> None:
    found = commands()
    assert len(found) >= 8
    for command in found:
        ran = run(command.line, checkout)
        assert ran.returncode in {0, 1}, f"$ {command.line}\n{ran.stdout}"
        assert ("error[" in command.output) == (ran.returncode == 1), f"$ {command.line}\n{ran.stdout}"
        if command.output:
            assert re.fullmatch(pattern_of(command.output), ran.stdout.strip("\n"), re.DOTALL), (
                f"$ {command.line}\nThe README shows:\n{command.output}\nIt printed:\n{ran.stdout}"
            )


@pytest.mark.slow
def test_python_runs_in_order(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks("python")
    assert len(found) >= 3
    monkeypatch.chdir(checkout)
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in found:
        exec(compile(block, "README.md", "exec"), namespace)


def test_specs_have_no_faults(checkout: Path) -> None:
    import composer

    found = blocks("mgpu")
    assert len(found) >= 3
    for number, block in enumerate(found):
        spec = checkout / "examples" / f"readme_{number}.mgpu"
        spec.write_text(block, encoding="utf-8")
        faults = [fault for fault in composer.check(spec) if fault.severity == "error"]
        assert not faults, (block, faults)


def test_first_spec_is_the_quickstart() -> None:
    quickstart = (ROOT / "examples" / "quickstart.mgpu").read_text(encoding="utf-8")
    assert blocks("mgpu")[0] == quickstart


def test_table_of_codes_is_the_registry() -> None:
    rows = {code: (slug, summary) for code, slug, summary in TABLE_ROW.findall(README)}
    assert rows == {code: (row.slug, row.summary.replace("|", "\\|")) for code, row in CODES.items()}


def test_set_up_commands_are_one_line_each_and_ci_runs_the_second() -> None:
    train, check = (block.strip() for block in blocks("sh")[:2])
    for line in (train, check):
        assert "\n" not in line
        assert line.startswith("python3 -m venv .venv && ")
    assert check in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    verbs = [part.strip().removeprefix(".venv/bin/") for part in train.split("&&")]
    printed = [command.line for command in commands()]
    assert [verb for verb in verbs if verb.startswith("composer ")]
    for verb in verbs:
        assert not verb.startswith("composer ") or verb in printed, f"`{verb}` is not among the commands that are tried"


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
