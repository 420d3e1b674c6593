"""`JointHistory`: what `fit` returns."""

from __future__ import annotations

import keras


class JointHistory(keras.callbacks.History):
    """What `fit` returns: `history` by `member_metric`, and `members[name].history` with the member's plain names."""

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, keras.callbacks.History] = {}
