"""A writer that is killed at any moment leaves the earlier version as it is, and nothing that looks like a new one."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import composer
from composer.export.inspect import read_export
from tests.export.joint import TOLERANCE, names_in, normal, run_python
from tests.helpers import net

MOMENTS = ["write graphs and variables", "half the graphs", "write manifest", "publish", "after the rename"]

KILLED_AT_EACH_MOMENT = """
import os, signal, sys
from pathlib import Path
import keras
import composer
from composer.export import saved_model, version_folder

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def half(folder):                     # the file is there, cut short
    whole = (folder / "saved_model.pb").read_bytes()
    (folder / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
    die()

def export(folder, moment):
    if moment == "half the graphs":
        saved_model.strip_device_strings = half
    elif moment == "after the rename":    # renamed, but the folder's entry not flushed
        flush = version_folder._flush_entry
        version_folder._flush_entry = lambda path: die() if path == folder else flush(path)
    net = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    joint = composer.compile("parallel(a)", a=net)
    saved_model.export_saved_model(joint, folder, on_step=lambda step: die() if step == moment else None)

for moment in sys.argv[2:]:
    child = os.fork()                 # TensorFlow is imported once, and started in each child
    if child == 0:
        try:
            export(Path(sys.argv[1], moment), moment)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """For each moment a folder with one version, in which a writer of the next was killed at that moment."""
    model = net()
    folders = tmp_path_factory.mktemp("export")
    composer.compile("parallel(a)", a=model).export(folders / "earlier")
    for moment in MOMENTS:
        shutil.copytree(folders / "earlier", folders / moment)
    ran = run_python(KILLED_AT_EACH_MOMENT, folders, *MOMENTS)
    assert [int(line) for line in ran.stdout.split()] == [signal.SIGKILL] * len(MOMENTS), ran.stderr
    return folders, model


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_whole_versions_only(exported: tuple[Path, Any], moment: str) -> None:
    folders, model = exported
    assert files_in(folders / moment / "1") == files_in(folders / "earlier" / "1")
    visible = [name for name in names_in(folders / moment) if not name.startswith(".tmp-")]
    assert visible == (["1", "2"] if moment == "after the rename" else ["1"])
    assert len(names_in(folders / moment)) == 2, (
        "beside the earlier version lies the next, or what the dead writer left"
    )
    x = normal(4, 3)
    (got,) = tf.saved_model.load(str(folders / moment / "1")).signatures["a"](tf.constant(x)).values()
    np.testing.assert_allclose(got, model(x), rtol=0, atol=TOLERANCE)
    if moment == "after the rename":
        assert read_export(folders / moment).path.name == "2"
        (got,) = tf.saved_model.load(str(folders / moment / "2")).signatures["a"](tf.constant(x)).values()
        assert got.shape == (4, 2)


def test_the_next_writer_clears_up(exported: tuple[Path, Any]) -> None:
    folders, model = exported
    composer.compile("parallel(a)", a=model).export(folders / "publish")
    assert names_in(folders / "publish") == ["1", "2"]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
