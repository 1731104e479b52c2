"""Where a crowd is, counted by DuckDB: Parquet and CSV files larger than memory, queries and relations.

If you run this you hold the rows, so you are a curator. With ``trust="nobody"`` or ``"two-servers"`` it is a simulation
of what devices and servers would do, and the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .geometry.box import Box
from .release.job import AnyTask, Done, run_on_engine


def run(
    data: Any, *, columns: Sequence[str] | None = None, box: Box | str | Sequence[float] | None = None,
    task: AnyTask | None = None, **options: Any,
) -> Done:  # fmt: skip
    """Count a crowd whose rows DuckDB reads.

    Parameters
    ----------
    data : str, Path, sequence of them, or duckdb.DuckDBPyRelation
        Parquet or CSV files, a folder, a pattern such as ``"points/*.parquet"``, a query, or a relation.
    columns : sequence of str, optional
        Numeric columns with the positions, one per axis; the names of the box's axes if left out.
    box : Box, name of a place, or bounds
        The public domain; bounds need ``columns`` beside. Left out with ``task`` or ``hierarchy``.
    task : Task or PooledTask, optional
        What to play, instead of ``box`` and ``options``.
    person : str, optional
        Column that says whose row it is. At most ``rows_per_user`` rows of everybody are chosen inside the engine, each
        with the same chance. Without it every row counts as another person, and a column that looks like a person is
        refused.
    rows_per_user : int
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
    Done
        ``result`` is what :func:`semilocal.counts` gives; ``attach()`` every row with its region, as a relation, which
        ``write_parquet`` makes a file of.

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
    return run_on_engine("duckdb", data, columns, box, task, options)
