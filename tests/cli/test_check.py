"""`composer check` and what all verbs share: where output goes, colours, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run

FAULTY = """\
model wine = "wine.keras"
train wine optimizr=adam
parallel(wine, wime x2) on gpus=2
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("faulty.mgpu").write_text(FAULTY)
    return "faulty.mgpu"


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("sound.mgpu").write_text("parallel(a, b x2) on gpus=2\n")
    return "sound.mgpu"


def test_sound_spec(run: Run, sound: str) -> None:
    ended = run("check", sound)
    assert (ended.code, ended.out, ended.err) == (0, "sound.mgpu: no faults\n", "")


def test_faults_go_to_stderr_and_the_summary_to_stdout(run: Run, faulty: str) -> None:
    ended = run("check", faulty)
    assert ended.code == 1
    assert ended.out == "faulty.mgpu: 2 errors\n"
    assert (
        ended.err
        == """\
error[MG207]: unknown option `optimizr` of a `train` statement
 --> faulty.mgpu:2:12
  |
2 | train wine optimizr=adam
  |            ^^^^^^^^ expected one of optimizer, loss, metrics, callbacks, batch, epochs, class_weight, seed
  = help: did you mean `optimizer`?

error[MG203]: unknown model `wime`
 --> faulty.mgpu:3:16
  |
3 | parallel(wine, wime x2) on gpus=2
  |                ^^^^ no `model` statement has this name
  = help: did you mean `wine`?
"""
    )


def test_all_faults_of_all_files(run: Run, faulty: str, sound: str) -> None:
    Path("empty.mgpu").touch()
    Path("binary.mgpu").write_bytes(b"\0\1\2")
    ended = run("check", faulty, sound, "empty.mgpu", "binary.mgpu", "missing.mgpu", ".")
    assert ended.code == 1
    assert ended.out == "6 files: 6 errors\n"
    for place in ("faulty.mgpu:3:16", "empty.mgpu", "binary.mgpu", "missing.mgpu", " --> .\n"):
        assert place in ended.err
    assert "Traceback" not in ended.err


def test_more_faults_than_a_screen_holds_are_all_shown(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "many.mgpu"
    spec.write_text(f'model m = "m.keras"\nparallel(m, {", ".join(f"missing_{i}" for i in range(30))})\n')
    ended = run("check", spec)
    assert ended.err.count("error[MG203]") == 30


def test_warnings_alone_are_fine(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.mgpu"
    (tmp_path / "a.keras").touch()
    spec.write_text('model a = "a.keras"\nmodel b = "b.keras"\nparallel(a)\n')
    ended = run("check", spec)
    assert ended.code == 0
    assert ended.out.endswith(": 1 warning\n")


def test_json(run: Run, faulty: str) -> None:
    ended = run("check", faulty, "--json")
    assert (ended.code, ended.err) == (1, "")
    document = json.loads(ended.out)
    assert document["format_version"] == 1
    assert (document["valid"], document["error_count"], document["warning_count"]) == (False, 2, 0)
    assert document["diagnostics"][1] == {
        "code": "MG203",
        "severity": "error",
        "message": "unknown model `wime`",
        "file": "faulty.mgpu",
        "range": {"start": {"line": 3, "column": 16}, "end": {"line": 3, "column": 20}},
        "label": "no `model` statement has this name",
        "help": ["did you mean `wine`?"],
        "notes": [],
    }


def test_json_of_a_sound_spec(run: Run, sound: str) -> None:
    ended = run("check", sound, "--json")
    assert ended.code == 0
    assert json.loads(ended.out) == {
        "format_version": 1,
        "valid": True,
        "error_count": 0,
        "warning_count": 0,
        "diagnostics": [],
    }


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"parallel(a)", 0, "<stdin>: no faults\n"),
        (b"parallel(a", 1, "<stdin>: 1 error\n"),
        (b"parallel(\xff)", 1, "<stdin>: 1 error\n"),
    ],
)
def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch, data: bytes, code: int, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    ended = run("check", "-")
    assert (ended.code, ended.out) == (code, text)


def test_graph_picks_the_composition_to_judge(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.mgpu"
    spec.write_text('model a = "a.keras"\nlet good = parallel(a)\nlet bad = parallel(c)\n')
    assert run("check", spec).code == 1
    ended = run("check", spec, "--graph", "goood")
    assert ended.code == 1
    assert "no composition is called `goood`" in ended.err


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [
        ((), {}, False),  # the captured stderr is no terminal
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),  # asked for
        (("--color", "never"), {}, False),
    ],
)
def test_colours(
    run: Run,
    faulty: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    coloured: bool,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in run("check", faulty, *arguments).err) is coloured
    assert ("\x1b[" in run(*arguments, "check", faulty).err) is coloured


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_on_a_terminal(
    run: Run, faulty: str, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True)
    assert ("\x1b[" in run("check", faulty).err) is coloured


def test_a_terminal_without_unicode_gets_escapes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "naïve.mgpu"
    spec.write_text("parallel(a)")
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert run("check", spec).code == 0
    narrow.flush()
    assert narrow.buffer.getvalue().endswith(b"na\\xefve.mgpu: no faults\n")


def test_no_spec_is_wrong_usage(run: Run) -> None:
    ended = run("check")
    assert ended.code == 2
    assert "Missing argument 'SPEC...'" in ended.err
