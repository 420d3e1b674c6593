"""Answers from an export with TensorFlow alone: composer and Keras are not imported.

python examples/serve.py export/quickstart
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

DATA = Path(__file__).parent / "data"


def newest_version(export: Path) -> Path:
    """The version a TensorFlow server would load: the highest number."""
    return max((path for path in export.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def held_out_wines() -> tuple[np.ndarray, np.ndarray]:
    with (DATA / "wine_test.csv").open(encoding="utf-8") as file:
        records = [[float(value) for value in record] for record in list(csv.reader(file))[1:]]
    table = np.array(records, dtype="float32")
    return table[:, :-1], table[:, -1].astype("int64")


def answer(signature: tf.types.experimental.ConcreteFunction, rows: np.ndarray) -> np.ndarray:
    """Calls a signature that has one input and one output, by the input's own name."""
    (name,) = signature.structured_input_signature[1]
    (output,) = signature(**{name: tf.constant(rows)}).values()
    return output.numpy()


def main(export: str) -> None:
    loaded = tf.saved_model.load(str(newest_version(Path(export))))
    digits = np.load(DATA / "digits_test.npz")
    wines, cultivars = held_out_wines()
    for member, rows, labels in (("digits", digits["x"].astype("float32"), digits["y"]), ("wine", wines, cultivars)):
        accuracy = np.mean(answer(loaded.signatures[member], rows).argmax(axis=1) == labels)
        print(f"{member}: {len(rows)} held-out rows, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
