"""Where a crowd is, counted by DuckDB: Parquet and CSV files larger than memory, queries and relations.

If you run this you hold the rows, so you are a curator. With ``trust="nobody"`` or ``"two-servers"`` it is a simulation
of what devices and servers would do, and the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..engines import open_source
from ..engines.duckdb import DuckDBSource, reporting_failures
from ..geometry.box import Box
from ..io.files import check_outputs
from ..release.job import AnyTask, Done, Job, choosing_key
from ..whole_file import whole_file

__all__ = ["DuckDBRun", "run", "source"]


@dataclass(frozen=True, eq=False)
class DuckDBRun(Done):
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
        target = Path(path)
        check_outputs({"path": (target, (".parquet",))}, inputs=self.files)
        with whole_file(target) as part, reporting_failures():
            self.attach(**options).write_parquet(str(part))


def source(
    data: Any,
    columns: Sequence[str],
    box: Box,
    *,
    person: str | None = None,
    rows_per_user: int = 1,
    order: str | None = None,
    values: Sequence[str] = (),
    connection: Any = None,
    rng: np.random.Generator | None = None,
    rows_are_people: bool = False,
) -> DuckDBSource:
    """Rows as a source, for :func:`semilocal.counts`, :func:`semilocal.mean` and the others.

    Parameters are those of :func:`run`, and ``values``: further columns of numbers that a job may name.
    """
    key = choosing_key(person, rows_per_user, rng)
    found = open_source(
        data, columns, box, engine="duckdb", person=person, rows_per_person=rows_per_user, key=key, values=values,
        order=order, connection=connection, rows_are_people=rows_are_people,
    )  # fmt: skip
    return cast(DuckDBSource, found)


def run(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    box: Box | None = None,
    task: AnyTask | None = None,
    person: str | None = None,
    rows_per_user: int = 1,
    order: str | None = None,
    connection: Any = None,
    rng: np.random.Generator | None = None,
    rows_are_people: bool = False,
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
        The public domain. Left out with ``task`` or ``hierarchy``.
    task : Task or PooledTask, optional
        What to play, instead of ``box`` and ``options``.
    person : str, optional
        Column that says whose row it is. At most ``rows_per_user`` rows of everybody are chosen inside the engine, each
        with the same chance. Without it every row counts as another person, and a column that looks like a person is
        refused.
    rows_per_user : int
    order : str, optional
        Column that has the number of each row, from 0. The rows of files have numbers; those of a query or relation
        are chosen by their contents without it.
    connection : duckdb.DuckDBPyConnection, optional
        For a query or a relation that belongs to one. Nothing is changed in it.
    rng : numpy.random.Generator, optional
        For simulation: seeded noise protects nobody, and the result says so.
    rows_are_people : bool
        Every row is another person, whatever the names of the columns say.
    **options
        ``epsilon`` and ``trust``, and what :func:`semilocal.counts` takes for them: delta, k, rule, resolution,
        ``hierarchy`` (another public tree instead of ``box``), and so on.

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
    asked = Job.on_engine(box, task, rows_per_user, rng, options)
    names = asked.domain.names if columns is None else tuple(columns)
    rows = source(
        data, names, asked.domain, person=person, rows_per_user=rows_per_user, order=order, connection=connection,
        rng=rng, rows_are_people=rows_are_people,
    )  # fmt: skip
    done = replace(asked, data=rows).run()
    return DuckDBRun(done.result, done.run, data=rows, files=tuple(map(str, rows.inputs)))
