"""Where a crowd is, counted by DuckDB: Parquet and CSV files larger than memory, queries and relations.

Who runs this holds the rows, and so is a curator; with ``trust="nobody"`` or ``"two-servers"`` it is a simulation of
what devices and servers would do, and the result says so.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..engines.duckdb import DuckDBSource
from ..geometry.box import Box
from ..release.engine_run import AnyTask, EngineRun, choosing_key, planned_task, run_on
from .rows import OpenRows, choose_rows, open_rows, write_parquet

__all__ = ["DuckDBRun", "run", "source"]


@dataclass(frozen=True, eq=False)
class DuckDBRun(EngineRun):
    """A finished run on DuckDB.

    Attributes
    ----------
    files : tuple of str
        The files that were read.
    """

    files: tuple[str, ...] = ()

    def write(self, path: str | Path, **options: Any) -> None:
        """Write every row with its region to a Parquet file; see ``attach`` for the options.

        The engine writes it; the file appears when it is complete. It is as private as the rows.
        """
        write_parquet(self.attach(**options), path, inputs=self.files)


def source(
    data: Any,
    columns: Sequence[str],
    box: Box,
    *,
    person: str | None = None,
    rows_per_user: int = 1,
    connection: Any = None,
    rng: np.random.Generator | None = None,
) -> DuckDBSource:
    """Rows as a source, for :func:`semilocal.counts`, :func:`semilocal.mean` and the others.

    Parameters are those of :func:`run`.
    """
    return _source(_rows(data, columns, person, rows_per_user, connection, rng), columns, box, rows_per_user)


def run(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    box: Box | None = None,
    task: AnyTask | None = None,
    person: str | None = None,
    rows_per_user: int = 1,
    connection: Any = None,
    rng: np.random.Generator | None = None,
    **options: Any,
) -> DuckDBRun:
    """Count a crowd whose rows DuckDB reads.

    Parameters
    ----------
    data : str, Path, sequence of them, or duckdb.DuckDBPyRelation
        Parquet or CSV files, a folder, a pattern such as ``"points/*.parquet"``, a query, or a relation.
    columns : sequence of str, optional
        Numeric columns with the positions, one per axis; the names of the box's axes if left out.
    box : Box
        The public domain. Left out with ``task``.
    task : Task or PooledTask, optional
        What to play, instead of ``box`` and ``options``.
    person : str, optional
        Column that says whose row it is. At most ``rows_per_user`` rows of everybody are chosen inside the engine, each
        with the same chance. Without it every row counts as another person.
    rows_per_user : int
    connection : duckdb.DuckDBPyConnection, optional
        For a query or a relation that belongs to one. Nothing is changed in it.
    rng : numpy.random.Generator, optional
        For simulation: seeded noise protects nobody, and the result says so.
    **options
        ``epsilon`` and ``trust``, and what :func:`semilocal.counts` takes for them: delta, k, rule, resolution, and so
        on.

    Returns
    -------
    DuckDBRun
        ``result`` is what :func:`semilocal.counts` gives; ``attach()`` every row with its region, as a relation;
        ``write(path)`` the same as a Parquet file.

    Examples
    --------
    >>> import pytest; _ = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    >>> import semilocal.duckdb
    >>> rows = "SELECT (i * 7919 % 10007) / 10007 AS x, (i * 104729 % 9973) / 9973 AS y FROM range(20000) t(i)"
    >>> box = semilocal.Box((0, 0), (1, 1), names=("x", "y"))
    >>> found = semilocal.duckdb.run(rows, box=box, epsilon=1.0, trust="curator")
    >>> found.result.total, len(found.attach().columns)
    (20000, 3)
    """
    planned = planned_task(box, task, rows_per_user, options)
    names = planned.box.names if columns is None else tuple(columns)
    rows = _rows(data, names, person, rows_per_user, connection, rng)
    done = run_on(_source(rows, names, planned.box, rows_per_user), planned, rows_per_person=rows_per_user, rng=rng)
    return DuckDBRun(done.result, done.hierarchy, done.lookup, done.source, rows.files)


def _rows(
    data: Any, columns: Sequence[str], person: str | None, most: int, connection: Any, rng: np.random.Generator | None
) -> OpenRows:
    key = choosing_key(person, most, rng)
    rows = open_rows(data, columns, connection=connection, texts=() if person is None else (person,))
    try:
        return rows if person is None else choose_rows(rows, person, rows_per_person=most, key=key)
    except BaseException:
        rows.remove()
        raise


def _source(rows: OpenRows, columns: Sequence[str], box: Box, most: int) -> DuckDBSource:
    try:
        out = DuckDBSource(rows.relation, columns, box, connection=rows.connection)
    except BaseException:
        rows.remove()
        raise
    out.rows_per_person = most
    weakref.finalize(out, shutil.rmtree, rows.folder, True)
    return out
