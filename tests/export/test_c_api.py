"""An export answers through TensorFlow's C interface, in a process without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import composer
from composer.export.device_strings import read_graph
from tests.export.joint import TOLERANCE
from tests.helpers import net

SOURCE = Path(__file__).with_name("serve.c")
COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, built against the headers and libraries of the TensorFlow wheel."""
    if COMPILER is None:
        pytest.skip("no C compiler: neither `gcc` nor `cc` is on the path")
    libraries = Path(tf.sysconfig.get_lib())
    program = tmp_path_factory.mktemp("serve") / "serve"
    flags = ["-Wall", "-Werror", "-O1", f"-I{tf.sysconfig.get_include()}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    links = ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    if shutil.which("ld.gold"):  # the usual linker takes many seconds over a library of a gigabyte
        links.append("-fuse-ld=gold")
    built = subprocess.run(
        [COMPILER, *flags, str(SOURCE), "-o", str(program), *links], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    joint = composer.compile("parallel(a, b x2) on cpus=2", a=net(3, 2), b=net(5))
    return joint.export(tmp_path_factory.mktemp("export")), joint


def rows(num_rows: int, columns: int) -> np.ndarray:
    """The values that `serve.c` makes up."""
    values = np.arange(num_rows * columns, dtype="int64") * 37 % 19
    return (values.astype("float32") / np.float32(7) - 1).astype("float32").reshape(num_rows, columns)


def run(serve: Path, version: Path, signature: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a signature in the C program."""
    definition = read_graph(version).meta_graphs[0].signature_def[signature]
    arguments: list[str] = []
    for name, info in definition.inputs.items():
        (values,) = (array for key, array in given.items() if key in (name, "*"))
        arguments += ["in", *info.name.split(":"), *map(str, values.shape)]
    for info in definition.outputs.values():
        arguments += ["out", *info.name.split(":")]
    ran = subprocess.run([str(serve), str(version), *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return {
        name: np.array(line.split(), dtype="float32")
        for name, line in zip(definition.outputs, ran.stdout.splitlines(), strict=True)
    }


def test_a_member_answers_without_python(serve: Path, exported: tuple[Path, Any]) -> None:
    version, joint = exported
    x = rows(5, 3)
    (got,) = run(serve, version, "a", {"*": x}).values()
    want = joint.members["a"].model(x).numpy()
    np.testing.assert_allclose(got.reshape(5, 2), want, rtol=0, atol=TOLERANCE)


def test_all_members_answer_without_python(serve: Path, exported: tuple[Path, Any]) -> None:
    version, joint = exported
    given = {"a": rows(2, 3), "b": rows(7, 5)}
    got = run(serve, version, "serving_default", given)
    assert set(got) == {"a", "b"}
    for name, x in given.items():
        want = joint.members[name].model(x).numpy().ravel()
        np.testing.assert_allclose(got[name], want, rtol=0, atol=TOLERANCE)
