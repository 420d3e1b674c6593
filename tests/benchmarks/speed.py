"""How fast composer is, on this machine, against the limits it was given.

    python -m tests.benchmarks.speed                     all
    python -m tests.benchmarks.speed check one_member    some: check, branches, one_member, two_members,
                                                         eight_members, memory, quickstart

Run it by hand on a quiet machine. The exit status is 1 where a limit is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.benchmarks import fleet, front, memory, quickstart, training

BENCHMARKS = {
    "check": front.check_as_a_process,
    "branches": front.many_branches,
    "one_member": training.one_member,
    "two_members": training.two_members,
    "eight_members": fleet.eight_members,
    "memory": memory.memory,
    "quickstart": quickstart.quickstart,
}


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    return 0 if all([BENCHMARKS[name]() for name in names or BENCHMARKS]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
