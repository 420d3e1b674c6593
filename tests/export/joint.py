"""Joint models to export, and what the tests read from an export."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import composer
from tests.helpers import net

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-6


def fleet() -> Any:
    """Three unlike members: a dense net, a convolutional one with batch normalization, one with two inputs."""
    image = keras.Sequential(
        [
            layers.Input((6, 6, 1), name="pixels"),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3, name="label"),
        ]
    )
    left, right = layers.Input((2,), name="left"), layers.Input((4,), name="right")
    joined = layers.Concatenate()([left, right])
    pair = keras.Model([left, right], {"total": layers.Dense(1)(joined), "parts": layers.Dense(5)(joined)})
    for variable in (*image.variables, *pair.variables):
        variable.assign(variable + 0.25)  # nothing may depend on zeros and ones of a fresh model
    return composer.compile(
        "parallel(wine x2, image, pair) on cpus=4 weights=spread", wine=net(3, 2), image=image, pair=pair
    )


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed float32 values."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32")


def call(version: Path, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
    """Load a version and run one signature."""
    function = tf.saved_model.load(str(version)).signatures[signature]
    return {name: tensor.numpy() for name, tensor in function(**{k: tf.constant(v) for k, v in inputs.items()}).items()}


def run_python(code: str, *arguments: object, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that starts in the repository."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def names_in(folder: Path) -> list[str]:
    """What lies in a folder, sorted."""
    return sorted(entry.name for entry in folder.iterdir())
