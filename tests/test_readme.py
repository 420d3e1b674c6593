"""The README tells the truth: its Python runs, its commands print what it shows, its table is the registry.

A fenced block marked `python` is run, all of them in order in one namespace. In a block marked `console` each line
after `$ ` is run, and what it prints must be the lines below it, where a line of `...` stands for any lines and `...`
inside a line for anything. Measured figures differ from machine to machine: a number with a decimal fraction stands for
any number, and so does every number that `composer fit` prints. Blocks marked `sh` hold the two set-up commands;
`.ci/run` runs the second.
"""

from __future__ import annotations

import json
import os
import re
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
FRACTION = re.compile(r"\d[\d,]*\.\d+(?:e[+-]?\d+)?")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


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


def comparable(text: str, number: re.Pattern[str]) -> str:
    """A text with its figures masked and runs of blanks, which depend on their width, made one."""
    return re.sub(r"[ \t]+", " ", number.sub("<number>", text)).strip()


def pattern_of(output: str) -> str:
    """The regular expression that shown output stands for."""
    return "\n".join(
        ".*" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", "[^\n]*?") for line in output.split("\n")
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, since the commands write beside them, and a `bin` with the names the README uses."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()
    for name, arguments in (("composer", "-m composer"), ("mgpu", "-m composer"), ("python", "")):
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return folder


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as printed, in a shell."""
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "160",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    return subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_prints(command: Command, ran: subprocess.CompletedProcess[str]) -> None:
    """Asserts that a command ended as shown: what it shows may be on either stream, diagnostics first."""
    number = NUMBER if command.line.startswith("composer fit") else FRACTION
    printed = comparable(ran.stderr + ran.stdout, number)
    assert ran.returncode == (1 if "error[" in command.output else 0), f"$ {command.line}\n{printed}"
    if command.output:
        shown = comparable(command.output, number)
        assert re.fullmatch(pattern_of(shown), printed, re.DOTALL), (
            f"$ {command.line}\nThe README shows:\n{shown}\nIt printed:\n{printed}"
        )


def test_commands_print_what_the_readme_shows(checkout: Path) -> None:
    found = commands()
    assert len(found) >= 8
    for command in found:
        assert_prints(command, run(command.line, checkout))
    history = json.loads((checkout / "runs" / "quickstart" / "history.json").read_text(encoding="utf-8"))
    assert history["digits"]["val_accuracy"][-1] > 0.95
    assert history["wine"]["val_accuracy"][-1] > 0.9


def test_python_runs_in_order(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import composer

    found = blocks("python")
    assert len(found) >= 3
    composer.simulate(4)
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
    table = "\n".join(f"| {code} | {row.slug} | {row.summary} |" for code, row in CODES.items())
    found = "\n".join(f"| {' | '.join(row)} |" for row in TABLE_ROW.findall(README))
    assert found == table, f"the README's table should be\n{table}"


def test_set_up_commands_are_one_line_each_and_ci_runs_the_second() -> None:
    train, check = (block.strip() for block in blocks("sh")[:2])
    for line in (train, check):
        assert "\n" not in line
        assert line.startswith("python3 -m venv .venv && ")
    assert check in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    verbs = [part.strip().removeprefix(".venv/bin/") for part in train.split("&&")]
    printed = [command.line for command in commands()]
    tried = [verb for verb in verbs if verb.startswith("composer ")]
    assert [verb.split()[1] for verb in tried] == ["fit", "compile"]
    for verb in tried:
        assert verb in printed, f"`{verb}` is not among the commands that are tried"


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
