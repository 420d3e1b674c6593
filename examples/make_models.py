"""Makes the untrained models in `models/`: what the quickstart trains.

    python examples/make_models.py

The files are committed, so nobody has to run this. They were written with the oldest Keras that composer supports,
since newer ones read what older ones wrote.
"""

from __future__ import annotations

from pathlib import Path

import keras
import zoo

MODELS = Path(__file__).parent / "models"
SEED = 20


def main() -> None:
    for name, make in (("digits", zoo.digits_net), ("wine", zoo.wine_net)):
        keras.utils.set_random_seed(SEED)
        make().save(MODELS / f"{name}.keras")


if __name__ == "__main__":
    main()
