"""How time and memory grow: `make bench` up to 10^6 rows, `python -m bench.bench_growth --most 1e8` for more.

Each measurement runs in a process of its own, so that its peak of memory is its own (`ru_maxrss`, less what a process
has that imports the package and makes the same points). Times are against `numpy.sort` of as many numbers in the same
process. Prints Markdown rows for bench/RESULTS.md; `--picture FILE.svg` draws time and memory against the rows.

Arrow and DuckDB read a Parquet file that is written into `--folder` for each size and deleted afterwards. With 10^9
rows k is 200, otherwise 20.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from semilocal import Box, Task, simulate
from semilocal.arrays import Floats

CHUNK = 1 << 20
LIMITS = {10**6: 8.0, 10**7: 6.0}  # times the sort, in memory and two dimensions


def chunks(rows: int, dimensions: int) -> Iterator[Floats]:
    """The paper's first experiment, piece by piece."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([20, number])
        yield np.clip(rng.normal(0.0, 1.5, (min(CHUNK, rows - start), dimensions)), -10, 10)


def box_of(dimensions: int) -> Box:
    """The domain of the experiment."""
    return Box((-10.0,) * dimensions, (10.0,) * dimensions)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    out = work()
    return time.perf_counter() - start, out


def peak() -> int:
    """The most memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(engine: str, rows: int, dimensions: int, k: int, rounds: int | None, folder: str) -> dict[str, Any]:
    """One run in this process."""
    box = box_of(dimensions)
    task = Task.build(box, epsilon=1.0, delta=0.05, k=k, max_rounds=rounds)
    rng = np.random.default_rng(7)
    import scipy.special  # noqa: F401  # loaded by the first exact threshold of a process; not what is measured here

    simulate(next(chunks(1000, dimensions)), task, rng=rng)  # imports and tables that every later run finds ready
    if engine == "memory":
        points = np.empty((rows, dimensions))
        for number, part in enumerate(chunks(rows, dimensions)):
            points[number * CHUNK : number * CHUNK + len(part)] = part
        before = peak()
        seconds, run = timed(lambda: simulate(points, task, rng=rng))
        used = peak() - before
        del points
        numbers = rng.integers(0, 2**63, size=rows, dtype=np.uint64)
        sort = min(timed(lambda: np.sort(numbers))[0] for _ in range(3 if rows <= 10**7 else 1))
    else:
        from semilocal.engines import open_source
        from semilocal.engines.run import run_source

        path = write_parquet(Path(folder), rows, dimensions)
        source = open_source(str(path), names(dimensions), box, engine=engine)  # type: ignore[arg-type]
        seconds, run = timed(lambda: run_source(source, task, rng=rng))
        used, sort = peak(), float("nan")
    return {"regions": len(run.partition), "rounds": run.rounds, "seconds": seconds, "bytes": used, "sort": sort}


def names(dimensions: int) -> list[str]:
    """Columns of the file."""
    return [f"x{axis}" for axis in range(dimensions)]


def write_parquet(folder: Path, rows: int, dimensions: int) -> Path:
    """The experiment as a file; written by another process, so that its memory does not count here."""
    path = folder / f"{rows}-{dimensions}.parquet"
    if not path.exists():
        subprocess.run([sys.executable, __file__, "--write", str(path), str(rows), str(dimensions)], check=True)
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
    words = [sys.executable, __file__, "--one", json.dumps(named)]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(out)
    return named | found | {"asked": named["rounds"]}


def row(found: dict[str, Any]) -> str:
    """One row of the table."""
    ratio = found["seconds"] / found["sort"]
    usual = found["dimensions"] == 2 and found["k"] == 20 and found["asked"] is None
    limit = LIMITS.get(found["rows"]) if usual else None
    against = "" if np.isnan(ratio) else f"{ratio:.1f}" + (f" (limit {limit:g})" if limit else "")
    cells = (
        found["engine"], f"{found['rows']:,}", found["dimensions"], found["k"], f"{found['regions']:,}",
        found["rounds"], f"{found['seconds']:.2f}", against, f"{found['bytes'] / 1e6:,.0f}",
        f"{found['bytes'] / found['rows']:,.0f}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Time and memory against the rows, one line per engine."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, (what, label) in zip(axes, (("seconds", "seconds"), ("bytes", "bytes of memory")), strict=True):
        for engine in dict.fromkeys(found["engine"] for found in rows):
            chosen = [found for found in rows if found["engine"] == engine and found["dimensions"] == 2]
            axis.loglog([found["rows"] for found in chosen], [found[what] for found in chosen], "o-", label=engine)
        axis.set(xlabel="rows", ylabel=label)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
    figure.savefig(path)


def main() -> None:
    """Measure growth with rows, regions (by k), rounds and dimensions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=1e6, help="most rows in memory")
    parser.add_argument("--most-streamed", type=float, help="most rows through Arrow; as many as in memory if left out")
    parser.add_argument("--engines", default="arrow", help="engines beside memory: arrow,duckdb")
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
    print("| engine | rows | d | k | regions | rounds | seconds | times sort | MB | bytes per row |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        plain = {"dimensions": 2, "k": 20, "rounds": None, "folder": folder}
        by_rows = []
        for engine in ("memory", *filter(None, given.engines.split(","))):
            most = given.most if engine == "memory" else given.most_streamed or given.most
            for size in (10**power for power in range(4, 10) if 10**power <= most):
                crowd = {"k": 200} if size == 10**9 else {}
                by_rows.append(in_process(engine=engine, rows=size, **plain | crowd))
                print(row(by_rows[-1]), flush=True)
                (Path(folder) / f"{size}-2.parquet").unlink(missing_ok=True)
        size = min(10**6, int(given.most))
        others = [{"k": k} for k in (200, 2000)] + [{"rounds": n} for n in (4, 8, 16)]
        for change in others + [{"dimensions": d} for d in (1, 3, 4, 8)]:
            print(row(in_process(engine="memory", rows=size, **plain | change)), flush=True)
    if given.picture:
        draw(by_rows, given.picture)


if __name__ == "__main__":
    main()
