"""Our runs of the paper's rules and baselines against what the authors' published code gave.

Knows the reference tables and which of our numbers belongs to which of theirs. Draws no picture: it prints a table.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from .figures import mean, queries_synthetic
from .harness.report import Claim
from .harness.summary import FigureOptions, Output, select, write_csv
from .harness.trial import stream

__all__ = ["Comparison", "compare", "make", "reference_rows"]

COMMAND = "semilocal reproduce reference"
DRAWS = 20_000  # for the interval of an average of squared Laplace draws


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
    """Return a reference table, ``"mean_mse"`` or ``"range_mre"``, as numbers."""
    source = importlib.resources.files("semilocal.lab.experiments") / "authors" / f"{name}.csv"
    with source.open(encoding="utf-8") as stream_:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream_)]


def compare(means: Sequence[Mapping[str, Any]], ranges: Sequence[Mapping[str, Any]]) -> tuple[Comparison, ...]:
    """Put our summaries beside the reference.

    Parameters
    ----------
    means, ranges : sequences of mappings
        Summaries of the mean experiment and of the clustered range queries.

    Notes
    -----
    The published rule's expected error must be within 15 %, its and PrivTree's relative errors within 35 %. The
    expected errors of central and local DP are known exactly; the bounds are the 95 % interval of the authors' average
    of 60 squared errors around them, so about one row in twenty falls outside by chance.
    """
    found = []
    for row in reference_rows("mean_mse"):
        n, epsilon = int(row["n"]), row["epsilon"]
        ours = {line["method"]: line for line in select(means, n=n, epsilon=epsilon)}
        runs = int(row["runs"])
        published, central, local = (float(ours[name]["expected_mse_mean"]) for name in ("published", "central", "ldp"))
        normal = runs / chi2.ppf(0.975, runs), runs / chi2.ppf(0.025, runs)
        found += [
            Comparison("published, expected MSE", n, epsilon, published, row["authors_sldp_expected_mse"], 0.85, 1.15),
            Comparison("central DP, MSE", n, epsilon, central, row["central_dp_mse"], *_laplace_interval(runs)),
            Comparison("local DP, MSE", n, epsilon, local, row["ldp_mse"], float(normal[0]), float(normal[1])),
        ]
    for row in reference_rows("range_mre"):
        n, epsilon = int(row["n"]), row["epsilon"]
        ours = {line["method"]: line for line in select(ranges, n=n, epsilon=epsilon)}
        for method, column in (("published", "authors_sldp_mre"), ("privtree-cut", "privtree_mre")):
            found.append(
                Comparison(f"{method}, MRE", n, epsilon, float(ours[method]["mre_mean"]), row[column], 0.65, 1.35)
            )
    return tuple(found)


def make(options: FigureOptions) -> Output:
    """Compare, print the table, and write it to ``reference.csv``."""
    means, ranges = mean.results(options), queries_synthetic.results(options)
    found = compare(means.summary, ranges.summary)
    write_csv(
        options.out / "reference.csv",
        [
            {
                "version": means.version,
                "what": one.what,
                "n": one.n,
                "epsilon": one.epsilon,
                "runs": options.repeats(quick=5),
                "seed": options.seed,
                "ours": one.ours,
                "authors": one.theirs,
                "ratio": one.ratio,
                "low": one.low,
                "high": one.high,
                "agrees": one.agrees,
            }
            for one in found
        ],
    )
    lines = ["what                       N       ε    ours       authors    ratio  agrees"]
    lines += [
        f"{one.what:<24} {one.n:>6,} {one.epsilon:>5g}  {one.ours:<9.3g}  {one.theirs:<9.3g}  {one.ratio:5.2f}  "
        + ("yes" if one.agrees else "no")
        for one in found
    ]
    claims = []
    for what, needed in (
        ("published, expected MSE", 22),
        ("central DP, MSE", 21),
        ("local DP, MSE", 21),
        ("published, MRE", 12),
        ("privtree-cut, MRE", 12),
    ):
        rows = [one for one in found if one.what == what]
        good = sum(one.agrees for one in rows)
        bounds = f"ratio in {rows[0].low:.2f} … {rows[0].high:.2f}"
        lines.append(f"{what}: {good} of {len(rows)} rows agree ({bounds})")
        claims.append(
            Claim(
                f"Our {what.replace(', ', ' rule, ') if 'published' in what else what} is that of the authors' code",
                good >= needed,
                f"{good} of {len(rows)} rows agree ({bounds}); {options.repeats(quick=5)} runs of ours",
                COMMAND,
            )
        )
    return Output(claims=tuple(claims), text="\n".join(lines))


@functools.lru_cache(maxsize=8)
def _laplace_interval(runs: int) -> tuple[float, float]:
    """Return the 95 % interval of the expected square of a Laplace draw over the average of `runs` such squares."""
    averages = np.mean(stream("reference", "laplace", runs).laplace(size=(DRAWS, runs)) ** 2, axis=1)
    low, high = np.quantile(2 / averages, (0.025, 0.975))
    return float(low), float(high)
