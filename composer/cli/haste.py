"""What makes the short commands quick: while modules load, nothing is collected and pydantic looks for no plugins."""

from __future__ import annotations

import gc
import os

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


class Haste:
    """Whether the process is in haste, and what it has to set back."""

    def __init__(self) -> None:
        self._collects = False
        self._owns_variable = False

    def begin(self) -> None:
        """Load modules a fifth faster than they load otherwise.

        What is loaded stays, so looking through it for garbage is in vain. Plugins watch the models of programs that
        use pydantic; finding them means reading what every installed distribution says of itself.
        """
        self._collects = gc.isenabled()
        self._owns_variable = _PLUGINS not in os.environ
        gc.disable()
        os.environ.setdefault(_PLUGINS, "__all__")

    def end(self) -> None:
        """Before work that makes garbage and code that is not composer's own; a second call changes nothing."""
        if self._collects:
            gc.enable()
        if self._owns_variable:
            os.environ.pop(_PLUGINS, None)
        self._collects = self._owns_variable = False


HASTE = Haste()
"""Of this process."""
