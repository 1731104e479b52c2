"""Spark counts, refines and joins like the run in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import Task
from semilocal.engines.run import run_source
from semilocal.engines.spark import SparkSource
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import Box
from semilocal.pooled.task import PooledTask
from semilocal.release.counts import Counts, run_pooled
from tests.helpers.engine_runs import box_of, people

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # Spark's own, about versions of pandas


def test_bad_rows_are_counted_and_nothing_is_released(spark: Any) -> None:
    bad = [None, float("nan"), float("inf"), 9.8, -10.2]
    table = pyarrow.table({"x": pyarrow.array([0.0, 1.0, *bad], pyarrow.float64()), "y": [0.0] * 7})
    source = SparkSource(spark.createDataFrame(table), ["x", "y"], box_of(2))
    task = Task.build(box_of(2), epsilon=2.0, delta=0.05, k=20)
    with pytest.raises(OutsideDomain, match=r"of 7 rows 3 have no value or are NaN .* and 2 lie outside"):
        run_source(source, task, rng=np.random.default_rng(1))
    with pytest.raises(OutsideDomain, match="of 7 rows"):
        source.histogram(task.hierarchy, 4)


def test_swapped_axes_are_named(spark: Any) -> None:
    table = pyarrow.table({"lon": [37.7712] * 7, "lat": [-122.4271] * 7})
    box = Box((-123, 37), (-121, 38), names=("lon", "lat"))
    with pytest.raises(OutsideDomain, match=r"of 7 rows 7 lie outside .* axes look swapped.*nothing was") as caught:
        SparkSource(spark.createDataFrame(table), ["lon", "lat"], box).check()
    assert "7712" not in str(caught.value)


@pytest.mark.parametrize(("columns", "message"), [
    (["x"], "the box has 2 axes; got 1 columns"),
    (["x", "z"], "there is no column 'z'; the columns are 'x', 'y', 'name'"),
    (["x", "name"], "column 'name' holds string, not numbers"),
])  # fmt: skip
def test_columns_that_cannot_be_positions_are_refused(spark: Any, columns: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SparkSource(spark.sql("SELECT 0.5 AS x, 1 AS y, 'ann' AS name"), columns, box_of(2))


def test_files_are_left_to_spark(spark: Any) -> None:
    with pytest.raises(InvalidInput, match="let Spark read them, and give the frame"):
        sl.spark.run("people.parquet", ["x", "y"], box=box_of(2), epsilon=1.0, trust="curator")


def test_the_whole_job_gives_what_memory_gives_and_chooses_rows_alike(spark: Any) -> None:
    points, box = people(4000, 2), box_of(2)
    task = PooledTask.build(box, epsilon=1.0, trust="curator")
    table = pyarrow.table({"x": points[:, 0], "y": points[:, 1], "who": np.arange(4000) // 4})
    frame = spark.createDataFrame(table)
    found = sl.spark.run(frame, ["x", "y"], task, rng=np.random.default_rng(3))
    assert isinstance(found.result, Counts)
    assert found.result.published is not None
    assert found.result.published.to_bytes() == run_pooled(task, points, rng=np.random.default_rng(3)).to_bytes()
    again = spark.createDataFrame(table.take(np.random.default_rng(1).permutation(4000)))
    chosen = [
        SparkSource(rows, ["x", "y"], box, person="who", key=4).rows.orderBy("who").toArrow() for rows in (frame, again)
    ]
    assert chosen[0].equals(chosen[1])
    assert chosen[0]["who"].to_pylist() == list(range(1000))
