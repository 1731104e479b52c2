"""Where a partition stands, for pages: regions, their members, walls and open questions.

Everything in it follows from closed rounds. Codes are decimal strings: a double does not hold them.
Knows the curator. Knows no HTTP and no store.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..protocol.curator import Curator
from ..protocol.messages import Query, Question
from ..protocol.region import walls_of

__all__ = ["live_document"]


def live_document(curator: Curator) -> dict[str, Any]:
    """What everybody may know after the last closed round, ready for JSON."""
    tree = curator.task.hierarchy
    logs = [log for _, log in sorted(curator.logs.items())]
    lower = np.array([log.lower for log in logs], dtype=np.uint64)
    upper = np.array([log.upper for log in logs], dtype=np.uint64)
    flat = tree.box.dimensions == 2
    polygons: list[Any] = list(tree.interval_outlines(lower, upper)) if flat else [None] * len(logs)
    columns = (tree.interval_names(lower, upper), tree.interval_boxes(lower, upper).tolist(), polygons)
    walls = walls_of(logs)
    of = np.repeat(np.arange(len(logs)), np.diff(walls.first))
    drawn = tree.wall_lines(lower[of], walls.cuts, upper[of])
    query = curator.query()
    asked = {one.region: one for one in query.questions} if isinstance(query, Query) else {}
    regions = []
    for row, (log, name, box, polygon) in enumerate(zip(logs, *columns, strict=True)):
        inside = slice(walls.first[row], walls.first[row + 1])
        answers = (walls.cuts[inside].tolist(), walls.asked[inside].tolist(), walls.yes[inside].tolist())
        lines = zip(*answers, drawn[inside], strict=True)
        regions.append(
            {
                "lower": str(log.lower), "upper": str(log.upper), "name": name, "box": box, "polygon": polygon,
                "members": log.crowd, "late": len(log.members) - log.crowd,
                "state": "ended" if curator.ended(log.region) else "open",
                "walls": [{"cut": str(cut), "asked": count, "yes": yes, "lines": at} for cut, count, yes, at in lines],
                "question": _question(asked.get(log.region)),
            }
        )  # fmt: skip
    return {"task": curator.task.id.hex(), "closed": curator.round - 1, "regions": regions}


def _question(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    return {
        "cuts": [str(cut) for cut in question.cuts], "asked": question.asked, "start": question.start,
        "stop": question.stop, "threshold": question.threshold,
    }  # fmt: skip
