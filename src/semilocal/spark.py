"""Where a crowd is, counted by Spark: a DataFrame in, a result and a DataFrame out.

If you run this you hold the rows, so you are a curator. With ``trust="nobody"`` or ``"two-servers"`` it is a simulation
of what devices and servers would do, and the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .geometry.box import Box
from .release.job import AnyTask, Done, run_on_engine


def run(
    frame: Any, columns: Sequence[str] | None = None, task: AnyTask | None = None, *,
    box: Box | str | Sequence[float] | None = None, **options: Any,
) -> Done:  # fmt: skip
    """Count a crowd whose rows are in a DataFrame of Spark.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        It is read several times: cache it if it is expensive to compute.
    columns, task, box, **options
        As of :func:`semilocal.duckdb.run`, without ``connection``. A DataFrame has no order: rows are chosen, and put
        in order, by their contents.

    Returns
    -------
    Done
        ``result`` is what :func:`semilocal.counts` gives; ``attach()`` every row with its region, as a DataFrame.
    """
    return run_on_engine("spark", frame, columns, box, task, options)
