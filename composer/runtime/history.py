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
