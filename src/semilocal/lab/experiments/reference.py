"""Our runs of the paper's rules and baselines against what the authors' published code gave.

Knows the reference tables and which of our numbers belongs to which of theirs. Draws no picture: it prints a table.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from .figures import MEAN, QUERIES_SYNTHETIC
from .report import Claim
from .runner import stream
from .summary import FigureOptions, Output, select, write_rows

__all__ = ["Comparison", "compare", "make", "reference_rows"]

DRAWS = 20_000  # for the interval of an average of squared Laplace draws
# What is compared -> rows that have to agree: one in twenty falls outside by chance where the bounds are an interval.
NEEDED = {"published, expected MSE": 22, "central DP, MSE": 21, "local DP, MSE": 21, "published, MRE": 12}


@dataclass(frozen=True)
class Comparison:
    """One of our numbers beside the authors'; `low` and `high` bound the ratio for it to count as the same."""

    what: str
    n: int
    epsilon: float
    ours: float
    theirs: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs

    @property
    def agrees(self) -> bool:
        """Whether the ratio lies within the bounds."""
        return self.low <= self.ratio <= self.high


def reference_rows(name: str) -> list[dict[str, float]]:
    """A reference table, ``"mean_mse"`` or ``"range_mre"``, as numbers."""
    source = importlib.resources.files(__package__) / "authors" / f"{name}.csv"
    with source.open(encoding="utf-8") as stream_:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream_)]


def compare(means: Sequence[Mapping[str, Any]], ranges: Sequence[Mapping[str, Any]]) -> tuple[Comparison, ...]:
    """Put the summaries of the mean experiment and of the clustered range queries beside the reference.

    The published rule's expected error must be within 15 %, its relative errors within 35 %. The authors' PrivTree is
    left out: it cuts counts at zero, which PrivTree does not. The expected errors of central and local DP are known
    exactly; the bounds are the 95 % interval of the authors' average of 60 squared errors around them, so about one row
    in twenty falls outside by chance.
    """
    found = []
    for row in reference_rows("mean_mse"):
        runs = int(row["runs"])
        normal = float(runs / chi2.ppf(0.975, runs)), float(runs / chi2.ppf(0.025, runs))
        for what, method, column, bounds in (
            ("published, expected MSE", "published", "authors_sldp_expected_mse", (0.85, 1.15)),
            ("central DP, MSE", "central", "central_dp_mse", _laplace_interval(runs)),
            ("local DP, MSE", "ldp", "ldp_mse", normal),
        ):
            found.append(_beside(what, means, method, "expected_mse_mean", row, column, bounds))
    for row in reference_rows("range_mre"):
        bounds = (0.65, 1.35)
        found.append(_beside("published, MRE", ranges, "published", "mre_mean", row, "authors_sldp_mre", bounds))
    return tuple(found)


def _beside(
    what: str,
    ours: Sequence[Mapping[str, Any]],
    method: str,
    measured: str,
    row: Mapping[str, float],
    column: str,
    bounds: tuple[float, float],
) -> Comparison:
    n, epsilon = int(row["n"]), row["epsilon"]
    [mine] = select(ours, method=method, n=n, epsilon=epsilon)
    return Comparison(what, n, epsilon, float(mine[measured]), row[column], *bounds)


def make(options: FigureOptions) -> Output:
    """Compare, print the table, and write it to ``reference.csv``."""
    means, ranges = MEAN.gather(options), QUERIES_SYNTHETIC.gather(options)
    found = compare(means.summary, ranges.summary)
    runs = MEAN.repeats(options)
    rows = [{"runs": runs, **asdict(one), "ratio": one.ratio, "agrees": one.agrees} for one in found]
    write_rows(options, "reference", rows)
    text = ["what                       N       ε    ours       authors    ratio  agrees"]
    text += [
        f"{one.what:<24} {one.n:>6,} {one.epsilon:>5g}  {one.ours:<9.3g}  {one.theirs:<9.3g}  {one.ratio:5.2f}  "
        + ("yes" if one.agrees else "no")
        for one in found
    ]
    claims = []
    for what, needed in NEEDED.items():
        mine = [one for one in found if one.what == what]
        good = sum(one.agrees for one in mine)
        said = f"{good} of {len(mine)} rows agree (ratio in {mine[0].low:.2f} … {mine[0].high:.2f})"
        name = what.replace(", ", " rule, ") if "published" in what else what
        text.append(f"{what}: {said}")
        claims.append(Claim(f"Our {name} is that of the authors' code", good >= needed, f"{said}; {runs} runs of ours"))
    return Output(claims=tuple(claims), text="\n".join(text))


@functools.lru_cache(maxsize=8)
def _laplace_interval(runs: int) -> tuple[float, float]:
    """The 95 % interval of the expected square of a Laplace draw over the average of `runs` such squares."""
    averages = np.mean(stream("reference", "laplace", runs).laplace(size=(DRAWS, runs)) ** 2, axis=1)
    low, high = np.quantile(2 / averages, (0.025, 0.975))
    return float(low), float(high)
