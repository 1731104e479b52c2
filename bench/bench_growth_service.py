"""How the service grows: reports per second, and two servers against people, cells and processes.

    python -m bench.bench_growth_service [--seconds 3] [--most 40000] [--picture FILE.svg]

Prints Markdown tables for bench/RESULTS.md. The first is bench_service.py; a round of N
devices in a window of W seconds needs N / W reports per second. The others count people who uploaded before; both
servers run here, each with its own SQLite file. "processor" is that of the leader with its
workers, so it depends little on what else the machine does; seconds do.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.bench_pair import count, open_pair, peak_memory, running_pair, send
from bench.bench_service import bench, new_crowd, subjects
from semilocal import Box
from semilocal.pooled import PooledTask
from tests.helpers.postgres import Postgres

ROOT = Path(__file__).resolve().parents[1]
LEVELS = 24
COUNT = 20_000  # participants per second of load, more than any server takes


def reports_per_second(seconds: int, turns: int) -> None:
    """Reports per second of one server, on both databases."""
    print("| server | reports/s | devices in an hour | p99 (ms) | processor (us per report) |")
    print("|---|---|---|---|---|")
    try:
        cluster: Postgres | None = Postgres()
    except (RuntimeError, ImportError, KeyError, OSError) as error:
        print(f"without PostgreSQL: {error}")
        cluster = None
    try:
        database = "" if cluster is None else cluster.new_database()
        part = COUNT * seconds
        crowd = new_crowd(part * turns)
        with (
            tempfile.TemporaryDirectory(dir=ROOT / "bench") as folder,
            subjects(crowd, database, Path(folder)) as servers,
        ):
            for server in servers:
                found = [
                    bench(server, crowd.task.id, crowd.requests[turn * part : (turn + 1) * part], 256, seconds, cluster,
                          Path(folder))
                    for turn in range(turns)
                ]  # fmt: skip
                rate, late = median(one.rate for one, _ in found), median(one.p99 for one, _ in found)
                spent = median(one.processor + others for one, others in found)
                print(f"| {server.name} | {rate:,.0f} | {3600 * rate:,.0f} | {late:.0f} | {spent:.0f} |", flush=True)
    finally:
        if cluster is not None:
            cluster.stop()


def pair_row(people: int, epsilon: float, processes: int) -> dict[str, Any]:
    """Count people with two servers that have a given number of worker processes each."""
    pooled = PooledTask.build(Box((0, 0), (1, 1)), epsilon=epsilon, trust="two-servers", max_depth=LEVELS)
    with running_pair(processes=processes) as servers:
        pair = open_pair(servers, pooled)
        send(servers, pair, people, [1])
        size = Path(servers[0].database.removeprefix("sqlite:///")).stat().st_size
        took, spent, counts = count(servers, pair.id.hex())
        regions = len(counts.partition)
        memory = max(peak_memory(server.process.pid) for server in servers if server.process is not None)
    found = {
        "people": people, "epsilon": epsilon, "processes": processes, "regions": regions, "seconds": took,
        "processor": spent[0], "megabytes": memory, "disk": size / people,
    }  # fmt: skip
    each = 1e6 * spent[0] / people
    cells = (
        f"{people:,}", epsilon, processes, f"{regions:,}", f"{took:.1f}", f"{spent[0]:.1f}", f"{each:,.0f}",
        f"{1e3 * each / regions:,.0f}", f"{memory:,.0f}", f"{size / people:,.0f}",
    )  # fmt: skip
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return found


def pairs_against_people_and_cells(most: int) -> list[dict[str, Any]]:
    """Two servers: more people at one epsilon, more cells for the same people, more processes."""
    print(
        "| people | epsilon (any two places; delta = 0) | processes a side | regions | seconds | "
        "processor, one side (s) | us per person | ns per person and region | MB, one side | uploads (bytes each) |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    cores, middle = os.cpu_count() or 1, min(20_000, most)
    sizes = [size for size in (5_000, 10_000, 20_000, 40_000, 80_000) if size <= most]
    runs = [(size, 2.0, cores) for size in sizes] + [(middle, epsilon, cores) for epsilon in (0.5, 1.0, 4.0)]
    return [pair_row(*run) for run in [*runs, (middle, 2.0, 1)]]


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Processor time against people, and against regions."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    middle = rows[-1]["people"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    by_people = [row for row in rows[:-1] if row["epsilon"] == 2.0]
    by_regions = sorted((row for row in rows[:-1] if row["people"] == middle), key=lambda row: int(row["regions"]))
    for axis, what, chosen in ((axes[0], "people", by_people), (axes[1], "regions", by_regions)):
        for number, label in (("processor", "processor, one side"), ("seconds", "both servers on this machine")):
            axis.loglog([row[what] for row in chosen], [row[number] for row in chosen], "o-", label=label)
        axis.set(xlabel=what, ylabel="seconds")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
    figure.savefig(path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3, help="of load, per turn and server")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--most", type=int, default=40_000, help="most people of two servers")
    parser.add_argument("--picture", help="draw into this file")
    given = parser.parse_args()
    print(machine.line(), end="\n\n")
    reports_per_second(given.seconds, given.turns)
    print()
    rows = pairs_against_people_and_cells(given.most)
    if given.picture:
        draw(rows, given.picture)


if __name__ == "__main__":
    main()
