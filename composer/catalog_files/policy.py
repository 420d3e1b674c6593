"""The dtype policy of a layer's config -> the dtypes of its weights and outputs, and their bytes."""

from __future__ import annotations

from typing import Any

from composer.catalog_files.sizes import Config


def compute_dtype(config: Config) -> str:
    """The dtype of a layer's outputs; float32 where the config names none."""
    name = _policy(config.get("dtype"))
    return name.removeprefix("mixed_") if name is not None else "float32"


def bytes_of_weights(config: Config) -> int | None:
    """Bytes of one weight element, or None for a quantized layer."""
    name = _policy(config.get("dtype")) or "float32"
    return bytes_of("float32" if name.startswith("mixed_") else name)


def bytes_of(dtype: str) -> int | None:
    """Bytes of one element, or None where the dtype has no fixed size.

    Example:
        >>> bytes_of("float16"), bytes_of("bool"), bytes_of("string")
        (2, 1, None)
    """
    if dtype == "bool":
        return 1
    if "_" in dtype:  # a quantized policy such as `int8_from_float32`
        return None
    digits = "".join(character for character in dtype if character.isdigit())
    return int(digits) // 8 if digits else None


def _policy(dtype: Any) -> str | None:
    if isinstance(dtype, dict):
        dtype = dtype.get("config", {}).get("name")
    return dtype if isinstance(dtype, str) else None
