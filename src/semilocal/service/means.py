"""Means that were released, beside counts in areas: over everybody, and of the regions that an area meets.

Everything was published before, so it costs nobody anything. Knows releases. Knows no HTTP and no store.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..protocol.partition import Partition
from ..release import Mean, Means

__all__ = ["MOST_REGIONS", "mean_document"]

MOST_REGIONS = 12  # told of one area
EVERYBODY = "everybody who answered"
REGIONS = "everybody in a region that the area meets"


def mean_document(what: str, all_: Mean | None, cells: Means | None, areas: Any, level: float) -> dict[str, Any]:
    """One released mean, ready for JSON.

    Parameters
    ----------
    what : str
        In words.
    all_ : Mean, optional
        The mean over everybody, if there is one.
    cells : Means, optional
        The means of regions, if there are any.
    areas : float[q, 2, d] or polygons
    level : float
        Of the intervals.
    """
    document: dict[str, Any] = {"what": what, "level": level, "everybody": None, "regions": None}
    if all_ is not None:
        document["everybody"] = {
            "about": EVERYBODY, "people": all_.participants, "value": all_.value, "stderr": all_.stderr,
            "interval": list(all_.interval(level)),
        }  # fmt: skip
    if cells is not None:
        document["regions"] = {"about": REGIONS, "areas": _by_area(cells, areas, level)}
    return document


def _by_area(found: Means, areas: Any, level: float) -> list[dict[str, Any]]:
    """The regions that each area meets, the most crowded first, and how many more there are."""
    ends, partition = found.interval(level), found.partition
    names = np.array(partition.names) if isinstance(partition, Partition) else partition.cells.astype(str)
    answers = []
    for met in found.meeting(areas):
        answered = met[np.isfinite(found.value[met])]
        rows = answered[np.argsort(-partition.crowds[answered], kind="stable")][:MOST_REGIONS]
        columns = (names, partition.crowds, found.value, found.stderr, ends, partition.boxes)
        numbers = zip(*(column[rows].tolist() for column in columns), strict=True)
        regions = [
            {
                "region": name, "people": people, "value": value, "stderr": stderr, "interval": pair,
                "lower": lower, "upper": upper,
            }
            for name, people, value, stderr, pair, (lower, upper) in numbers
        ]  # fmt: skip
        answers.append({"regions": regions, "more": len(answered) - len(rows)})
    return answers
