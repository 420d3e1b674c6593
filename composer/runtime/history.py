"""`JointHistory`: what `fit` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import numpy as np

from composer.engine.keyed import KeyedPass
from composer.errors import GraphError
from composer.runtime.faults import MemberFault


class JointHistory(keras.callbacks.History):
    """What `fit` returns: `history` by `member_metric`, and `members[name].history` with the member's plain names.

    `faults[name]` tells why a member was stopped by an exception; the others are not in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, keras.callbacks.History] = {}
        self.faults: dict[str, MemberFault] = {}
        self.keyed: Mapping[str, tuple[KeyedPass, KeyedPass | None]] = {}

    def ranking(self, metric: str = "loss", members: Sequence[str] | None = None) -> list[tuple[str, float, int]]:
        """The members by the best of their epochs, best first; those that were NaN throughout come last.

        Args:
            metric: its name in a member's logs, such as `val_loss`. Whether more of it is better is told as Keras'
                callbacks tell it.
            members: which; all that log the metric if left out.

        Returns:
            For each the name, the best value, and the epoch it was reached in, from 1.

        Example:
            >>> history = joint.fit({"a": (xa, ya), "b": (xb, yb)}, epochs=3, verbose=0)
            >>> [(name, epoch) for name, loss, epoch in history.ranking("loss", ["a"])]
            [('a', 3)]
        """
        histories = {name: history for name, history in self.members.items() if metric in history.history}
        found = []
        for name in histories if members is None else members:
            rising = more_is_better(metric, histories[name].model)
            value, epoch = best_epoch(histories[name].history[metric], rising=rising)
            found.append((in_order(value, rising=rising), (name, value, epoch)))
        return [ranked for _, ranked in sorted(found, key=lambda each: each[0])]

    @property
    def by_key(self) -> dict[str, dict[str, np.ndarray]]:
        """Of every member with a model for each key what each of them logged: `by_key[member][metric][epoch, key]`, the
        keys in the order of `members[member].model.keys`. NaN of a key without rows."""
        return {
            name: {
                f"{prefix}{metric}": np.stack([epoch[metric] for epoch in steps.logged if epoch])
                for prefix, steps in (("", training), ("val_", validation))
                if steps is not None
                for metric in (steps.logged[-1] if steps.logged else {})
            }
            for name, (training, validation) in self.keyed.items()
        }


def best_epoch(values: Sequence[float], *, rising: bool) -> tuple[float, int]:
    """The best of a metric's values, one an epoch, and its epoch, from 1; NaN and 0 where there is none."""
    found = [(in_order(value, rising=rising), epoch, value) for epoch, value in enumerate(values, 1)]
    _, epoch, value = min(found, default=((True, 0.0), 0, float("nan")))
    return (float(value), epoch) if not np.isnan(value) else (float("nan"), 0)


def in_order(value: float, *, rising: bool) -> tuple[bool, float]:
    """What sorts a value among others, the best first and NaN last."""
    missing = bool(np.isnan(value))
    return missing, 0.0 if missing else float(-value if rising else value)


def more_is_better(metric: str, model: keras.Model) -> bool:
    """Whether more of a metric that a model logs is better: which of two values a callback of Keras takes for it."""
    watcher = keras.callbacks.EarlyStopping(metric, patience=2)
    watcher.set_model(model)
    watcher.on_train_begin()
    try:
        for epoch, value in enumerate((0.25, 0.75)):
            watcher.on_epoch_end(epoch, {metric: value})
    except ValueError:  # it cannot tell: then as of a loss
        return False
    return bool(watcher.best == 0.75)


def check_log_names(trained: Mapping[str, Sequence[str]], validated: Mapping[str, Sequence[str]]) -> None:
    """Refuse members of which one would write over another's entry in the joint history.

    Args:
        trained: the names each member logs under while it trains.
        validated: the same while it is validated.

    Raises:
        GraphError: naming both members and the entry.
    """
    owners: dict[str, str] = {}
    for prefix, logged in (("", trained), ("val_", validated)):
        for name, keys in logged.items():
            for entry in (f"{prefix}{name}_{key}" for key in keys):
                other = owners.setdefault(entry, name)
                if other != name:
                    raise GraphError(
                        f"`{other}` and `{name}` would both write `{entry}` in the joint history. Rename one in the "
                        f"spec, as in `{name} as other`"
                    )
