"""DuckDB and Spark against their own group-by of a stored key: run this file, with `--rows 1e8` for more.

Prints Markdown rows for bench/RESULTS.md. Ratios are measured in one run on one machine. The stored key is the row's
cell at the depth that the run chooses, so both sides make the same groups. Data is written to a temporary folder
(24 bytes per row) and removed; `--spark` measures Spark too, in a local session with two tasks.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from semilocal import Box, Task
from semilocal.engines.duckdb import DuckDBSource, load_duckdb
from semilocal.engines.keys import keys_of_cells
from semilocal.engines.run import choose_depth, run_source
from semilocal.engines.source import SAMPLE
from semilocal.engines.spark import SparkSource, load_spark

BOX = Box((-10, -10), (10, 10))
CHUNK = 5_000_000


def seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """Best time of several calls."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


def crowd(size: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The paper's first experiment."""
    return np.asarray(np.clip(rng.normal(0.0, 1.5, size=(size, 2)), -10, 10))


def write(folder: Path, rows: int, task: Task) -> int:
    """Parquet files with x, y and the key of each row; the depth of the keys is the run's own choice."""
    import pyarrow
    from pyarrow import parquet

    rng, tree = np.random.default_rng(20), task.hierarchy
    depth = choose_depth(tree, crowd(min(SAMPLE, rows), rng), rows, crowd=2 * task.k)
    for start in range(0, rows, CHUNK):
        points = crowd(min(CHUNK, rows - start), rng)
        keys = keys_of_cells(tree, tree.locate(points, depth), depth)  # type: ignore[arg-type]
        table = pyarrow.table({"x": points[:, 0], "y": points[:, 1], "key": keys})
        parquet.write_table(table, folder / f"{start:012}.parquet", row_group_size=1 << 17)
    return depth


def duckdb_row(folder: Path, rows: int, task: Task, depth: int) -> str:
    """Partition, and partition with regions, against DuckDB's group-by."""
    with load_duckdb().connect(config={"threads": 2, "temp_directory": str(folder / "spill")}) as connection:
        stored = connection.read_parquet(str(folder / "*.parquet"))
        group = seconds(lambda: stored.aggregate("key, count(*)", "key").fetchnumpy())
        scan = seconds(lambda: stored.aggregate("sum(x), sum(y)").fetchall())
        positions = stored.project("x, y")

        def partition() -> Any:
            source = DuckDBSource(positions, ["x", "y"], BOX, connection=connection)
            return run_source(source, task, rng=np.random.default_rng(1))

        def regions() -> None:
            partition().attach().aggregate("sum(region), sum(x)").fetchall()

        def written() -> None:
            partition().attach().write_parquet(str(folder / "out"))

        whole, every, copied = seconds(partition), seconds(regions), seconds(written, 1)
        found = partition()
    return (
        f"| DuckDB | {rows:,} | {depth} | {len(found.partition):,} | {scan:.2f} | {group:.2f} | {whole:.2f} | "
        f"{whole / group:.2f} | {every:.2f} | {every / group:.2f} | {copied:.2f} |"
    )


def spark_row(folder: Path, rows: int, task: Task, depth: int) -> str:
    """The histogram against Spark's group-by."""
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
    group = seconds(lambda: stored.groupBy("key").count().toArrow(), 3)
    histogram = seconds(lambda: source.histogram(task.hierarchy, depth), 3)
    spark.stop()
    return f"| Spark | {rows:,} | {depth} | | | {group:.2f} | {histogram:.2f} | {histogram / group:.2f} | | | |"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    rows, task = int(given.rows), Task.build(BOX, epsilon=1.0, delta=0.05, k=given.k)
    print(f"load {os.getloadavg()[0]:.1f}\n")
    head = (
        "engine", "rows", "depth", "regions", "scan (s)", "own group-by (s)", "partition or histogram (s)",
        "ratio (limit 3; Spark 1.3)", "with regions (s)", "ratio (limit 6)", "with regions, written (s)",
    )  # fmt: skip
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    with tempfile.TemporaryDirectory(prefix="semilocal-bench-") as name:
        folder = Path(name)
        depth = write(folder, rows, task)
        print(duckdb_row(folder, rows, task, depth), flush=True)
        if given.spark:
            print(spark_row(folder, rows, task, depth), flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
