"""DuckDB counts, refines and joins like the run in memory, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import Box, Task
from semilocal.arrays import Floats
from semilocal.engines.duckdb import DuckDBSource
from semilocal.engines.grouping import KEY
from semilocal.engines.run import run_source
from semilocal.engines.source import Attached
from semilocal.errors import EngineFailed, InvalidInput, OutsideDomain
from tests.helpers.edges import true_keys
from tests.helpers.engine_runs import box_of, compare, people, same_rows

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(name="connection")
def _connection() -> Any:
    with duckdb.connect(config={"threads": 2}) as opened:
        yield opened


def names(box: Box) -> list[str]:
    return [f"axis {place}" for place in range(box.dimensions)]


def source_of(points: Floats, box: Box, connection: Any) -> DuckDBSource:
    columns = dict(zip(names(box), points.T, strict=True))
    # Names that the queries might use for themselves; and the number of the row, to compare row by row.
    others = {name: np.arange(len(points)) for name in ("row", "cell", "place", "first", "region")}
    rows = connection.from_arrow(pyarrow.table({**columns, **others}))
    return DuckDBSource(rows, names(box), box, connection=connection)


def attached(relation: Any, points: Floats) -> Attached:
    found = relation.order("row").fetchnumpy()
    assert found["row"].tolist() == list(range(len(points)))
    return Attached(points, found["where"])


@pytest.mark.parametrize(("dimensions", "rule", "tree"), [
    (1, "cut", "binary"), (2, "cut", "binary"), (2, "all", "quad"), (2, "cut", "quad"), (3, "cut", "quad"),
    (3, "cut", "binary"), (8, "cut", "binary"),
])  # fmt: skip
@pytest.mark.parametrize(("kind", "depth"), [("normal", None), ("rounded", None), ("normal", 3), ("spike", 3)])
def test_duckdb_gives_the_same_bytes_and_rows_as_memory(
    connection: Any, dimensions: int, rule: Any, tree: Any, kind: str, depth: int | None
) -> None:
    points, box = people(4000, dimensions, kind=kind), box_of(dimensions)
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20, rule=rule, tree=tree)
    found = compare(points, task, source_of(points, box, connection), depth=depth)
    rows = attached(found.attach(region="where", keep=["row"]), points)
    same_rows(points, task, rows)
    crowds = np.bincount(rows.regions, minlength=len(found.partition))
    assert crowds.tolist() == found.partition.crowds.tolist()


class Filtered:
    """A relation that writes down how it is filtered."""

    def __init__(self, relation: Any) -> None:
        self.relation, self.filters = relation, list[str]()

    def filter(self, text: str) -> Any:
        self.filters.append(text)
        return self.relation.filter(text)


def test_many_keys_are_counted_in_turns_with_the_same_result(connection: Any) -> None:
    points, box = people(4000, 2), box_of(2)
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20)
    source = source_of(points, box, connection)
    source.groups_per_turn = 1000
    compare(points, task, source)
    at_once = source_of(points, box, connection).histogram(task.hierarchy, 16)
    rows = Filtered(connection.from_arrow(pyarrow.table({KEY: true_keys(task.hierarchy, points, 16)})))  # type: ignore[arg-type]
    found, _ = source.group(task.hierarchy, rows, 16, 3001)  # type: ignore[arg-type]
    assert len(rows.filters) == 4
    assert found.cells.tolist() == at_once.cells.tolist()
    assert found.counts.tolist() == at_once.counts.tolist()


def test_columns_per_region_are_joined(connection: Any) -> None:
    points, box = people(4000, 2), box_of(2)
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20)
    found = run_source(source_of(points, box, connection), task, rng=np.random.default_rng(1))
    centres = task.hierarchy.interval_boxes(found.partition.lower, found.partition.upper).mean(axis=1)
    out = found.attach(region="where", keep=["row"], add={"east": centres[:, 0], "north": centres[:, 1]}).fetchnumpy()
    assert np.array_equal(out["east"], centres[out["where"], 0])
    assert np.array_equal(out["north"], centres[out["where"], 1])


def test_regions_can_be_attached_without_a_run_before(connection: Any) -> None:
    points, box = people(4000, 2, kind="spike"), box_of(2)
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20)
    found = run_source(source_of(points, box, connection), task, rng=np.random.default_rng(1))
    fresh = source_of(points, box, connection)
    out = fresh.attach(task.hierarchy, found.lookup, region="where", keep=["row"]).order("row").fetchnumpy()
    ours = found.attach(region="where", keep=["row"]).order("row").fetchnumpy()
    assert out["where"].tolist() == ours["where"].tolist()


def test_bad_rows_are_counted_and_nothing_is_released(connection: Any, tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "bad.parquet"
    bad = [None, float("nan"), float("inf"), 9.8, -10.2]
    parquet.write_table(pyarrow.table({"x": [0.0, 1.0, *bad], "y": [0.0] * 7}), path)
    source = DuckDBSource(connection.read_parquet(str(path)), ["x", "y"], box_of(2), connection=connection)
    with pytest.raises(OutsideDomain, match=r"of 7 rows 1 have no value \(NULL\) and 2 are NaN .* and 2 lie outside"):
        source.check()
    task = Task.build(box_of(2), epsilon=2.0, delta=0.05, k=20)
    with pytest.raises(OutsideDomain, match="of 7 rows"):
        source.histogram(task.hierarchy, 4)
    with pytest.raises(OutsideDomain, match="nothing was released"):
        run_source(source, task, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("columns", "message"), [
    (["x"], "the box has 2 axes; got 1 columns"),
    (["x", "z"], "there is no column 'z'; the columns are 'x', 'y', 'name'"),
    (["x", "name"], "column 'name' holds VARCHAR, not numbers"),
])  # fmt: skip
def test_columns_that_cannot_be_positions_are_refused(connection: Any, columns: list[str], message: str) -> None:
    rows = connection.sql("SELECT 0.5 AS x, 1 AS y, 'ann' AS name")
    with pytest.raises(InvalidInput, match=message):
        DuckDBSource(rows, columns, box_of(2), connection=connection)


def test_whole_numbers_and_decimals_are_positions(connection: Any) -> None:
    rows = connection.sql("SELECT (i % 7)::TINYINT AS x, (i % 5)::DECIMAL(9, 2) AS y FROM range(1000) t(i)")
    source = DuckDBSource(rows, ["x", "y"], box_of(2), connection=connection)
    points = np.stack([np.arange(1000) % 7, np.arange(1000) % 5], axis=1).astype(float)
    compare(points, Task.build(box_of(2), epsilon=2.0, delta=0.05, k=20), source)


def test_the_connection_is_as_it_was(connection: Any) -> None:
    def state() -> list[Any]:
        tables = connection.execute("SELECT * FROM duckdb_tables()").fetchall()
        views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        return [tables, views, connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()]

    points, box = people(4000, 2), box_of(2)
    before = state()
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20)
    found = run_source(source_of(points, box, connection), task, rng=np.random.default_rng(1), depth=3)
    found.attach(region="where").fetchnumpy()
    assert state() == before


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    config = {"threads": 1, "memory_limit": "20MB", "temp_directory": str(spill)}
    with duckdb.connect(config=config) as connection:
        connection.execute("SET max_temp_directory_size = '1MB'")
        scaled = "hash({}) / 1.8446744073709552e19"
        rows = connection.sql(f"SELECT {scaled.format('i')} AS x, {scaled.format('-i')} AS y FROM range(2000000) t(i)")
        source = DuckDBSource(rows, ["x", "y"], Box((0, 0), (1, 1)), connection=connection)
        task = Task.build(source.box, epsilon=2.0, delta=0.05, k=20)
        with pytest.raises(EngineFailed, match="ran out of disk space for its temporary files"):
            source.histogram(task.hierarchy, 40)
    assert not list(spill.glob("*"))
