"""How long reading positions takes: a million rows of a gzipped CSV file, with a column of people.

python bench/bench_read.py
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from pathlib import Path

from semilocal.io.points import read_points

ROWS = 1_000_000
LIMIT = 8.0  # seconds


def main() -> int:
    """Print the time; 1 if it is above the limit."""
    block = "".join(f"{i},{41 + i * 1e-6:.6f},{-8 - i * 1e-6:.6f}\n" for i in range(ROWS // 10))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv.gz"
        path.write_bytes(gzip.compress(("user,lat,lon\n" + block * 10).encode(), 1))
        start = time.perf_counter()
        table = read_points(path, labels=["user"])
        seconds = time.perf_counter() - start
    assert len(table) == ROWS
    print(f"{ROWS:,} rows with people in {seconds:.2f} s; limit {LIMIT:g} s")
    return 0 if seconds <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
