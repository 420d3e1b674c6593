"""Makes the data files of this folder from the copies that scikit-learn ships.

    python examples/data/make_data.py        needs scikit-learn, which composer itself does not

Rows are shuffled once with a fixed seed and a fifth of them (wine: a quarter) is held out. The files are committed, so
nobody has to run this; it says exactly where they come from.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn import datasets

FOLDER = Path(__file__).parent
SEED = 20
NUM_DIGITS_HELD_OUT = 360
NUM_WINES_HELD_OUT = 45


def main() -> None:
    make_digits()
    make_wine()


def make_digits() -> None:
    """1,797 images of 8 x 8 pixels in 0..16, one channel, and the digit each shows."""
    digits = datasets.load_digits()
    images = digits.images.astype("uint8")[..., np.newaxis]
    labels = digits.target.astype("uint8")
    order = np.random.default_rng(SEED).permutation(len(labels))
    train, held_out = order[NUM_DIGITS_HELD_OUT:], order[:NUM_DIGITS_HELD_OUT]
    np.savez_compressed(FOLDER / "digits.npz", x=images[train], y=labels[train])
    np.savez_compressed(FOLDER / "digits_test.npz", x=images[held_out], y=labels[held_out])


def make_wine() -> None:
    """178 wines, thirteen measurements each, and the cultivar (0, 1 or 2) each was made from."""
    wine = datasets.load_wine()
    columns = [name.replace("/", "_") for name in wine.feature_names]
    order = np.random.default_rng(SEED).permutation(len(wine.target))
    for name, rows in (("wine", order[NUM_WINES_HELD_OUT:]), ("wine_test", order[:NUM_WINES_HELD_OUT])):
        with (FOLDER / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*columns, "cultivar"])
            for row in rows:
                writer.writerow([*(f"{value:g}" for value in wine.data[row]), wine.target[row]])


if __name__ == "__main__":
    main()
