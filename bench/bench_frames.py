"""Ways in and out: regions as GeoJSON and GeoParquet, and counts in polygons.

    python -m bench.bench_frames

Times are processor times of one core, the smallest of several turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import shapely

import semilocal as sl
from bench import machine
from semilocal.datasets import california_housing
from semilocal.io.regions import regions_json

REGIONS = 20_000
MOST_GEOJSON_SECONDS = 0.050
MOST_GEOPARQUET_BYTES = 300_000
POLYGONS = 1_000
MOST_POLYGON_SECONDS = 5.0
BOX = sl.Box((-125, 32), (-114, 42), names=("lon", "lat"))


def best(work: Callable[[], object], turns: int = 7) -> float:
    """Smallest processor time of a call."""
    times = []
    for _ in range(turns):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def counted(trust: Any, rng: np.random.Generator, copies: int) -> Any:
    """Counts over California's block groups, each several times with a little jitter."""
    homes, _ = california_housing()
    points = np.concatenate([homes + rng.normal(0, 0.02, homes.shape) for _ in range(copies)])
    named: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    return sl.counts(points.clip(BOX.lower, BOX.upper), BOX, epsilon=2.0, trust=trust, rng=rng, **named)


def polygons(corners: int, rng: np.random.Generator) -> Any:
    """Stars of 0.1 to 1 degree."""
    middles, sizes = rng.uniform(BOX.lower, BOX.upper, (POLYGONS, 1, 2)), rng.uniform(0.05, 0.5, (POLYGONS, 1, 1))
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    radii = sizes * rng.uniform(0.5, 1.0, (POLYGONS, corners, 1))
    return shapely.polygons(middles + radii * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def main() -> int:
    print(machine.line(), end="\n\n")
    rng = np.random.default_rng(1)
    found = counted("curator", rng, 14)
    regions, good = len(found.partition), True
    seconds = best(lambda: regions_json(found.partition)) * REGIONS / regions
    print(f"GeoJSON: {1000 * seconds:.0f} ms per {REGIONS:,} regions (limit {1000 * MOST_GEOJSON_SECONDS:.0f})")
    good &= seconds <= MOST_GEOJSON_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "regions.parquet"
        seconds = best(lambda: found.to_geoparquet(path), turns=1)
        size = path.stat().st_size * REGIONS / regions
    print(f"GeoParquet: {size:,.0f} bytes per {REGIONS:,} regions (limit {MOST_GEOPARQUET_BYTES:,}), {seconds:.2f} s")
    good &= size <= MOST_GEOPARQUET_BYTES
    for trust in ("curator", "nobody"):
        result = found if trust == "curator" else counted(trust, rng, 30)
        result.answer(polygons(3, rng))
        for corners in (8, 200):
            areas = polygons(corners, rng)
            seconds = best(lambda result=result, areas=areas: result.answer(areas), turns=3)  # type: ignore[misc]
            print(
                f"{POLYGONS:,} polygons of {corners} corners over {len(result.partition):,} regions ({trust}): "
                f"{seconds:.2f} s (limit {MOST_POLYGON_SECONDS:g})"
            )
            good &= seconds <= MOST_POLYGON_SECONDS
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
