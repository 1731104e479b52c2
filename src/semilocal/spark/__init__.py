"""Where a crowd is, counted by Spark: a DataFrame in, a result and a DataFrame out.

If you run this you hold the rows, so you are a curator. With ``trust="nobody"`` or ``"two-servers"`` it is a simulation
of what devices and servers would do, and the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..engines import open_source
from ..engines.spark import SparkSource
from ..geometry.box import Box
from ..release.job import AnyTask, Done, Job, choosing_key

__all__ = ["run", "source"]


def source(
    frame: Any,
    columns: Sequence[str],
    box: Box,
    *,
    person: str | None = None,
    rows_per_user: int = 1,
    order: str | None = None,
    rng: np.random.Generator | None = None,
    rows_are_people: bool = False,
) -> SparkSource:
    """A DataFrame as a source, for :func:`semilocal.counts`, :func:`semilocal.mean` and the others.

    Parameters are those of :func:`run`.
    """
    key = choosing_key(person, rows_per_user, rng)
    found = open_source(
        frame, columns, box, engine="spark", person=person, rows_per_person=rows_per_user, key=key, order=order,
        rows_are_people=rows_are_people,
    )  # fmt: skip
    return cast(SparkSource, found)


def run(
    frame: Any,
    columns: Sequence[str] | None = None,
    task: AnyTask | None = None,
    *,
    box: Box | None = None,
    person: str | None = None,
    rows_per_user: int = 1,
    order: str | None = None,
    rng: np.random.Generator | None = None,
    rows_are_people: bool = False,
    **options: Any,
) -> Done:
    """Count a crowd whose rows are in a DataFrame of Spark.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        It is read several times: cache it if it is expensive to compute.
    columns, task, box, person, rows_per_user, rng, rows_are_people, **options
        As of :func:`semilocal.duckdb.run`.
    order : str, optional
        Column that has the number of each row, from 0. With it the same seed gives the same rows and means as in
        memory; without it rows are chosen, and put in order, by their contents.

    Returns
    -------
    Done
        ``result`` is what :func:`semilocal.counts` gives; ``attach()`` every row with its region, as a DataFrame.
    """
    asked = Job.on_engine(box, task, rows_per_user, rng, options)
    names = asked.domain.names if columns is None else tuple(columns)
    rows = source(
        frame, names, asked.domain, person=person, rows_per_user=rows_per_user, order=order, rng=rng,
        rows_are_people=rows_are_people,
    )  # fmt: skip
    return replace(asked, data=rows).run()
