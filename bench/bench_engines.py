"""DuckDB and Spark against their own group-by of a stored key: run this file, with `--rows 1e8` for more.

Prints Markdown rows for bench/RESULTS.md. Ratios are measured in one run on one machine. The stored key is the row's
cell at the depth that the run chooses, so both sides make the same groups. Every figure is "seconds (processor
seconds)"; ratios are of processor time, Spark's processes included. Up to 10^7 rows the best of two is taken (Spark: of
three), above that everything is done once.

Data (24 bytes per row, 8 with `--plain`) is written to a temporary folder and removed, or into `--folder`, where it
stays and is taken the next time. `--make` only writes it. `--plain` is for 10^9 rows: float32 and no stored key, so
that a scan of the columns is the reference. `--spark` measures Spark too, in a local session with two tasks.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench import machine
from semilocal import Box, Task
from semilocal.engines import open_source
from semilocal.engines.duckdb import load_duckdb
from semilocal.engines.run import SourceRun, run_source
from semilocal.engines.spark import SparkSource, load_spark

BOX = Box((-10, -10), (10, 10))
CHUNK = 5_000_000


class Spent(NamedTuple):
    """Seconds, and those of all processors together."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} ({self.processor:.2f})"


def spent(work: Callable[[], object], repeats: int = 2) -> Spent:
    """Least processor time of several calls."""
    found = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), machine.family_seconds()
        work()
        found.append(Spent(time.perf_counter() - wall, machine.family_seconds() - processor))
    return min(found, key=lambda one: one.processor)


def crowd(size: int, rng: np.random.Generator, kind: Any = np.float64) -> npt.NDArray[Any]:
    """The paper's first experiment."""
    points = rng.standard_normal((size, 2), dtype=kind)
    points *= 1.5
    return np.clip(points, -10, 10, out=points)


def write(folder: Path, rows: int, task: Task, *, plain: bool) -> int:
    """Parquet files with x, y and the key of each row, at the depth of the run's histogram.

    A file that is there already is not written again; every file has a seed of its own. Random numbers do not get
    smaller by compression, so there is none.
    """
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    tree, kind = task.hierarchy, np.float32 if plain else np.float64
    depth = tree.max_depth
    for start in range(0, rows, CHUNK):
        path = folder / f"{start:012}.parquet"
        if path.exists():
            continue
        points = crowd(min(CHUNK, rows - start), np.random.default_rng([20, start]), kind)
        columns: dict[str, npt.NDArray[Any]] = {"x": points[:, 0], "y": points[:, 1]}
        if not plain:
            columns["key"] = tree.locate(points, depth).astype(np.int64)
        unfinished = path.with_suffix(".part")
        parquet.write_table(
            pyarrow.table(columns), unfinished, row_group_size=1 << 17, use_dictionary=False, compression="none"
        )
        unfinished.rename(path)
    return depth


def duckdb_row(folder: Path, rows: int, task: Task, depth: int, *, plain: bool) -> str:
    """Partition, and partition with regions, against DuckDB's group-by, or against a scan if there is no key."""
    repeats = 2 if rows <= 10**7 else 1
    with (
        tempfile.TemporaryDirectory(dir=folder) as spill,
        load_duckdb().connect(config={"threads": 2, "temp_directory": spill}) as connection,
    ):
        stored = connection.read_parquet(str(folder / "*.parquet"))
        scan = spent(lambda: stored.aggregate("sum(x), sum(y)").fetchall())
        group = None if plain else spent(lambda: stored.aggregate("key, count(*)", "key").fetchnumpy())
        positions = stored.project("x, y")
        found: list[SourceRun] = []

        def partition() -> None:
            found.clear()
            source = open_source(positions, ["x", "y"], BOX, engine="duckdb", connection=connection)
            found.append(run_source(source, task, rng=np.random.default_rng(1)))

        def regions() -> None:
            found[0].attach().aggregate("sum(region), sum(x)").fetchall()

        def written() -> None:
            found[0].attach().write_parquet(str(Path(spill) / "out"))

        whole, joined = spent(partition, repeats), spent(regions, repeats)
        copied = None if plain else spent(written, 1)
    every = Spent(whole.wall + joined.wall, whole.processor + joined.processor)
    against = group or scan
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    cells = (
        "DuckDB", f"{rows:,}", depth, f"{len(found[0].partition):,}", scan, group or "", whole,
        f"{whole.processor / against.processor:.2f}", every, f"{every.processor / against.processor:.2f}",
        Spent(whole.wall + copied.wall, whole.processor + copied.processor) if copied else "", f"{memory:.2f}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def spark_row(folder: Path, rows: int, task: Task, depth: int) -> str:
    """The histogram against Spark's group-by."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.driver.host": "127.0.0.1", "spark.driver.memory": "4g", "spark.driver.maxResultSize": "4g",
        "spark.local.dir": str(folder), "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    builder = load_spark().SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    stored = spark.read.parquet(*map(str, sorted(folder.glob("*.parquet"))))
    source = SparkSource(stored.select("x", "y"), ["x", "y"], BOX)
    repeats = 3 if rows <= 10**7 else 1
    group = spent(lambda: stored.groupBy("key").count().toArrow(), repeats)
    histogram = spent(lambda: source.histogram(task.hierarchy, depth), repeats)
    spark.stop()
    ratio = histogram.processor / group.processor
    return f"| Spark | {rows:,} | {depth} | | | {group} | {histogram} | {ratio:.2f} | | | | |"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--plain", action="store_true", help="float32 and no stored key; the reference is a scan")
    parser.add_argument("--folder", type=Path, help="where the data stays; a temporary folder if left out")
    parser.add_argument("--make", action="store_true", help="write the data and end")
    given = parser.parse_args()
    if given.plain and given.spark:
        parser.error("--plain is for DuckDB: Spark is compared with its group-by of a stored key")
    rows, task = int(given.rows), Task.build(BOX, epsilon=1.0, delta=0.05, k=given.k)
    with tempfile.TemporaryDirectory(prefix="semilocal-bench-") as temporary:
        name = f"{rows}-{given.k}" + ("-plain" if given.plain else "")
        folder = (given.folder or Path(temporary)) / name
        depth = write(folder, rows, task, plain=given.plain)
        if given.make:
            return
        print(machine.line(), end="\n\n")
        head = (
            "engine", "rows", "depth", "regions", "scan (s)", "own group-by (s)", "partition or histogram (s)",
            "ratio (limit 2.5; Spark 1.2)", "with regions (s)", "ratio (limit 5)", "with regions, written (s)",
            "memory (GB)",
        )  # fmt: skip
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        print(duckdb_row(folder, rows, task, depth, plain=given.plain), flush=True)
        if given.spark:
            print(spark_row(folder, rows, task, depth), flush=True)


if __name__ == "__main__":
    main()
