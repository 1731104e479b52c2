"""What the local protocol must reach, and what it reaches: range counts, means, and learning from positions.

Knows the limits and measures against them. ε is for any two positions of a
region, k = 20; a limit holds for the average over runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semilocal.lab.experiments.report import Claim, Output
from semilocal.lab.experiments.summary import FigureOptions, Study, select
from semilocal.lab.experiments.trials import NEIGHBOURS, PARTICIPANTS, classifier_trial, counts_trial, mean_trial

__all__ = ["F1", "MEANS", "RANGES", "Verdict", "make", "verdicts"]

MOST_RUNS = 8  # of range counts: their averages are steady
PEOPLE = 64_000  # of a mean

# (participants, delta) -> source -> ε -> largest mean relative error
RANGES: Mapping[tuple[int, float], Mapping[str, Mapping[float, float]]] = {
    (20_000, 0.05): {
        "gowalla": {1.0: 0.42, 2.0: 0.19, 4.0: 0.15},
        "porto": {1.0: 0.23, 2.0: 0.14, 4.0: 0.12},
        "brightkite": {1.0: 0.40, 2.0: 0.20, 4.0: 0.13},
        "uniform": {1.0: 0.14, 2.0: 0.12},
        "ring": {1.0: 0.24, 2.0: 0.17},
    },
    (100_000, 0.05): {
        "gowalla": {1.0: 0.12, 2.0: 0.06},
        "porto": {1.0: 0.11, 2.0: 0.05},
        "brightkite": {1.0: 0.12, 2.0: 0.07},
    },
    (20_000, 1e-6): {
        "gowalla": {1.0: 0.62, 2.0: 0.28, 4.0: 0.18},
        "porto": {1.0: 0.28, 2.0: 0.17, 4.0: 0.13},
        "brightkite": {1.0: 0.52, 2.0: 0.25, 4.0: 0.17},
    },
}
# ε -> largest mean squared error of the mean of the squared norm, delta = 0.05
MEANS: Mapping[float, float] = {1.0: 1.5e-2, 2.0: 1.5e-3, 4.0: 8e-4}
# ε -> smallest F1 of k-NN on California Housing, delta = 0.05
F1: Mapping[float, float] = {0.5: 0.74, 1.0: 0.78, 2.0: 0.80, 4.0: 0.81}


@dataclass(frozen=True)
class Verdict:
    """A limit, what was measured, and whether that is good enough; for F1 more is better, for errors less."""

    question: str
    panel: str
    epsilon: float
    limit: float
    measured: float
    reached: bool


def verdicts(
    ranges: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]], learned: Sequence[Mapping[str, Any]]
) -> Iterator[Verdict]:
    """All limits beside the three summaries; a source that was not measured is left out."""
    for (n, delta), sources in RANGES.items():
        for source, limits in sources.items():
            for epsilon, limit in limits.items():
                for row in select(ranges, source=source, n=n, delta=delta, epsilon=epsilon):
                    error = float(row["mre_mean"])
                    yield Verdict(f"MRE, N = {n:,}, delta = {delta:g}", source, epsilon, limit, error, error <= limit)
    for epsilon, limit in MEANS.items():
        for row in select(means, epsilon=epsilon):
            error = float(row["squared_error_mean"])
            yield Verdict("MSE of a mean", f"N = {PEOPLE:,}", epsilon, limit, error, error <= limit)
    for epsilon, limit in F1.items():
        for row in select(learned, epsilon=epsilon):
            score = float(row["f1_mean"])
            yield Verdict("F1 of k-NN", "california_housing", epsilon, limit, score, score >= limit)


def make(options: FigureOptions) -> Output:
    """Measure, and say what is reached."""
    ranges: list[Mapping[str, Any]] = []
    missing: dict[str, str] = {}
    for (n, delta), sources in RANGES.items():
        axes = {"n": (n,), "epsilon": tuple(dict.fromkeys(e for of in sources.values() for e in of)), "delta": (delta,)}
        study = Study(
            f"targets_ranges_{n}_{delta:g}",
            counts_trial,
            ("ours",),
            axes,
            ("mre",),
            tuple(sources),
            quick=1,
            most=MOST_RUNS,
        )
        found = study.gather(options)
        ranges += found.summary
        missing |= found.missing
    means = Study(
        "targets_means", mean_trial, ("ours",), {"n": (PEOPLE,), "epsilon": tuple(MEANS)}, ("squared_error", "error")
    ).gather(options)
    learning = {"epsilon": tuple(F1), "rows": (20_640,), "classifiers": (NEIGHBOURS,)}
    learned = Study(
        "targets_learned", classifier_trial, ("ours",), learning, ("f1",), quick=1, most=MOST_RUNS, by=("classifier",)
    ).gather(options)
    found_all = list(verdicts(ranges, means.summary, learned.summary))
    text, claims = [], []
    for question in dict.fromkeys(one.question for one in found_all):
        asked = [one for one in found_all if one.question == question]
        good = sum(one.reached for one in asked)
        text.append(f"{question}: {good} of {len(asked)}")
        text += [
            f"   {'yes' if one.reached else 'NO '}  {one.panel:<20} ε = {one.epsilon:<4g} limit {one.limit:<8.3g} "
            f"measured {one.measured:.3g}"
            for one in asked
        ]
        measured = f"{good} of {len(asked)} limits"
        claims.append(Claim(f"semilocal, nobody trusted: {question}", good == len(asked), measured))
    text += [f"real positions: {PARTICIPANTS['row']}", *(f"left out: {why}" for why in missing.values())]
    return Output(claims=tuple(claims), text="\n".join(text))
