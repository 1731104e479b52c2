"""Which boxes or polygons to count in, and the answers, as columns and as files. Used by ``counts`` and ``results``.

Knows queries, answers and the two formats.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..errors import InvalidInput, OutsideWarning
from ..geometry.areas import outside_words
from ..geometry.box import Box
from ..hierarchy import AnyTree, TableTree
from ..io.files import write_text
from ..io.queries import Queries, corner_names, grid_queries, label_queries, read_queries
from ..io.regions import SEED, csv_text, feature_collection, seed_column
from ..protocol.promise import Mark
from ..release.answers import CountAnswers
from ..tabular import known
from .options import advanced, file, flat, number, option, share

__all__ = ["ANSWERS", "TABLES", "QueryOptions", "answer_columns", "queries_of", "write_answers"]

ANSWERS = ("count", "stderr", "low", "high")
TABLES = (".csv", ".geojson")  # how files of answers end
_OURS = (*ANSWERS, SEED)


@flat
@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Which boxes or polygons to count in, and the level of the intervals."""

    grid: Annotated[str | None, option("an even grid, such as 32x32; of a table all labels are counted", "AxB")] = None
    queries: Annotated[
        Path | None,
        file("boxes: CSV with columns x0,y0,x1,y1 (or NAME_lower and NAME_upper for each axis); polygons: .geojson; "
             "labels of a table: a column called label. Other columns come back with the answers"),
    ] = None  # fmt: skip
    level: Annotated[float, advanced("of the intervals", "SHARE", share)] = 0.95
    rounding: Annotated[
        float | None,
        advanced("the step that all coordinates are multiples of, if that is public: 0.01 for two decimals, 0 for "
                 "none", "STEP", number(0)),
    ] = None  # fmt: skip

    @property
    def asked(self) -> bool:
        """Whether boxes were given, in one of the two ways."""
        if self.queries is not None and self.grid is not None:
            raise InvalidInput("give --queries FILE or --grid AxB, not both")
        return self.queries is not None or self.grid is not None


def queries_of(options: QueryOptions, box: Box, tree: AnyTree | None = None) -> Queries:
    """The boxes that were asked for; all labels of a tree if it has some and nothing else was asked for.

    Warns about queries that reach outside the domain, and about columns that the answers replace.
    """
    if not options.asked and not (isinstance(tree, TableTree) and tree.leaves):
        raise InvalidInput("say which boxes to count in: --queries FILE, or --grid AxB such as --grid 32x32")
    if options.grid is not None:
        queries = grid_queries(options.grid, box)
    elif options.queries is not None:
        queries = read_queries(options.queries, box, tree)
    else:
        assert isinstance(tree, TableTree)
        queries = label_queries(tree)
    if words := outside_words(queries.areas, box):
        warnings.warn(words, OutsideWarning, stacklevel=2)
    if taken := [name for name in queries.properties if name in _OURS]:
        warnings.warn(f"the answers replace the queries' own {', '.join(taken)}", UserWarning, stacklevel=2)
    return queries


def answer_columns(
    queries: Queries, answers: CountAnswers, box: Box, *, level: float, mark: Mark | None = None
) -> dict[str, list[Any]]:
    """Columns by name: what the queries are called, corners of boxes, count, stderr, low and high, and a seed.

    Polygons without any properties are numbered.
    """
    corners = np.round(queries.boxes, 9).reshape(len(queries), -1)  # -73.95, not -73.94999999999999
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
        **{name: known(column, answers.stderr).tolist() for name, column in zip(ANSWERS, values, strict=True)},
        **seed_column(mark, len(queries)),
    }


def write_answers(
    queries: Queries, columns: dict[str, list[Any]], path: Path | None, box: Box, *, mark: Mark | None = None
) -> str:
    """Write CSV or GeoJSON, by the ending of the name; without a name return CSV."""
    if path is None:
        return csv_text(columns)
    kept = {name: column for name, column in columns.items() if name in queries.properties or name in _OURS}
    if path.suffix.lower() == ".geojson":
        rows = (dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True))
        write_text(path, feature_collection(queries.geometries(box), rows, mark).decode())
    else:
        write_text(path, csv_text(columns))
    return ""
