"""What each method truly costs and keeps in each kind of experiment, in words for legends and tables.

Knows the accounting of the mechanisms as `trials` runs them. Must not compute. ε is the number on the axis of a figure.
"Moved" means by a TRIM: whoever is moved s times pays for s more reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from ..baselines.results import MOVE
from ..errors import InvalidInput
from .harness.report import Line
from .harness.style import legend_label

__all__ = ["Promise", "Purpose", "label", "lines", "promise"]

Purpose = Literal["values", "counts", "points"]

INSIDE = "any two positions inside the region"
SIBLINGS = "two positions in different children of the last cell that was asked about; the region itself is public"
PER_PERSON = "0.05 per participant who was never moved; 0.05 (1 + mean moves) over all"
CROWD_NOTE = "the printed margin holds at δ = 0.05, not for small δ"


@dataclass(frozen=True)
class Promise:
    """The true loss in terms of ε, between which inputs, δ, and whether a crowd of k is kept (None: no regions)."""

    cost: str
    adjacency: str
    delta: str = "0"
    crowd: bool | None = None
    note: str = ""


_CORE = Promise("ε, moved s times (1 + s) ε", INSIDE, PER_PERSON, True)
_UNIFORM = Promise("at most ε for all", INSIDE, "0.05 per participant", True, "ε / 4 per report, at most 3 moves")
_LOCAL = Promise("ε", MOVE)

_PROMISES: Mapping[Purpose, Mapping[str, Promise]] = MappingProxyType(
    {
        "values": {
            "central": Promise("ε", MOVE),
            "ldp": _LOCAL,
            "paper": Promise(
                "1.5 ε", INSIDE, "0.05 per participant", True, f"partition 2 × ε/2, values ε/2; {CROWD_NOTE}"
            ),
            "published": Promise("1.5 ε", SIBLINGS, "none is kept", False, "partition 2 × ε/2, values ε/2"),
            "ours-core": Promise(
                "ε, moved s times (1 + 0.45 s) ε", INSIDE, PER_PERSON, True, "partition 0.45 ε, values 0.55 ε"
            ),
            "ours-core-100": Promise(
                "ε, moved s times (1 + 0.45 s) ε", INSIDE, PER_PERSON, True, "partition 0.45 ε, values 0.55 ε"
            ),
            "ours-uniform": Promise(
                "at most ε for all",
                INSIDE,
                "0.05 per participant",
                True,
                "0.45 ε / 4 per report, at most 3 moves, values 0.55 ε; no partition where noise would hide everything",
            ),
        },
        "counts": {
            "ours-core": _CORE,
            "ours-uniform": _UNIFORM,
            "paper": Promise(
                "ε",
                INSIDE,
                "0.05 per participant",
                True,
                f"2 × ε/2 for the partition; its noise on public counts (ε/2) buys nothing; {CROWD_NOTE}",
            ),
            "published": Promise(
                "ε", SIBLINGS, "none is kept", False, "2 × ε/2 for the partition; noise on counts protects no position"
            ),
            "privtree": Promise("2 ε", MOVE, note="ε if a participant is added or removed; trusts a curator"),
            "ldp-kdtree": _LOCAL,
            "ldp-quadtree": _LOCAL,
            "ahead": _LOCAL,
            "kanonymous": Promise(
                "unbounded", "nothing: no differential privacy", "none", True, "exact counts by a trusted curator"
            ),
        },
        "points": {
            "exact": Promise("unbounded", "nothing: positions as they are", "none"),
            "ldp": Promise("2 ε", MOVE, note="ε for each coordinate"),
            "geo": Promise("√2 ε", MOVE, note="ε times the distance, in sides of the square"),
            "paper": Promise("2 ε", INSIDE, "0.05 per participant", True, f"region centres; {CROWD_NOTE}"),
            "sldp-quantize": Promise("2 ε", SIBLINGS, "none is kept", False, "published code's rule, region centres"),
            "sldp-split": Promise(
                "ε",
                SIBLINGS,
                "none is kept",
                False,
                "published code's rule with ε/2; the draw around a centre does not look at the position",
            ),
            "ours-core": _CORE,
            "ours-uniform": _UNIFORM,
        },
    }
)


def promise(method: str, purpose: Purpose) -> Promise:
    """Return what a method promises in a kind of experiment.

    Examples
    --------
    >>> promise("published", "values").cost
    '1.5 ε'
    """
    known = _PROMISES[purpose]
    if method not in known:
        raise InvalidInput(f"{method!r} is not used for {purpose}; there are {', '.join(known)}")
    return known[method]


def label(method: str, purpose: Purpose) -> str:
    """Return the legend entry of a method: its name, its true loss and whether a crowd is kept."""
    said = promise(method, purpose)
    return legend_label(method, cost=said.cost, crowd=said.crowd)


def lines(summary: Sequence[Mapping[str, Any]], purpose: Purpose) -> tuple[Line, ...]:
    """Return the table of a figure's methods, with the shares below k averaged over all its groups."""
    out = []
    for method in dict.fromkeys(row["method"] for row in summary):
        said = promise(method, purpose)
        rows = [row for row in summary if row["method"] == method and row["regions"] is not None]
        note = said.note
        if rows and any(row["moved"] for row in rows):
            moved = [row["moved"] for row in rows]
            often = sum(row["moved_often"] for row in rows) / len(rows)
            most = max(row["most_moves"] for row in rows)
            measured = (
                f"moved: {100 * sum(moved) / len(moved):.2g} % of participants on average, {100 * max(moved):.2g} % in "
                f"the worst panel; three times or more {100 * often:.2g} %; most often {most:.0f} times"
            )
            note = f"{note}; {measured}" if note else measured
        out.append(
            Line(
                method,
                epsilon=said.cost,
                adjacency=said.adjacency,
                delta=said.delta,
                crowd=said.crowd,
                regions_below=_average(rows, "regions_below"),
                participants_below=_average(rows, "participants_below"),
                note=note,
            )
        )
    return tuple(out)


def _average(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return sum(float(row[name]) for row in rows) / len(rows) if rows else None
