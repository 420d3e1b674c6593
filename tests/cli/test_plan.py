"""`composer plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer.compiler.schema import validate_plan
from tests.cli.conftest import Run

TEXT = """\
plan: 2 members on gpu:0 gpu:1
merge=gpu:0 weights=keep fuse=auto jit=auto

members
  member  model  replicas     group  variables    parameters  FLOPs a row  why there
  a       a      gpu:0        -      as they are           ?            ?  the least loaded device
  b       b      gpu:0 gpu:1  -      as they are           ?            ?  the least loaded devices, replicas apart

devices
  device  replicas  parameters  FLOPs a step  weights  slots  activations
  gpu:0   a, b[0]            ?             ?        ?      ?            ?
  gpu:1   b[1]               0             ?      0 B    0 B            ?

notes
  no model's FLOPs are known before it is loaded: all members count as equal
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("spec.mgpu").write_text("parallel(a, b x2) on gpus=2 merge=gpu\n")
    return "spec.mgpu"


def test_text(run: Run, spec: str) -> None:
    ended = run("plan", spec)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == TEXT


def test_json_fits_the_schema(run: Run, spec: str) -> None:
    ended = run("plan", spec, "--json")
    document = json.loads(ended.out)
    validate_plan(document)
    assert [member["devices"] for member in document["members"]] == [["gpu:0"], ["gpu:0", "gpu:1"]]
    assert document["topology"] == {"cpus": 1, "gpus": 2, "simulated": False}


def test_what_is_missing_is_told(run: Run, spec: str) -> None:
    Path(spec).write_text('model a = "no.keras"\ntrain a optimizer=sgd loss=mse\nparallel(a, a as b)\n')
    ended = run("plan", spec)
    assert (ended.code, ended.out.splitlines()[0]) == (0, "plan: 2 members on cpu:0")
    told = ended.err.split("\n\n")
    assert told[0].startswith("warning[MG403]: the file of model `a` is missing: no.keras\n --> spec.mgpu:1:11\n")
    assert told[1].startswith("warning[MG501]: no data for `a`, and `fit` trains all members\n --> spec.mgpu:3:10\n")
    assert run("check", spec).err.split("\n\n") == told


@pytest.mark.parametrize("arguments", [("--simulate", "3", "plan"), ("plan", "--simulate", "3")], ids=" ".join)
def test_simulated_devices_before_and_behind_the_verb(run: Run, spec: str, arguments: tuple[str, ...]) -> None:
    document = json.loads(run(*arguments, spec, "--json").out)
    assert document["topology"] == {"cpus": 3, "gpus": 3, "simulated": True}


def test_too_few_simulated_devices(run: Run, spec: str) -> None:
    ended = run("plan", spec, "--simulate", "1")
    assert ended.code == 1
    assert "error[MG401]: `on gpus=2` asks for 2 GPUs; this machine has 1" in ended.err
    assert ended.out == ""


def test_this_machine(run: Run, spec: str) -> None:
    Path("auto.mgpu").write_text("parallel(a x auto) on cpus=4\n")
    ended = run("plan", "auto.mgpu", "--machine", "--json")
    assert len(json.loads(ended.out)["members"][0]["devices"]) == 4  # those the tests stand on


def test_faults_end_in_one(run: Run, spec: str) -> None:
    Path("faulty.mgpu").write_text("parallel(a, b x2")
    ended = run("plan", "faulty.mgpu")
    assert (ended.code, ended.out) == (1, "")
    assert "error[MG1" in ended.err


def test_graph(run: Run, spec: str) -> None:
    Path("two.mgpu").write_text("let small = parallel(a)\nlet large = parallel(a, b)\n")
    assert run("plan", "two.mgpu").code == 1
    assert run("plan", "two.mgpu", "--graph", "large").out.startswith("plan `large`: 2 members")
