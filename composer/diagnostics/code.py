"""`Code`: one rule that a diagnostic can report, with the words that explain it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CODE = re.compile(r"MG[1-6][0-9]{2}")
_SLUG = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Code:
    """One rule.

    Args:
        code: `MG` and three digits, the first naming the family. Never reused for another rule.
        slug: a short name in lower case, words joined by hyphens.
        summary: what is wrong, in one sentence, as a heading.
        why: why composer refuses it (or warns).
        example: a whole spec that triggers the code; where a spec alone cannot, the call or the situation that does.
        mend: what to do.
    """

    code: str
    slug: str
    summary: str
    why: str = ""
    example: str = ""
    mend: str = ""

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            raise ValueError(f"a code is `MG` and three digits, the first from 1 to 6. Received: {self.code!r}")
        if not _SLUG.fullmatch(self.slug):
            raise ValueError(f"a slug is lower-case words joined by hyphens. Received: {self.slug!r} for {self.code}")

    @property
    def explain(self) -> str:
        """What, why, an example that triggers it and the mend, as text for a terminal."""
        parts = [f"{self.code} ({self.slug}): {self.summary}"]
        if self.why:
            parts.append(self.why)
        if self.example:
            lines = "\n".join(f"    {line}".rstrip() for line in self.example.splitlines())
            parts.append(f"Example of the fault:\n\n{lines}")
        if self.mend:
            parts.append(f"Mend: {self.mend}")
        return "\n\n".join(parts) + "\n"
