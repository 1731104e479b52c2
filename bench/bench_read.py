"""How long a file of positions takes: through ``semilocal counts --trust curator``, as a multiple of DuckDB's group-by.

    python -m bench.bench_read                 ten million rows, as CSV and as Parquet
    python -m bench.bench_read --rows 1000000  quicker

DuckDB reads the same columns of the same file and counts rows per cell of a grid. Both are whole processes in turn,
by the clock, medians of several turns; both use all cores, and modules that are compiled already, as installed ones
are. Gzipped CSV has a column of people.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import machine
from semilocal.io.points import read_points

LIMITS = {"people.csv": 3.0, "people.parquet": 4.0}  # times DuckDB
GZIPPED, GZIP_LIMIT = 1_000_000, 8.0  # rows, seconds
TURNS = 7


def write_files(folder: Path, rows: int) -> None:
    """The same positions in both formats."""
    import pyarrow
    from pyarrow import csv, parquet

    rng = np.random.default_rng(1)
    points = np.round(rng.normal((-8.6, 41.15), (0.05, 0.05), (rows, 2)), 6)
    table = pyarrow.table({"ride": np.arange(rows), "longitude": points[:, 0], "latitude": points[:, 1]})
    parquet.write_table(table, folder / "people.parquet")
    csv.write_csv(table, folder / "people.csv", csv.WriteOptions(quoting_style="none"))


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of one run."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=compiled)
    return time.perf_counter() - start


def compare(folder: Path, name: str) -> tuple[float, float]:
    """Seconds of ours and of DuckDB."""
    ours = [sys.executable, "-m", "semilocal", "counts", name, "--bounds", "-9.6,40.1,-7.6,42.2", "--trust", "curator",
            "--epsilon", "1", "--grid", "32x32", "--out", "counts.csv", "--quiet", "--rows-are-people"]  # fmt: skip
    query = (
        'import duckdb; duckdb.sql("select floor((longitude + 9.6) * 16) a, floor((latitude - 40.1) * 15) b, count(*) '
        f"from '{name}' group by a, b\").fetchall()"
    )
    theirs = [sys.executable, "-c", query]
    seconds(ours, folder)  # compiles what is not compiled yet
    turns = [(seconds(ours, folder), seconds(theirs, folder)) for _ in range(TURNS)]
    return statistics.median(one for one, _ in turns), statistics.median(other for _, other in turns)


def gzip_seconds(folder: Path) -> float:
    """Reading a gzipped CSV file with a column of people."""
    block = "".join(f"{i},{41 + i * 1e-6:.6f},{-8 - i * 1e-6:.6f}\n" for i in range(GZIPPED // 10))
    path = folder / "people.csv.gz"
    path.write_bytes(gzip.compress(("user,lat,lon\n" + block * 10).encode(), 1))
    start = time.perf_counter()
    assert len(read_points(path, labels=["user"])) == GZIPPED
    return time.perf_counter() - start


def main() -> int:
    """Print Markdown rows; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows: int = parser.parse_args().rows
    missed = False
    print(machine.line(), end="\n\n")
    print("| file | rows | seconds | DuckDB | ratio | limit |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        for file, limit in LIMITS.items():
            ours, theirs = compare(folder, file)
            missed |= ours > limit * theirs
            print(f"| {file} | {rows:,} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} | {limit:g} |", flush=True)
        taken = gzip_seconds(folder)
        missed |= taken > GZIP_LIMIT
        print(f"| people.csv.gz, with people | {GZIPPED:,} | {taken:.2f} | | | {GZIP_LIMIT:g} s |")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
