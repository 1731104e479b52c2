"""The audit as text: findings and poisoning, for the terminal and for the documentation.

Knows how to write. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cases import Finding
from .liars import Poisoning

__all__ = ["finding_table", "poisoning_table"]


def finding_table(findings: Sequence[Finding]) -> str:
    """A Markdown table: claimed, measured, verdict."""
    rows = [("what", "claimed", "measured", "verdict", "how")]
    for found in findings:
        if found.kind == "epsilon":
            claimed, measured = f"epsilon = {found.claimed:g}", f"{_sign(found)} {found.measured:.3f}"
        else:
            claimed, measured = f"at most {found.claimed:.3g}", f"{_sign(found)} {found.measured:.3g}"
        if found.upper is not None:
            measured += f", at most {found.upper:.3g}"
        rows.append((found.what, claimed, measured, found.verdict, found.how))
    return _markdown(rows)


def poisoning_table(rows: Sequence[Poisoning], *, k: int, delta: float) -> str:
    """A Markdown table of what liars do to crowds."""
    out = [
        ("liars", "responders", f"a side with {k - 1} honest passes", f"with tolerate_liars (at most {delta:g})",
         "honest on a side that passes half the time", "with tolerate_liars")
    ]  # fmt: skip
    out += [
        (f"{row.liars}", f"{row.responders}", f"{row.chance:.2g}", f"{row.tolerated:.2g}", f"{row.faked}",
         f"{row.honest_needed}")
        for row in rows
    ]  # fmt: skip
    return _markdown(out)


def _sign(found: Finding) -> str:
    return "=" if found.how == "exact" else ">="


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in body)]
    return "\n".join(f"| {line} |" for line in lines)
