"""What a map of a million cells costs beside one of a hundred thousand: queries, means, points, exports, files.

    python -m bench.bench_cells [--trust curator]

Processor times in s, and the growth from about 10^5 to about 10^6 cells; more than 12 is called a cliff (exit code 1).
Both maps come from one crowd, with as many people per cell.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import semilocal as sl
from bench import machine
from semilocal.page.single import write_html

BOX = sl.Box((-10.0, -10.0), (10.0, 10.0), names=("lon", "lat"))
CLIFF = 12.0
EPSILON = {"curator": 16.0, "two-servers": 20.0, "nobody": 4.0}


def crowd(people: int) -> Any:
    """The paper's first experiment."""
    return np.random.default_rng(20).normal(0.0, 1.5, (people, 2)).clip(-10, 10)


def measure(people: int, trust: Any, folder: Path) -> tuple[int, dict[str, float]]:
    """Cells, and processor seconds of everything that a result can do."""
    points, rng, spent = crowd(people), np.random.default_rng(1), dict[str, float]()
    named: dict[str, Any] = {"epsilon": EPSILON[trust], "trust": trust, "rng": rng}
    named |= {"k": 10, "delta": 0.05} if trust == "nobody" else {}

    def timed(what: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        found = work()
        spent[what] = time.process_time() - start
        print(f"{people:,} people: {what} {spent[what]:.3f}", file=sys.stderr, flush=True)
        return found

    found = timed("counts", lambda: sl.counts(points, BOX, **named))
    lower = np.random.default_rng(2).uniform(-5, 4, (10_000, 2))
    boxes = np.stack([lower, lower + 1], axis=1)
    timed("first box", lambda: found.answer(sl.Box((-1, -1), (1, 1))))
    timed("10^4 boxes with intervals", lambda: found.answer(boxes).interval())
    timed("density, 512 x 512", lambda: found.density((512, 512)))
    timed("10^6 positions located", lambda: found.locate(points[:1_000_000]))
    timed("means of cells", lambda: sl.cell_means(points, sl.functions.coordinate(0), BOX, **named).to_table())
    timed("points", lambda: sl.points(points, BOX, **named).to_table())
    timed("to_table", found.to_table)
    timed("to_geojson", found.to_geojson)
    timed("save_geojson", lambda: found.save_geojson(folder / "regions.geojson"))
    timed("to_geoparquet", lambda: found.to_geoparquet(folder / "regions.parquet"))
    timed("save", lambda: found.save(folder / "result.slr"))
    timed("load", lambda: sl.load(folder / "result.slr"))
    timed("HTML", lambda: write_html(folder / "map.html", found, found.guarantee, title="cells", numbers={}))
    timed("picture", lambda: found.plot().figure.savefig(folder / "map.png"))
    return len(found.partition), spent


def main() -> int:
    """Print a table; exit code 1 if anything grows faster than the cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", choices=list(EPSILON), default="curator")
    parser.add_argument("--people", type=float, default=2e6)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine.line(), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        few, before = measure(int(given.people) // 10, given.trust, Path(folder))
        many, after = measure(int(given.people), given.trust, Path(folder))
    print(f"| {given.trust} | {few:,} cells (s) | {many:,} cells (s) | growth |\n|---|---|---|---|")
    good = True
    for what, seconds in after.items():
        growth = seconds / max(before[what], 1e-3) / (many / few) * 10
        good &= growth <= CLIFF or seconds < 1
        print(f"| {what} | {before[what]:.3f} | {seconds:.3f} | {growth:.1f} |")
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB at most")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
