"""Who beats whom, panel by panel: our line against plain LDP, the LDP trees and the published rule.

Knows which comparisons matter and counts them. Draws no picture: it prints a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .figures import classifiers, queries_real, queries_synthetic
from .harness.report import Claim
from .harness.summary import FigureOptions, Output, select, stamped
from .harness.tables import write_csv
from .trials import PARTICIPANTS

__all__ = ["Duel", "duels", "make"]

COMMAND = "semilocal reproduce targets"
LEAST_EPSILON = 1.0
PANEL_SIZE = 20_000
ALLOWED = 1.1  # times the published rule's error
LDP_TREES = ("ldp-kdtree", "ldp-quadtree", "ahead")


@dataclass(frozen=True)
class Duel:
    """Ours against another method in one panel; for F1 more is better, for errors less."""

    question: str
    panel: str
    epsilon: float
    other: str
    ours: float
    theirs: float
    won: bool


def duels(
    learned: Sequence[Mapping[str, Any]], synthetic: Sequence[Mapping[str, Any]], real: Sequence[Mapping[str, Any]]
) -> tuple[Duel, ...]:
    """Return all comparisons at ε >= 1 from the three summaries."""
    found: list[Duel] = []
    for name in dict.fromkeys(row["classifier"] for row in learned):
        for mine, theirs in _pairs(select(learned, classifier=name), "ldp"):
            ours, other = float(mine["f1_mean"]), float(theirs["f1_mean"])
            found.append(Duel("F1 above local DP", name, mine["epsilon"], "ldp", ours, other, ours > other))
    for row in (*synthetic, *real):
        if row["method"] not in LDP_TREES or row["epsilon"] < LEAST_EPSILON:
            continue
        [mine] = select(
            (*synthetic, *real), method="ours-core", **{key: row[key] for key in ("source", "n", "epsilon")}
        )
        ours, other = float(mine["mre_mean"]), float(row["mre_mean"])
        panel = f"{row['source']}, N = {row['n']:,}"
        found.append(Duel("MRE below the LDP trees", panel, row["epsilon"], row["method"], ours, other, ours < other))
    for source in dict.fromkeys(row["source"] for row in real):
        for mine, theirs in _pairs(select(real, source=source, n=PANEL_SIZE), "published"):
            ours, other = float(mine["mre_mean"]), float(theirs["mre_mean"])
            question = f"MRE at most {ALLOWED} x published rule, N = {PANEL_SIZE:,}"
            found.append(Duel(question, source, mine["epsilon"], "published", ours, other, ours <= ALLOWED * other))
    return tuple(found)


def _pairs(rows: Sequence[Mapping[str, Any]], other: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return ours (core) and the other method's row for each ε >= 1."""
    return [
        (mine, theirs)
        for mine in select(rows, method="ours-core")
        for theirs in select(rows, method=other, epsilon=mine["epsilon"])
        if mine["epsilon"] >= LEAST_EPSILON
    ]


def make(options: FigureOptions) -> Output:
    """Count, print the table, and write it to ``targets.csv``."""
    real, missing = queries_real.results(options)
    found = duels(
        classifiers.results(options).summary,
        queries_synthetic.results(options).summary,
        real.summary if real is not None else (),
    )
    write_csv(
        options.out / "targets.csv",
        stamped([{**vars(one), "runs": options.runs, "quick": options.quick} for one in found], options),
    )
    lines, claims = [], []
    for question in dict.fromkeys(one.question for one in found):
        asked = [one for one in found if one.question == question]
        won = sum(one.won for one in asked)
        lines.append(f"{question}: {won} of {len(asked)}")
        lines += [
            f"   {'yes' if one.won else 'NO '}  {one.panel:<34} ε = {one.epsilon:<4g} {one.other:<13} "
            f"ours {one.ours:.3f}, theirs {one.theirs:.3f}"
            for one in asked
        ]
        claims.append(
            Claim(
                f"semilocal (core), ε >= 1: {question}",
                won == len(asked),
                f"{won} of {len(asked)} comparisons",
                COMMAND,
            )
        )
    lines += [f"real positions: {PARTICIPANTS['row']}", *(f"left out: {why}" for why in missing.values())]
    return Output(claims=tuple(claims), text="\n".join(lines))
