"""`python -m composer`."""

from __future__ import annotations

import sys

from composer.cli import main

if __name__ == "__main__":
    sys.exit(main())
