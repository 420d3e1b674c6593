"""The front half: `composer check` as a whole process, and specs of thousands of branches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import composer
from tests.benchmarks.timing import medians, report, seconds

TEN_LINES = """\
# Ten lines: what people write.
model digits = zoo.vision:lenet(filters=16)
model wine   = zoo.tabular:dense(units=32)
data digits = "digits.npz" validation=0.2
data wine   = "wine.csv" target=cultivar
train * metrics=[accuracy] loss=sparse_categorical_crossentropy
train digits optimizer=adam(learning_rate=1e-3) batch=32 epochs=20 callbacks=[early_stopping(patience=3)]
train wine   optimizer=sgd(learning_rate=0.01, momentum=0.9) batch=16 epochs=50

parallel(digits copies=8, wine x2) on gpus=4 merge=gpu
"""
SIZES = (1_000, 3_000, 10_000)


def check_as_a_process() -> bool:
    """`composer check` on a ten-line spec, against a Python that does nothing.

    Both read compiled modules, as an installed package has them; a run before the measured ones writes them.
    """
    with TemporaryDirectory() as folder:
        compiled = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled", "PYTHONDONTWRITEBYTECODE": ""}
        spec = Path(folder) / "ten_lines.mgpu"
        spec.write_text(TEN_LINES, encoding="utf-8")
        for name in ("digits.npz", "wine.csv"):
            (Path(folder) / name).touch()
        check = [sys.executable, "-m", "composer", "check", str(spec)]
        subprocess.run(check, check=True, capture_output=True, env=compiled)
        found = medians(
            {
                "check": lambda: subprocess.run(check, check=True, capture_output=True, env=compiled),
                "nothing": lambda: subprocess.run([sys.executable, "-c", ""], check=True, env=compiled),
            },
            runs=11,
        )
    detail = f"{found['check'] / found['nothing']:.1f} times a Python that does nothing"
    return report("check of a ten-line spec, whole process", found["check"], 0.35, " s", detail)


def many_branches() -> bool:
    """Parsing, resolving and planning 1,000, 3,000 and 10,000 branches: the largest in time, and linear."""
    texts = {size: f"parallel({', '.join(f'm{index} x2' for index in range(size))}) on gpus=4" for size in SIZES}
    composer.plan("parallel(a) on auto")  # loads the grammar
    found = {
        size: min(seconds(lambda text=text: composer.plan(text)) for _ in range(3)) for size, text in texts.items()
    }
    per_branch = {size: time / size for size, time in found.items()}
    detail = ", ".join(f"{size}: {time:.2f} s" for size, time in found.items())
    fast = report("parse, resolve and plan 10,000 branches", found[SIZES[-1]], 3, " s", detail)
    ratio = per_branch[SIZES[-1]] / per_branch[SIZES[0]]
    # A quadratic path would show 10. The garbage collector's passes over a larger heap take some: 1.5 has been seen.
    return report("time a branch, 10,000 branches over 1,000", ratio, 2) and fast
