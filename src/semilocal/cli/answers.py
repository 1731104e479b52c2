"""Answers to range queries, as columns and as files.

Knows queries, answers and the three formats. Used by ``counts`` and ``results``.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..errors import OutsideWarning
from ..geometry.box import Box
from ..io.files import replacing, write_text
from ..io.queries import Queries, corner_names
from ..io.regions import SEED, csv_text, feature_collection, seed_column
from ..io.tables import areas_geoparquet
from ..protocol.mark import Mark
from ..release.boxes import Answers
from ..release.promised import outside_words

__all__ = ["ANSWERS", "answer_columns", "check_queries", "write_answers"]

ANSWERS = ("count", "stderr", "low", "high")
_OURS = (*ANSWERS, SEED)


def check_queries(queries: Queries, box: Box) -> None:
    """Warn about queries that reach outside the domain, and about columns that the answers replace."""
    if words := outside_words(queries.areas, box):
        warnings.warn(words, OutsideWarning, stacklevel=2)
    taken = [name for name in queries.properties if name in _OURS]
    if taken:
        warnings.warn(f"the answers replace the queries' own {', '.join(taken)}", UserWarning, stacklevel=2)


def answer_columns(
    queries: Queries, answers: Answers, box: Box, *, level: float, mark: Mark | None = None
) -> dict[str, list[Any]]:
    """Columns by name: what the queries are called, corners of boxes, count, stderr, low and high, and a seed.

    Polygons without any properties are numbered.
    """
    corners = queries.boxes.reshape(len(queries), -1)
    places = dict(zip(corner_names(box), corners.T.tolist(), strict=True))
    if queries.named:
        places = {}
    elif queries.shapes is not None:
        places = {} if queries.properties else {"polygon": list(range(len(queries)))}
    interval = answers.interval(level)
    values = (answers.value, answers.stderr, interval[:, 0], interval[:, 1])
    return {
        **{name: list(column) for name, column in queries.properties.items() if name not in _OURS},
        **places,
        **{name: column.tolist() for name, column in zip(ANSWERS, values, strict=True)},
        **seed_column(mark, len(queries)),
    }


def write_answers(
    queries: Queries, columns: dict[str, list[Any]], path: Path | None, box: Box, *, mark: Mark | None = None
) -> str:
    """Write CSV, GeoJSON or GeoParquet, by the ending of the name; without a name return CSV."""
    if path is None:
        return csv_text(columns)
    kept = {name: column for name, column in columns.items() if name in queries.properties or name in _OURS}
    if path.suffix.lower() == ".geojson":
        rows = (dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True))
        write_text(path, feature_collection(queries.geometries(box), rows, mark).decode())
    elif path.suffix.lower() == ".parquet":
        content = areas_geoparquet(kept, queries.boxes, box, shapes=queries.shapes, mark=mark)
        with replacing(path) as stream:
            stream.write(content)
    else:
        write_text(path, csv_text(columns))
    return ""
