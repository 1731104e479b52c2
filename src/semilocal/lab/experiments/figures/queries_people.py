"""Range queries with real people: as on real positions, but every participant is a different person.

Knows the grid of the experiment. The datasets of the paper have too few people for its N; these two have enough.
"""

from __future__ import annotations

from ..harness.summary import FigureOptions, Output
from . import queries_real

__all__ = ["FULL", "make"]

FULL = queries_real.Grid(
    datasets=("brightkite_last_checkin", "gowalla_more_users"),
    sizes=(5_000, 18_000),
    stands_for="person",
    name="queries_people",
    picture="queries_people",
    title="range queries with one position per person: error against ε (our own)",
)


def make(options: FigureOptions, grid: queries_real.Grid = FULL) -> Output:
    """Draw the figure."""
    return queries_real.make(options, grid)
