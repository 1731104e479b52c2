"""Rows are counted where they lie: in memory, in files, DuckDB or Spark; everything else happens on the counts.

See :mod:`semilocal.engines.source` for the seam. Every engine gives the same bytes for the same seed and order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..arrays import as_integer
from ..errors import InvalidInput
from ..simulation.people import MAX_KEY, SOURCE, refuse_content_as_person, refuse_person_columns
from .source import Source

if TYPE_CHECKING:
    from ..geometry.box import Box

__all__ = ["Engine", "open_source"]

Engine = Literal["auto", "arrow", "duckdb", "spark"]


def open_source(
    rows: Any, columns: Sequence[str], box: Box, *, engine: Engine = "auto", person: str | None = None,
    rows_per_person: int = 1, key: int = 0, values: Sequence[str] = (), connection: Any = None,
    rows_are_people: bool = False,
) -> Source:  # fmt: skip
    """Rows of people that need not fit into memory, for every job: ``sl.counts(open_source(...), box, ...)``.

    Parameters
    ----------
    rows : path, sequence of paths, pyarrow object, callable, DuckDB query or relation, or Spark frame
        Files, folders and patterns are CSV, Parquet or GeoJSON. A ``pyarrow.Table`` or ``Dataset``; a callable
        that gives a new ``RecordBatchReader`` each time it is called; or what the engine calls its rows.
    columns : sequence of str
        One column per axis of the box.
    box : Box
        The public domain. Rows outside it are refused before anything is released.
    engine : {"auto", "arrow", "duckdb", "spark"}
        "auto" takes what the rows are: Arrow for files. DuckDB also reads files; a query needs to be called one.
    person : str, optional
        The column that says whose row it is. Without it every row counts as another person, and rows with a column that
        looks like a person are refused.
    rows_per_person : int
        How many rows of a person are taken; a keyed score of the row's number decides which. Rows without a number (a
        frame of Spark, a query or relation of DuckDB) are numbered, or chosen, by their contents.
    key : int
        Of that choice, 0 to 2**64 - 1. The same key takes the same rows.
    values : sequence of str
        Further columns of numbers that jobs may name: ``sl.mean(source, box, value="fare", range=(0, 100), ...)``.
        In CSV files they would not be read as numbers otherwise.
    connection : duckdb.DuckDBPyConnection, optional
        DuckDB: the one that a query or a relation belongs to. Nothing is changed in it.
    rows_are_people : bool
        Every row is another person, whatever the names of the columns say.

    Examples
    --------
    >>> import pytest; pyarrow = pytest.importorskip("pyarrow")
    >>> import numpy as np, semilocal as sl
    >>> box, homes = sl.Box((0, 0), (1, 1)), np.random.default_rng(3).beta(2, 5, (20_000, 2))
    >>> def count(rows):
    ...     return sl.counts(rows, box, epsilon=1.0, trust="curator", rng=np.random.default_rng(1))
    >>> table = pyarrow.table({"x": homes[:, 0], "y": homes[:, 1]})
    >>> there, here = count(open_source(table, ["x", "y"], box)), count(homes)
    >>> there.published.to_bytes() == here.published.to_bytes()
    True
    """
    if engine not in get_args(Engine):
        raise InvalidInput(f"engine must be one of {', '.join(get_args(Engine))}; got {engine!r}")
    kind = type(rows).__module__.split(".")[0]
    if engine == "auto":
        engine = {"duckdb": "duckdb", "_duckdb": "duckdb", "pyspark": "spark"}.get(kind, "arrow")  # type: ignore[assignment]
    files = isinstance(rows, str | Path) or (
        isinstance(rows, list | tuple) and all(isinstance(entry, str | Path) for entry in rows)
    )
    if person is not None and rows_are_people:
        raise InvalidInput("give person or rows_are_people, not both")
    if person is not None:
        refuse_content_as_person(person, [*columns, *values], SOURCE)
    elif rows_per_person != 1:
        raise InvalidInput("rows_per_person needs person, the column that says whose row it is")
    as_integer(key, "key", low=0, high=MAX_KEY)
    chosen: dict[str, Any] = {"person": person, "rows_per_person": rows_per_person, "key": key}
    source: Any
    if engine == "spark":
        from .spark import SparkSource

        if files:
            raise InvalidInput("files are for Arrow and DuckDB; let Spark read them, and give the frame")
        source = SparkSource(rows, columns, box, **chosen)
    elif engine == "duckdb":
        from .duckdb import open_rows as open_duckdb

        source = open_duckdb(rows, columns, box, connection=connection, values=values, **chosen)
    elif files:
        from .arrow import open_files

        source = open_files(rows, columns, box, values=values, **chosen)
    else:
        from .arrow import open_rows

        source = open_rows(rows, columns, box, **chosen)
    if person is None and not rows_are_people:
        others = [name for name in source.names if name not in (*columns, *values)]
        refuse_person_columns("the rows", others, SOURCE)  # not `rows`, which may be a query with positions in it
    return source  # type: ignore[no-any-return]
