"""The program itself: help, version, usage, bugs, and how it ends as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import warnings
from pathlib import Path

import pytest

import composer
from composer.cli import endings, main
from composer.cli.app import VERBS
from composer.cli.options import Settings
from composer.cli.start import caught_stderr, told
from composer.cli.terminal import Terminal, shown_warnings
from tests.cli.conftest import Run, python


def test_version(run: Run) -> None:
    assert run("--version").out == f"composer {composer.__version__}\n"


def test_help_lists_the_verbs_in_order(run: Run) -> None:
    lines = run("--help").out.splitlines()
    start = lines.index("Commands:") + 1
    assert [line.split()[0] for line in lines[start : start + len(VERBS)]] == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_has_examples(run: Run, verb: str) -> None:
    ended = run(verb, "--help")
    assert ended.code == 0
    assert "Examples:" in ended.out
    assert f"composer {verb} " in ended.out
    assert "--traceback" in ended.out
    assert ("--simulate" in ended.out) == (verb in {"plan", "fit", "predict", "compile"})


def test_unknown_verb_is_wrong_usage(run: Run) -> None:
    ended = run("chek")
    assert ended.code == 2
    assert "No such command 'chek'" in ended.err
    assert "'check'" in ended.err or not hasattr(__import__("click").exceptions, "NoSuchCommand")


def test_unknown_option_is_wrong_usage(run: Run) -> None:
    ended = run("check", "--jsn", "a.mgpu")
    assert ended.code == 2
    assert "No such option" in ended.err


@pytest.mark.parametrize("value", ["0", "two"])
def test_simulate_takes_a_count(run: Run, value: str) -> None:
    assert run("plan", "--simulate", value, "a.mgpu").code == 2


def test_traceback_of_a_fault_only_where_asked(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "faulty.mgpu"
    spec.write_text("parallel(a")
    assert "Traceback" not in run("plan", spec).err
    for arguments in (("--traceback", "plan", spec), ("plan", spec, "--traceback")):
        ended = run(*arguments)
        assert ended.code == 1
        assert ended.err.startswith("Traceback (most recent call last):")
        assert "error[MG1" in ended.err


@pytest.mark.parametrize("error", [composer.InternalError("a plan without devices"), KeyError("slip")])
def test_a_bug_says_so_and_keeps_its_traceback(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("composer.cli.verbs.plan.plan", broken)
    spec = tmp_path / "spec.mgpu"
    spec.write_text("parallel(a)")
    ended = run("plan", spec)
    assert (ended.code, ended.out) == (70, "")
    assert ended.err.startswith("Traceback (most recent call last):")
    assert type(error).__name__ in ended.err
    assert ended.err.splitlines()[-1].startswith("error: this is a bug in composer")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "error: interrupted; no file is half-written\n"),
        (MemoryError(), 1, "error: the machine has no memory left. Take a smaller batch, or fewer members at once\n"),
        (composer.DataError("`a` has no rows"), 1, "error[MG500]: `a` has no rows\n"),
        (
            composer.DataError("`a` has no rows", code="MG509", mend="give it some"),
            1,
            "error[MG509]: `a` has no rows\n  = help: give it some\n",
        ),
        (
            composer.DeviceError("1 GPU is missing"),
            1,
            "error: 1 GPU is missing\nnote: while it started, TensorFlow said:\nno libcudnn\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_endings(capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str) -> None:
    terminal = Terminal(Settings())
    terminal.start_messages = "no libcudnn"
    assert endings.end(error, terminal) == code
    assert capsys.readouterr().err == text


def test_warnings_are_lines_without_places_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_warnings(Terminal(Settings())):
        for _ in range(2):
            warnings.warn("weights of `a` are\n  large", composer.ComposerWarning, stacklevel=1)
        warnings.warn("use the other name", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: weights of `a` are large\n"


def test_stderr_is_caught_below_python_and_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    with caught_stderr() as caught:
        os.write(2, b"noise\n")
        assert caught.text() == "noise"
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"


def test_caught_stderr_is_shown_where_the_start_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with caught_stderr() as caught:
        os.write(2, b"libcudart is missing\n")
        caught.show()
    assert capfd.readouterr().err == "libcudart is missing\n"


def test_what_tensorflow_said_is_cut_to_its_words() -> None:
    log = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "E0000 00:00:1796077370.252639   21981 cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)\n"
        "E0000 00:00:1796077370.252640   21981 cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)\n"
        "plain\n"
    )
    assert told(log) == "failed call to cuInit: UNKNOWN ERROR (303)\nplain"


# As a process -------------------------------------------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("spec.mgpu").write_text("parallel(a, b x2) on gpus=2\n")
    return "spec.mgpu"


def environment() -> dict[str, str]:
    """Of a process: with this checkout, and with Python's own buffering, which tells of a closed pipe."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**kept, "PYTHONPATH": str(Path(composer.__file__).parent.parent)}


def test_module_and_exit_codes(spec: str) -> None:
    Path("faulty.mgpu").write_text("parallel(a")
    for arguments, code in (((spec,), 0), (("faulty.mgpu",), 1), ((), 2)):
        ran = subprocess.run(
            python("check", *arguments), env=environment(), capture_output=True, text=True, check=False
        )
        assert ran.returncode == code
        assert "Traceback" not in ran.stderr


def test_a_reader_that_leaves_is_quiet(spec: str) -> None:
    Path("wide.mgpu").write_text(f"parallel({', '.join(f'm{i}' for i in range(3000))})\n")
    command = " ".join(python("plan", "wide.mgpu", "--json"))
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -c 10"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (141, '{\n  "forma', "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_results_that_cannot_be_written(spec: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            python("plan", spec), env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == (
        "error: cannot write the results: No space left on device. Free some space or write elsewhere\n"
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(spec: str, closed: str) -> None:
    """As a service or a scheduler may start it: the exit code still tells."""
    command = " ".join(python("check", spec, "faulty.mgpu"))
    Path("faulty.mgpu").write_text("parallel(a")
    ran = subprocess.run(
        ["bash", "-c", f"{command} {closed}"], env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr


def test_ctrl_c_in_the_middle_of_a_fit(shop: Path) -> None:
    """A real process and a real signal; the models it leaves can be used."""
    command = python("fit", "spec.mgpu", "-o", "run", "--epochs", "250")
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            while first and not first.startswith("epoch "):
                first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert first.startswith("epoch "), first
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "note: stopping after this batch; press Ctrl-C again to stop at once\n" in err
    assert err.splitlines()[-1].startswith("note: interrupted; what was trained is kept in run (a after ")
    assert main(["predict", "run", "--data", "a=a.npz", "-o", "out"]) == 0
