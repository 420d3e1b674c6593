"""Model files -> what they tell of themselves, without a framework: `signature_of_file`."""

from __future__ import annotations

from pathlib import Path

from composer.catalog import ModelSignature


def signature_of_file(path: Path) -> ModelSignature | None:
    """What a model file tells of its model without being loaded, or None where that is nothing.

    A SavedModel folder can predict and be exported, not trained.
    """
    if (path / "saved_model.pb").is_file():
        return ModelSignature((), (), trainable=False)
    return None
