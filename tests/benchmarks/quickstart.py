"""The quickstart, from the command to the export, on a machine that has the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.timing import report, seconds

SPEC = Path(__file__).parent.parent.parent / "examples" / "quickstart.mgpu"


def quickstart() -> bool:
    """`composer fit` and `composer compile`, two processes."""
    with TemporaryDirectory() as folder:
        run, export = Path(folder) / "run", Path(folder) / "export"

        def verb(*arguments: str) -> None:
            subprocess.run([sys.executable, "-m", "composer", *arguments], check=True, capture_output=True)

        fit = seconds(lambda: verb("fit", str(SPEC), "-o", str(run)))
        export_time = seconds(lambda: verb("compile", str(run), "-o", str(export)))
        assert (export / "1" / "saved_model.pb").is_file()
    detail = f"fit {fit:.1f} s, compile {export_time:.1f} s"
    return report("the quickstart, from the command to the export", fit + export_time, 30, " s", detail)
