"""What the authors' published code gave: tables to compare our baselines with."""

from __future__ import annotations

import csv
from pathlib import Path

__all__ = ["reference_rows"]


def reference_rows(name: str) -> list[dict[str, float]]:
    """A table, "mean_mse" or "range_mre", as numbers."""
    with (Path(__file__).parent / f"{name}.csv").open(encoding="utf-8") as stream:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream)]
