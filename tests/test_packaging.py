"""The distribution: what the wheel holds, and that an installed composer finds its grammar outside the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from composer.version import __version__

ROOT = Path(__file__).parent.parent
INFO = f"mgpu_composer-{__version__}.dist-info"
NO_CHECKOUT = "import sys; sys.path[:] = [path for path in sys.path if path]; "


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by way of the source distribution, as an index would get it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, str(wheel)], check=True)
    return folder


def run_outside(installed: Path, code: str, folder: Path) -> str:
    """What code prints in a process that runs in `folder` and takes composer from the installed copy."""
    command = [sys.executable, "-c", f"{NO_CHECKOUT}sys.path.insert(0, {str(installed)!r}); {code}"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_wheel_holds_the_package_and_the_grammar_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "composer/_grammar/mgpu.lark" in names
    assert "composer/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"composer", INFO}
    assert not [name for name in names if name.endswith(".pyc")]


def test_metadata_names_the_licence_and_both_commands(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())
    assert metadata["Name"] == "mgpu-composer"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert f"{INFO}/licenses/LICENSE" in archive.namelist()
    scripts = archive.read(f"{INFO}/entry_points.txt").decode().split()
    assert scripts == ["[console_scripts]", "composer", "=", "composer.cli:main", "mgpu", "=", "composer.cli:main"]


def test_installed_composer_parses_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    printed = run_outside(
        installed,
        "import composer; print(composer.__file__); print(composer.format('parallel(a,b x2)on gpus=2'))",
        tmp_path,
    )
    place, text = printed.split("\n", 1)
    assert Path(place).is_relative_to(installed)
    assert text.strip() == "parallel(a, b x2) on gpus=2"


def test_installed_composer_runs_from_a_zip(wheel: Path, tmp_path: Path) -> None:
    printed = run_outside(wheel, "import composer; print(len(composer.check('parallel(a, b x2 on gpus=2')))", tmp_path)
    assert printed.strip() == "1"


def test_installed_command_checks_a_spec_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet.mgpu").write_text("parallel(a, a) on gpus=2\n", encoding="utf-8")
    printed = run_outside(
        installed,
        "from composer.cli import main\n"
        "try:\n    code = main(['check', 'fleet.mgpu'])\nexcept SystemExit as stop:\n    code = stop.code\n"
        "print('exit', code)",
        tmp_path,
    )
    assert printed.split()[-2:] == ["exit", "1"]  # two members of one name
