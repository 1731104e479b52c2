"""Rows of results: flat tables, summaries with intervals, CSV files.

Knows rows of scalars and files. Knows no method.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InvalidInput
from ...io.files import write_text
from .trial import Row, Scalar

if TYPE_CHECKING:
    from .runner import Result

__all__ = ["summarise", "table", "write_csv"]


def table(results: Sequence[Result], *, version: str) -> list[dict[str, Scalar]]:
    """Return flat rows: version, figure, method, parameters, seed, run, and then what the trial gave.

    How long a trial took is left out: it would differ each time.
    """
    return [
        {
            "version": version,
            "figure": result.trial.figure,
            "method": result.trial.method,
            **dict(result.trial.parameters),
            "seed": result.trial.seed,
            "run": result.trial.run,
            **row,
        }
        for result in results
        for row in result.rows
    ]


def summarise(
    rows: Sequence[Row], *, by: Sequence[str], of: Sequence[str], level: float = 0.95
) -> list[dict[str, Scalar]]:
    """Return mean, standard deviation and confidence interval of the mean for each group of rows.

    Parameters
    ----------
    rows : sequence of mappings
        As from `table`.
    by : sequence of str
        Columns that make a group; groups come in the order of their first row.
    of : sequence of str
        Columns of numbers to sum up; ``x`` gives ``x_mean``, ``x_std``, ``x_low``, ``x_high``.
    level : float
        Of the two-sided interval of Student's t. With one run the interval is NaN: one number says nothing
        about it.

    Examples
    --------
    >>> rows = [{"method": "ldp", "mse": value} for value in (1.0, 2.0, 3.0)]
    >>> [found] = summarise(rows, by=["method"], of=["mse"])
    >>> found["runs"], found["mse_mean"], round(found["mse_low"], 3), round(found["mse_high"], 3)
    (3, 2.0, -0.484, 4.484)
    """
    if not 0 < level < 1:
        raise InvalidInput(f"level must be between 0 and 1; got {level}")
    groups: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        lacking = [name for name in (*by, *of) if name not in row]
        if lacking:
            raise InvalidInput(f"a row has no column {lacking[0]!r}; it has {', '.join(row)}")
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found: list[dict[str, Scalar]] = []
    for group, members in groups.items():
        line: dict[str, Scalar] = dict(zip(by, group, strict=True))
        line["runs"] = len(members)
        for name in of:
            values = [float(row[name]) for row in members]  # type: ignore[arg-type]
            mean, deviation, half = _spread(values, level)
            line |= {f"{name}_mean": mean, f"{name}_std": deviation, f"{name}_low": mean - half}
            line[f"{name}_high"] = mean + half
        found.append(line)
    return found


def write_csv(path: str | Path, rows: Sequence[Row]) -> Path:
    """Write rows as CSV: every number with all its digits, the same bytes for the same rows, complete or not
    at all.

    Rows may have different columns; a column that a row lacks is left empty.
    """
    path = Path(path)
    if not rows:
        raise InvalidInput(f"{path}: there are no rows to write")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text.getvalue())
    return path


def _spread(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Return mean, standard deviation (n − 1) and half the width of the interval."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, math.nan, math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    from scipy.stats import t

    return mean, deviation, float(t.ppf(0.5 + level / 2, n - 1)) * deviation / math.sqrt(n)
