"""What is imported where: the front half starts without a framework, and imports run one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "composer"
FRAMEWORKS = {"tensorflow", "keras", "numpy", "h5py", "matplotlib"}

ARROW = (
    ("cli",),
    ("pipeline", "runs"),
    ("export", "runtime"),
    ("engine", "data_files"),
    ("graph",),
    ("compiler", "catalog_files"),
    ("language",),
    ("catalog", "errors", "diagnostics", "source", "version"),
)
"""Who may import whom: a row imports itself and the rows below it."""


def loaded_after(code: str, *arguments: str) -> set[str]:
    """The top-level modules that a fresh process holds after running some code."""
    report = (
        "\nimport sys\nprint(' '.join(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.__stderr__)"
    )
    command = [sys.executable, "-c", code + report, *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.split("\n")[-2].split())


def test_the_check_sees_a_framework_that_is_loaded() -> None:
    assert "numpy" in loaded_after("import numpy")


def test_importing_composer_loads_no_framework_and_nothing_of_the_command_line() -> None:
    loaded = loaded_after("import composer")
    assert "composer" in loaded
    assert not loaded & (FRAMEWORKS | {"rich", "click"})


@pytest.mark.parametrize("name", ["check", "plan", "parse", "format"])
def test_functions_of_the_front_half_load_no_framework(name: str) -> None:
    loaded = loaded_after(f"import composer; composer.{name}('parallel(a, b x2) on gpus=2')")
    assert not loaded & FRAMEWORKS


@pytest.mark.parametrize(
    "arguments",
    [("check",), ("check", "--json"), ("plan",), ("plan", "--json"), ("fmt", "--check")],
    ids=" ".join,
)
def test_verbs_of_the_front_half_load_no_framework(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom composer.cli import main\n"
        "try:\n    code = main(sys.argv[1:])\nexcept SystemExit as stop:\n    code = stop.code\n"
        "assert not code, code"
    )
    loaded = loaded_after(code, *arguments, str(ROOT / "examples" / "quickstart.mgpu"))
    assert not loaded & FRAMEWORKS


def test_every_public_name_can_be_imported() -> None:
    import composer

    assert composer.__all__ == sorted(composer.__all__)
    for name in composer.__all__:
        assert getattr(composer, name) is not None, name


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import composer

    with pytest.raises(AttributeError, match="no_such_name"):
        composer.no_such_name  # noqa: B018


def imported_modules(path: Path, *, for_types: bool) -> set[str]:
    """The modules a file imports anywhere, by their full names; those under `if TYPE_CHECKING:` only `for_types`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            skipped.update(ast.walk(node))
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def row_of(part: str) -> int | None:
    """The place of a part of the package in the arrow, None where it has none."""
    return next((index for index, row in enumerate(ARROW) if part in row), None)


def files_of_package() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """`composer/graph/layers.py` belongs to the part `graph`, `composer/source.py` to `source`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_part_of_the_package_has_its_place_in_the_arrow() -> None:
    parts = {part_of(path) for path in files_of_package()} - {"__init__", "__main__"}
    assert parts == {part for row in ARROW for part in row}


@pytest.mark.parametrize("path", files_of_package(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    row = row_of(part_of(path))
    if row is None:  # the package itself, and `python -m composer`, stand above all
        return
    for module in imported_modules(path, for_types=True):
        head, _, rest = module.partition(".")
        if head == "composer" and rest:
            target = row_of(rest.partition(".")[0])
            assert target is not None, f"{path} imports {module}, which has no place in the arrow"
            assert target >= row, f"{path} imports {module} against the arrow"
    for module in imported_modules(path, for_types=False):
        head = module.partition(".")[0]
        if head == "lark":
            assert part_of(path) == "language", f"{path} imports Lark"
        if head in FRAMEWORKS:
            frameworks_allowed = {"graph", "engine", "data_files", "runtime", "runs", "export"}
            assert part_of(path) in frameworks_allowed, f"{path} imports {module}"


@pytest.mark.parametrize("path", files_of_package(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_the_command_line_prints_and_exits(path: Path) -> None:
    if part_of(path) in {"cli", "__main__"}:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in {"print", "exit", "quit", "sys.exit", "os._exit"}, (
                f"{path}:{node.lineno}"
            )
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert "SystemExit" not in ast.unparse(node.exc), f"{path}:{node.lineno}"


def test_the_import_contracts_hold() -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
