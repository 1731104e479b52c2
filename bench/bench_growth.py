"""How time and memory grow: `make bench` up to 10^6 rows, `python -m bench.bench_growth --most 1e8` for more.

Each measurement runs in a process of its own, so that its peak of memory is its own (`ru_maxrss`, less what a process
has that imports the package and makes the same points). Times are processor times of all cores, against the faster
`numpy.sort` of as many numbers. Prints Markdown rows for bench/RESULTS.md; `--picture FILE.svg` draws time and memory.

Arrow and DuckDB read a Parquet file that is written into `--folder` for each size and deleted afterwards. Where nobody
is trusted, k is 20, and 200 with 10^9 rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import semilocal as sl
from bench import machine
from semilocal.arrays import Floats

CHUNK = 1 << 20
LIMITS = {10**6: 6.0, 10**7: 4.0, 10**8: 5.0}  # times the sort, in memory and two dimensions
TRUSTS = ("nobody", "curator", "two-servers")


def chunks(rows: int, dimensions: int) -> Iterator[Floats]:
    """The paper's first experiment, piece by piece."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([20, number])
        yield np.clip(rng.normal(0.0, 1.5, (min(CHUNK, rows - start), dimensions)), -10, 10)


def box_of(dimensions: int) -> sl.Box:
    """The domain of the experiment."""
    return sl.Box((-10.0,) * dimensions, (10.0,) * dimensions)


def peak() -> int:
    """The most memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(engine: str, trust: str, rows: int, dimensions: int, k: int, folder: str) -> dict[str, Any]:
    """One run in this process."""
    box, rng = box_of(dimensions), np.random.default_rng(7)
    named: dict[str, Any] = {"epsilon": 1.0, "trust": trust, "rng": rng} | ({"k": k} if trust == "nobody" else {})
    sl.counts(next(chunks(100_000, dimensions)), box, **named)  # imports and tables that every later run finds ready
    people: Any
    if engine == "memory":
        people = np.empty((rows, dimensions))
        for number, part in enumerate(chunks(rows, dimensions)):
            people[number * CHUNK : number * CHUNK + len(part)] = part
        before = peak()
    else:
        from semilocal.engines import open_source

        path, before = write_parquet(Path(folder), rows, dimensions), 0
        people = open_source(str(path), names(dimensions), box, engine=engine)  # type: ignore[arg-type]
    start = time.process_time(), time.perf_counter()
    found = sl.counts(people, box, **named)
    seconds, clock = time.process_time() - start[0], time.perf_counter() - start[1]
    return {"regions": len(found.partition), "seconds": seconds, "clock": clock, "bytes": peak() - before}


def names(dimensions: int) -> list[str]:
    """Columns of the file."""
    return [f"x{axis}" for axis in range(dimensions)]


def write_parquet(folder: Path, rows: int, dimensions: int) -> Path:
    """The experiment as a file; written by another process, so that its memory does not count here."""
    path = folder / f"{rows}-{dimensions}.parquet"
    if not path.exists():
        subprocess.run(
            [sys.executable, "-m", "bench.bench_growth", "--write", str(path), str(rows), str(dimensions)], check=True
        )
    return path


def write(path: str, rows: int, dimensions: int) -> None:
    """Write the file."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names(dimensions)])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for part in chunks(rows, dimensions):
            columns = [pyarrow.array(column) for column in part.T]
            writer.write_table(pyarrow.table(columns, schema=schema))


def in_process(**named: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    words = [sys.executable, "-m", "bench.bench_growth", "--one", json.dumps(named)]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(out)
    return named | found | {"sort": machine.fastest_sort(named["rows"])[0] if named["rows"] < 10**9 else np.nan}


def row(found: dict[str, Any]) -> str:
    """One row of the table."""
    ratio = found["seconds"] / found["sort"]
    usual = found["engine"] == "memory" and found["dimensions"] == 2 and found["k"] == 20
    limit = LIMITS.get(found["rows"]) if usual else None
    against = "" if np.isnan(ratio) else f"{ratio:.1f}" + (f" (limit {limit:g})" if limit else "")
    crowd = found["k"] if found["trust"] == "nobody" else ""
    cells = (
        found["trust"], found["engine"], f"{found['rows']:,}", found["dimensions"], crowd, f"{found['regions']:,}",
        f"{found['seconds']:.2f}", f"{found['clock']:.2f}", against, f"{found['bytes'] / 1e6:,.0f}",
        f"{found['bytes'] / found['rows']:,.0f}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Time and memory against the rows, one line per engine."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, (what, unit) in zip(
        axes, (("seconds", "seconds of processor"), ("bytes", "bytes of memory")), strict=True
    ):
        for way in dict.fromkeys((found["trust"], found["engine"]) for found in rows):
            chosen = [found for found in rows if (found["trust"], found["engine"]) == way]
            label = ", ".join(way)
            axis.loglog([found["rows"] for found in chosen], [found[what] for found in chosen], "o-", label=label)
        axis.set(xlabel="rows", ylabel=unit)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
    figure.savefig(path)


def main() -> None:
    """Measure growth with rows, then with k and dimensions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=float, default=1e4, help="fewest rows")
    parser.add_argument("--most", type=float, default=1e6, help="most rows in memory")
    parser.add_argument("--most-streamed", type=float, help="most rows through an engine; as many if left out")
    parser.add_argument("--engines", default="memory,arrow", help="out of memory,arrow,duckdb")
    parser.add_argument("--trusts", default=",".join(TRUSTS))
    parser.add_argument("--only-rows", action="store_true", help="leave out the change of k and dimensions")
    parser.add_argument("--picture", help="draw into this file")
    parser.add_argument("--folder", help="where files are written")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.write[0], int(given.write[1]), int(given.write[2]))
        return
    if given.one:
        print(json.dumps(measure(**json.loads(given.one))))
        return
    head = (
        "trust", "engine", "rows", "d", "k", "regions", "processor (s)", "clock (s)", "times sort", "MB",
        "bytes per row",
    )  # fmt: skip
    print(f"{machine.line()}\n\n| {' | '.join(head)} |\n" + "|---" * len(head) + "|")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        plain = {"dimensions": 2, "k": 20, "folder": folder}
        by_rows = []
        for engine in given.engines.split(","):
            most = given.most if engine == "memory" else given.most_streamed or given.most
            for size in (10**power for power in range(4, 10) if given.least <= 10**power <= most):
                for trust in given.trusts.split(","):
                    crowd = {"k": 200} if size == 10**9 else {}
                    by_rows.append(in_process(engine=engine, trust=trust, rows=size, **plain | crowd))
                    print(row(by_rows[-1]), flush=True)
                (Path(folder) / f"{size}-2.parquet").unlink(missing_ok=True)
        size = min(10**6, int(given.most))
        changes = [{"k": k} for k in (200, 2000)] + [{"dimensions": d} for d in (1, 3, 4, 8)]
        for change in () if given.only_rows else changes:
            print(row(in_process(engine="memory", trust="nobody", rows=size, **plain | change)), flush=True)
    if given.picture:
        draw(by_rows, given.picture)


if __name__ == "__main__":
    main()
