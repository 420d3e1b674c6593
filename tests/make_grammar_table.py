"""Writes `composer/language/grammar_table.json` from `grammar/mgpu.lark`.

Run by hand when the grammar or Lark moves: `python -m tests.make_grammar_table`. Without it every command parses the
grammar anew, which is slower and otherwise the same; `tests/language/test_grammar_table.py` holds the two equal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).parents[1] / "composer" / "language" / "grammar_table.json"


def main() -> None:
    from composer.language.grammar import make_parser, read_grammar
    from composer.language.grammar_table import dump_parser

    grammar = read_grammar()
    TABLE.write_text(dump_parser(make_parser(grammar), grammar), encoding="utf-8")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of Lark's sets numbers the states
        command = [sys.executable, "-m", "tests.make_grammar_table"]
        sys.exit(subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False).returncode)
    main()
