"""DuckDB counts, refines and joins like the run in memory, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import Box, Task
from semilocal.arrays import Floats
from semilocal.engines import open_source
from semilocal.engines.run import run_source
from semilocal.engines.source import Source
from semilocal.errors import EngineFailed
from tests.helpers.engine_runs import box_of, compare, people

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(name="connection")
def _connection() -> Any:
    with duckdb.connect(config={"threads": 2}) as opened:
        yield opened


def names(box: Box) -> list[str]:
    return [f"axis {place}" for place in range(box.dimensions)]


def source_of(points: Floats, box: Box, connection: Any) -> Source:
    columns = dict(zip(names(box), points.T, strict=True))
    # Names that the queries might use for themselves; and the number of the row, to compare row by row.
    others = {name: np.arange(len(points)) for name in ("row", "cell", "place", "first", "region")}
    rows = connection.from_arrow(pyarrow.table({**columns, **others}))
    return open_source(rows, names(box), box, engine="duckdb", connection=connection)


def test_whole_numbers_and_decimals_are_positions(connection: Any) -> None:
    rows = connection.sql("SELECT (i % 7)::TINYINT AS x, (i % 5)::DECIMAL(9, 2) AS y FROM range(1000) t(i)")
    source = open_source(rows, ["x", "y"], box_of(2), engine="duckdb", connection=connection)
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
    found = run_source(source_of(points, box, connection), task, rng=np.random.default_rng(1))
    found.attach(keep=["row"]).fetchnumpy()
    assert state() == before


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    config = {"threads": 1, "memory_limit": "20MB", "temp_directory": str(spill)}
    with duckdb.connect(config=config) as connection:
        connection.execute("SET max_temp_directory_size = '1MB'")
        scaled = "hash({}) / 1.8446744073709552e19"
        columns = f"{scaled.format('i')} AS x, {scaled.format('-i')} AS y, i AS who"
        rows = connection.sql(f"SELECT {columns} FROM range(2000000) t(i)")
        with pytest.raises(EngineFailed, match="ran out of disk space for its temporary files"):
            open_source(rows, ["x", "y"], Box((0, 0), (1, 1)), engine="duckdb", connection=connection, person="who")
    assert not list(spill.glob("*"))
