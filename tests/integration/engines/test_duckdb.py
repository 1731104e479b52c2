"""The whole job on files, queries and relations: same results as in memory, nothing left behind, clear refusals."""

from __future__ import annotations

import gc
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.engines import open_source
from semilocal.engines.run import run_source
from semilocal.errors import EngineFailed, InvalidInput
from semilocal.pooled.task import PooledTask
from semilocal.release.counts import Counts, run_pooled
from tests.helpers.engine_runs import compare, people

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
write_csv = pytest.importorskip("pyarrow.csv").write_csv

BOX = sl.Box((-10.1, -10.1), (9.7, 9.7), names=("x", "y"))
POINTS = people(6000, 2)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three Parquet files; temporary files go to a folder that can be looked into."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    inside = tmp_path / "points"
    inside.mkdir()
    for part in range(3):
        rows = slice(2000 * part, 2000 * (part + 1))
        table = pyarrow.table({"x": POINTS[rows, 0], "y": POINTS[rows, 1], "row": np.arange(6000)[rows]})
        parquet.write_table(table, inside / f"{part}.parquet")
    return tmp_path


def test_bounds_may_be_numbers_if_the_columns_are_named(folder: Path) -> None:
    named: dict[str, Any] = {"box": [-10.1, -10.1, 9.7, 9.7], "epsilon": 1.0, "trust": "curator"}
    found = sl.duckdb.run(f"{folder}/points", columns=["x", "y"], rows_are_people=True, **named)
    assert (found.result.partition.task.box.names, found.result.total) == (("x", "y"), 6000)
    assert repr(found) == repr(found.result)
    with pytest.raises(InvalidInput, match="bounds name no columns"):
        sl.duckdb.run(f"{folder}/points", **named)


def test_a_task_a_query_a_relation_and_a_csv_file_give_the_same_bytes(folder: Path) -> None:
    task = PooledTask.build(BOX, epsilon=1.0, trust="curator")
    expected = run_pooled(task, POINTS, rng=np.random.default_rng(3)).to_bytes()
    pattern = f"{folder}/points/*.parquet"
    with duckdb.connect() as connection:
        connection.read_parquet(pattern).project("y, x").write_csv(str(folder / "points.csv"))
        relation = connection.read_parquet(pattern)
        for data in (Path(folder / "points"), f"SELECT * FROM '{pattern}'", relation, folder / "points.csv"):
            found = sl.duckdb.run(data, task=task, connection=connection, rng=np.random.default_rng(3))
            assert isinstance(found.result, Counts)
            assert found.result.published is not None
            assert found.result.published.to_bytes() == expected, data


def test_one_row_of_every_person_is_chosen_inside_the_engine(folder: Path) -> None:
    rng = np.random.default_rng(1)
    who = rng.integers(0, 500, 6000)
    table = pyarrow.table({"x": POINTS[:, 0], "y": POINTS[:, 1], "who": who})
    parquet.write_table(table, folder / "a.parquet")
    parquet.write_table(table.take(rng.permutation(6000)), folder / "b.parquet")
    chosen = []
    for name, seed in (("a", 1), ("b", 1), ("a", 2)):
        found = sl.duckdb.run(
            f"SELECT * FROM '{folder}/{name}.parquet'", box=BOX, epsilon=1.0, trust="curator", person="who",
            rng=np.random.default_rng(seed),
        )  # fmt: skip
        rows = found.attach().order("who").fetchnumpy()
        assert rows["who"].tolist() == sorted(set(who.tolist()))
        assert found.result.total == len(rows["who"])
        chosen.append(rows["x"].tolist())
    assert chosen[0] == chosen[1], "the order of the rows of a query must not matter"
    assert chosen[0] != chosen[2], "the key must matter"


def test_every_row_of_a_person_has_the_same_chance_also_equal_ones(folder: Path) -> None:
    """Three equal rows and another: the other is chosen for a quarter of 20,000 people (false alarm below 1e-9)."""
    who = np.repeat(np.arange(20_000), 4)
    table = pyarrow.table({"x": np.where(np.arange(80_000) % 4 == 0, 1.0, 2.0), "y": np.zeros(80_000), "who": who})
    parquet.write_table(table, folder / "a.parquet")
    for rows in (folder / "a.parquet", f"SELECT * FROM '{folder}/a.parquet'"):
        source = open_source(rows, ["x", "y"], BOX, engine="duckdb", person="who", key=5)
        others = int(np.count_nonzero(np.concatenate(list(source.batches()))[:, 0] == 1.0))
        assert abs(others - 5000) < 6.5 * np.sqrt(20_000 * 0.25 * 0.75)


def test_nothing_is_left_behind_when_the_run_is_gone(folder: Path) -> None:
    query = f"SELECT * FROM '{folder}/points/*.parquet'"
    for rows in (query, folder / "points"):
        found = sl.duckdb.run(rows, box=BOX, epsilon=1.0, trust="curator", person="row")
        assert len(found.attach().fetchall()) == 6000
        assert list((folder / "temporary").iterdir()) != []
    del found
    gc.collect()
    assert list((folder / "temporary").iterdir()) == []


def test_a_cancelled_query_leaves_nothing_behind(folder: Path) -> None:
    with duckdb.connect() as connection:
        endless = connection.sql("SELECT sin(i) AS x, cos(i) AS y, i AS who FROM range(1000000000000) t(i)")
        stop = threading.Timer(1.0, connection.interrupt)
        stop.start()
        with pytest.raises(EngineFailed, match="cancelled"):
            sl.duckdb.run(endless, box=BOX, epsilon=1.0, trust="curator", connection=connection)
        stop.join()
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM duckdb_temporary_files()").fetchall() == [(0,)]
    gc.collect()
    assert list((folder / "temporary").iterdir()) == []


