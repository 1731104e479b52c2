"""From counts of attacks to statements with confidence.

An attack names an event of the public transcript before it looks. If the event happens ``hits`` times in ``runs`` plays
of one world and ``misses`` times in as many plays of the neighbouring world, the true loss is at least
log(lowest credible share of hits / largest credible share of misses), both by Clopper and Pearson (1934).

Knows numbers. Knows no protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...arrays import Floats
from ...errors import InvalidInput

CONFIDENCE = 1 - 1e-6


class LossBound(NamedTuple):
    """A lower bound on the true loss at delta 0, from an event that happened so often in two worlds."""

    epsilon: float  # the true loss is at least this, with the confidence below
    hits: int  # plays with the event in the world it should be likely in
    misses: int  # and in the neighbouring one
    runs: int  # plays per world
    confidence: float


def share_bounds(hits: int, runs: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Lower and upper bound on a probability, each with half the error (Clopper-Pearson).

    Examples
    --------
    >>> low, high = share_bounds(0, 1000, confidence=0.95)
    >>> low, round(high, 5)
    (0.0, 0.00368)
    """
    from scipy.stats import beta

    if not 0 <= hits <= runs or runs < 1:
        raise InvalidInput(f"hits must be from 0 to runs = {runs}; got {hits}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must be between 0 and 1; got {confidence}")
    error = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(error, hits, runs - hits + 1))
    high = 1.0 if hits == runs else float(beta.isf(error, hits + 1, runs - hits))
    return low, high


def loss_lower_bound(hits: int, misses: int, *, runs: int, confidence: float = CONFIDENCE) -> LossBound:
    """Lower bound on epsilon (delta 0) from an event that was fixed before; its hits and misses in ``runs`` plays a
    world.
    """
    low = share_bounds(hits, runs, confidence=confidence)[0]
    high = share_bounds(misses, runs, confidence=confidence)[1]
    epsilon = math.log(low / high) if low > high else 0.0
    return LossBound(epsilon, hits, misses, runs, confidence)


def bound_by_plays(one: Callable[[int], Floats], other: Callable[[int], Floats], *, runs: int) -> LossBound:
    """Lower bound on epsilon, one world over the other, by an event that is chosen on plays of its own.

    ``one`` and ``other`` give the scores float64[n] of n new plays in the two worlds, -inf where nothing is claimed. A
    fifth as many plays as ``runs`` choose the event.
    """
    pilot = max(runs // 5, 1000)
    threshold = sharpest_event(one(pilot), other(pilot))
    hits, misses = (int((scores(runs) >= threshold).sum()) for scores in (one, other))
    return loss_lower_bound(hits, misses, runs=runs)


def sharpest_event(one: Floats, other: Floats) -> float:
    """The threshold of scores, float64[n], that gives the best bound, from plays used for nothing else."""
    candidates = np.unique(one[np.isfinite(one)])
    if not len(candidates):
        return math.inf
    if len(candidates) > 64:
        candidates = np.unique(np.quantile(candidates, np.linspace(0, 1, 64)))
    scores = []
    for threshold in candidates.tolist():
        # A few thresholds share a score up to rounding of sums: take them together.
        hits, misses = int((one >= threshold - 1e-9).sum()), int((other >= threshold - 1e-9).sum())
        scores.append(loss_lower_bound(hits, misses, runs=len(one), confidence=0.999).epsilon)
    return float(candidates[int(np.argmax(scores))]) - 1e-9
