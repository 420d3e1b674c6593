"""Histories by member -> CSV and JSON, and back."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Histories: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Member -> metric (`loss`, `val_loss`, ...) -> one value an epoch."""


def histories_to_csv(histories: Histories) -> str:
    """One line a value: member, epoch (from 1), metric, value; members and metrics in the order given."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("member", "epoch", "metric", "value"))
    for member, metrics in histories.items():
        for epoch in range(max(map(len, metrics.values()), default=0)):
            for metric, values in metrics.items():
                if epoch < len(values):
                    writer.writerow((member, epoch + 1, metric, repr(float(values[epoch]))))
    return out.getvalue()


def keys_to_csv(column: str, keys: Sequence[str], metrics: Mapping[str, Any]) -> str:
    """One line a key of a member that has a model for each: the key, and what it logged in the last epoch.

    Args:
        column, keys: of the keys.
        metrics: by name, values by epoch and key.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((column, *metrics))
    last = [values[-1] for values in metrics.values()]
    writer.writerows((key, *(repr(float(values[i])) for values in last)) for i, key in enumerate(keys))
    return out.getvalue()


def histories_to_json(histories: Histories) -> str:
    """`{member: {metric: [value, ...]}}`; NaN and infinity, which JSON has not, are null."""
    plain = {
        member: {metric: [_finite(value) for value in values] for metric, values in metrics.items()}
        for member, metrics in histories.items()
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def histories_from_json(text: str) -> dict[str, dict[str, list[float]]]:
    """What `histories_to_json` wrote; null becomes NaN.

    Raises:
        ValueError: it is something else.
    """
    try:
        return {
            member: {
                metric: [math.nan if value is None else float(value) for value in values]
                for metric, values in metrics.items()
            }
            for member, metrics in json.loads(text).items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError("it holds no histories by member and metric") from error


def _finite(value: float) -> float | None:
    value = float(value)
    return value if math.isfinite(value) else None
