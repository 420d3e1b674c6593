"""What every test runs under: four logical CPU devices that stand in for GPUs, and one seed.

The devices are set up before the first test that may start TensorFlow. Tests of the front half never cause it to be
loaded, so they start at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "agg")

TESTS = Path(__file__).parent
NUM_DEVICES = 4
SEED = 20
FRONT_HALF = ("language", "compiler", "test_imports.py", "test_packaging.py", "test_readme.py")
"""Tests that need no framework, or start processes of their own."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets up the devices and the seed, unless the test belongs to the front half and nothing has started Keras."""
    if item.path.relative_to(TESTS).parts[0] in FRONT_HALF and "keras" not in sys.modules:
        return
    import keras

    import composer

    composer.simulate(NUM_DEVICES)  # again with as many changes nothing
    keras.utils.set_random_seed(SEED)