def refused(message: str, data: Any, **options: Any) -> None:
    with pytest.raises(InvalidInput, match=message):
        sl.duckdb.run(data, **{"box": BOX, "epsilon": 1.0, "trust": "curator", **options})


def test_what_cannot_be_read_is_refused_before_anything_is_released(folder: Path) -> None:
    (folder / "empty").mkdir()
    refused("empty is an empty folder", folder / "empty")
    refused("nowhere.* names no file", str(folder / "nowhere" / "*.parquet"))
    refused("has no column 'z'", folder / "points", columns=["x", "z"])
    refused("0.parquet: has no column 'who'", folder / "points", person="who")
    refused("rows_per_user needs person", folder / "points", rows_per_user=2)
    (folder / "notes.odt").write_text("x")
    refused("cannot tell the format", folder / "notes.odt")
    (folder / "bad.csv").write_text("x,y\n1,2\none,2\n")
    refused("bad.csv, line 3: column 'x' is not a number", folder / "bad.csv")
    (folder / "hole.csv").write_text("x,y\n1,2\n,2\n")
    refused(r"of 2 rows 1 have no value", folder / "hole.csv")
    (folder / "none.csv").write_text("x,y,who\n1,2,ann\n1,2,\n")
    refused("column 'who' has no value in some rows, the first is row 1", folder / "none.csv", person="who")
    refused("'rider' looks like a person.*person='rider'", "SELECT 1.0 AS x, 2.0 AS y, 7 AS rider")
    gc.collect()  # the tracebacks of the refusals
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize("ends", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["people[1]", "peopl?", "*"])
def test_a_file_whose_name_is_a_pattern_is_read_alone(tmp_path: Path, name: str, ends: str) -> None:
    for number, file in enumerate((name, "people1", "peoples")):
        rows = pyarrow.table({"x": [float(number)], "y": [2.0]})
        write = write_csv if ends == "csv" else parquet.write_table
        write(rows, tmp_path / f"{file}.{ends}")
    own = tmp_path / f"{name}.{ends}"
    assert np.concatenate(list(open_source(own, ["x", "y"], BOX, engine="duckdb").batches())).tolist() == [[0.0, 2.0]]
    folder = np.concatenate(list(open_source(tmp_path, ["x", "y"], BOX, engine="duckdb").batches()))
    assert np.sort(folder[:, 0]).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(InvalidInput, match=f"{re.escape(own.name)}: has no column 'z'"):
        open_source(own, ["x", "z"], BOX, engine="duckdb")


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
@pytest.mark.parametrize(
    "text",
    [
        "anna,13.377713,52.516271\nbob,13.4,52.5\n",  # no line with names
        "who,x,y\n" + "bob,0.25,0.5\n" * 300 + "anna,13.377713,52.516271,5\n",  # DuckDB takes the last for the header
        "x;y\n13,377713;52,516271\n",
    ],
)
def test_a_refusal_of_a_table_does_not_show_its_rows(folder: Path, engine: Any, text: str) -> None:
    (folder / "rows.csv").write_text(text)

    def count() -> None:
        source = open_source(folder / "rows.csv", ["x", "y"], BOX, engine=engine, rows_are_people=True)
        sl.counts(source, BOX, epsilon=1.0, trust="curator", rng=np.random.default_rng(1))

    with pytest.raises(InvalidInput) as refusal:
        count()
    for private in ("anna", "377713", "516271"):
        assert private not in str(refusal.value)


def test_rows_that_would_not_be_chosen_are_checked_too(folder: Path) -> None:
    bad = pyarrow.table({"x": [0.0, float("nan")], "y": [0.0, 0.0], "who": ["ann", "ann"]})
    parquet.write_table(bad, folder / "bad.parquet")
    with pytest.raises(InvalidInput, match="of 2 rows 1 have no value or are NaN"):
        open_source(folder / "bad.parquet", ["x", "y"], BOX, engine="duckdb", person="who", key=3).check()


def test_no_rows_are_a_result_without_people() -> None:
    found = sl.duckdb.run("SELECT 0.5 AS x, 0.5 AS y WHERE false", box=BOX, epsilon=1.0, trust="curator")
    assert found.result.total == 0
    assert found.attach().fetchall() == []


def test_whole_numbers_and_decimals_are_positions() -> None:
    with duckdb.connect() as connection:
        rows = connection.sql("SELECT (i % 7)::TINYINT AS x, (i % 5)::DECIMAL(9, 2) AS y FROM range(1000) t(i)")
        source = open_source(rows, ["x", "y"], BOX, engine="duckdb", connection=connection)
        points = np.stack([np.arange(1000) % 7, np.arange(1000) % 5], axis=1).astype(float)
        compare(points, sl.Task.build(BOX, epsilon=2.0, delta=0.05, k=20), source)


def test_the_connection_is_as_it_was() -> None:
    with duckdb.connect() as connection:

        def state() -> list[Any]:
            tables = connection.execute("SELECT * FROM duckdb_tables()").fetchall()
            views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
            return [tables, views, connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()]

        before = state()
        # Names that the queries might use for themselves.
        others = {name: np.arange(6000) for name in ("row", "cell", "place", "first", "region")}
        rows = connection.from_arrow(pyarrow.table({"x": POINTS[:, 0], "y": POINTS[:, 1], **others}))
        source = open_source(rows, ["x", "y"], BOX, engine="duckdb", connection=connection)
        task = sl.Task.build(BOX, epsilon=2.0, delta=0.05, k=20)
        run_source(source, task, rng=np.random.default_rng(1)).attach(keep=["row"]).fetchnumpy()
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
            open_source(rows, ["x", "y"], sl.Box((0, 0), (1, 1)), engine="duckdb", connection=connection, person="who")
    assert not list(spill.glob("*"))
