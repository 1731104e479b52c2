"""Range counts over any disjoint boxes with a count and a variance each: what the maps of baselines answer with.

People are taken to be spread evenly inside a box. Everything is half-open: a box holds the points with
``lower <= point < upper`` on every axis. Whether the upper side of the whole domain belongs to the last box is the
business of the caller, who may widen a query by one ulp or use ``inf``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, as_boxes, as_column, as_floats, as_number, short_repr
from ...errors import InvalidInput
from ...geometry.box import MAX_DIMENSIONS
from ...protocol.promise import Guarantee
from ...release.answers import standard_errors

__all__ = ["Answers", "BoxCounts", "SpatialCounts", "mean_relative_error"]

QUERIES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to q range queries.

    Attributes
    ----------
    value : float64[q]
        Expected number of people in each queried box.
    stderr : float64[q]
        Standard error of each value: noise of the counts, and how people happen to lie inside boxes that are
        only partly covered.
    uncertain : bool
        Whether the counts carry an error that the standard error leaves out.
    """

    value: Floats
    stderr: Floats
    uncertain: bool = False

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.value)

    def interval(self, level: float = 0.95) -> Floats:
        """Two-sided normal interval for each answer, float64[q, 2]; it may reach below zero.

        Parameters
        ----------
        level : float
            Between 0 and 1; 0.95 means that 95 % of such intervals cover, as far as the standard error is
            right.
        """
        half = standard_errors(level) * self.stderr
        return np.stack((self.value - half, self.value + half), axis=1)


@dataclass(frozen=True, eq=False, init=False)
class BoxCounts:
    """Counts of people in disjoint boxes, ready for range queries.

    A query's value is the sum over boxes of ``count × share``, where ``share`` is the part of the box's
    volume that the query covers: people are taken to be spread evenly inside a box.

    Its variance is the sum of ``share² × variance`` (noise of the counts, taken to be independent from box to
    box) and of ``max(count, 0) × share × (1 − share)``. The second term is what the position of people inside
    a cut box adds: if ``count`` people lie evenly and independently in a box, the number of them in a part of
    it is binomial. It vanishes where a query follows the edges of boxes. It is an allowance, not a bound:
    people who crowd together inside a box can be off by more.

    Parameters
    ----------
    boxes : array_like, shape (m, 2, d)
        ``boxes[:, 0]`` lower and ``boxes[:, 1]`` upper corners, ``lower < upper``, finite, d from 1 to 8.
        Half-open and disjoint; they need not fill the domain.
    counts : array_like, shape (m,)
        Any finite numbers; noisy counts may be negative.
    variances : array_like, shape (m,), optional
        Variance of each count; zero (exact counts) if left out.
    uncertain : bool
        Set it if the counts carry an error that the variances do not cover, such as a bias. It is passed on.

    Examples
    --------
    >>> halves = BoxCounts([[[0.0, 0.0], [0.5, 1.0]], [[0.5, 0.0], [1.0, 1.0]]], [100, 20])
    >>> answers = halves.query([[[0.0, 0.0], [0.5, 1.0]], [[0.25, 0.0], [1.0, 1.0]]])
    >>> answers.value.tolist(), answers.stderr.tolist()
    ([100.0, 70.0], [0.0, 5.0])
    """

    boxes: Floats
    counts: Floats
    variances: Floats
    uncertain: bool

    __repr__ = short_repr

    def __init__(
        self,
        boxes: npt.ArrayLike,
        counts: npt.ArrayLike,
        *,
        variances: npt.ArrayLike | None = None,
        uncertain: bool = False,
    ) -> None:
        corners = as_boxes(boxes, infinite=True)
        if corners.shape[2] > MAX_DIMENSIONS:
            raise InvalidInput(f"boxes must have 1 to {MAX_DIMENSIONS} dimensions; got shape {corners.shape}")
        if not np.isfinite(corners).all():
            raise InvalidInput("boxes must have finite corners; nobody can be spread evenly up to infinity")
        proper = (corners[:, 0] < corners[:, 1]).all(axis=1)
        if not proper.all():
            first = int(np.argmin(proper))
            raise InvalidInput(f"boxes must have lower < upper on every axis; box {first} is {corners[first].tolist()}")
        number = as_column(counts, "counts", len(corners))
        noise = np.zeros(len(corners)) if variances is None else as_column(variances, "variances", len(corners))
        if (noise < 0).any():
            raise InvalidInput(f"variances must not be negative; the smallest is {noise.min()}")
        for name, array in (("boxes", corners), ("counts", number), ("variances", noise)):
            own = array.copy()
            own.flags.writeable = False
            object.__setattr__(self, name, own)
        object.__setattr__(self, "uncertain", bool(uncertain))

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def dimensions(self) -> int:
        """Number of axes."""
        return int(self.boxes.shape[2])

    @property
    def total(self) -> float:
        """Sum of all counts."""
        return float(np.sum(self.counts))

    def query(self, boxes: npt.ArrayLike) -> Answers:
        """Expected number of people in each box, with its standard error.

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            ``lower <= upper``; infinite sides are allowed. Empty boxes and boxes outside hold nobody.
        """
        queries = as_boxes(boxes, dimensions=self.dimensions, infinite=True)
        value, variance = np.zeros(len(queries)), np.zeros(len(queries))
        if len(self) and len(queries):
            nearby = np.argsort(queries[:, 0, 0])  # neighbours on the first axis meet the same boxes
            for start in range(0, len(queries), QUERIES_AT_ONCE):
                chunk = nearby[start : start + QUERIES_AT_ONCE]
                value[chunk], variance[chunk] = self._answer(queries[chunk])
        # Sums of positive numbers taken apart by subtraction may end a rounding error below zero.
        return Answers(value, np.sqrt(np.maximum(variance, 0.0)), self.uncertain)

    def _answer(self, queries: Floats) -> tuple[Floats, Floats]:
        """Values and variances, from the share of every box that a query on the same stretch covers."""
        near = (self.boxes[:, 1, 0] > queries[:, 0, 0].min()) & (self.boxes[:, 0, 0] < queries[:, 1, 0].max())
        low, high = self.boxes[near].transpose(1, 0, 2)
        share = np.ones((len(queries), len(low)))
        for axis in range(self.dimensions):
            overlap = np.minimum(queries[:, 1, axis, None], high[:, axis])
            overlap -= np.maximum(queries[:, 0, axis, None], low[:, axis])
            share *= np.maximum(overlap, 0.0) / (high - low)[:, axis]
        within = (share * (1.0 - share)) @ np.maximum(self.counts[near], 0.0)
        return share @ self.counts[near], within + share**2 @ self.variances[near]


class SpatialCounts(BoxCounts):
    """Counts in disjoint boxes with the guarantee they were released under.

    Where counts were made consistent across a tree their errors are negatively correlated; treating them as independent
    makes the standard errors of large queries too large, not too small.

    Parameters
    ----------
    boxes, counts, variances, uncertain
        As for :class:`BoxCounts`.
    guarantee : Guarantee
    """

    guarantee: Guarantee

    def __init__(
        self,
        boxes: npt.ArrayLike,
        counts: npt.ArrayLike,
        guarantee: Guarantee,
        *,
        variances: npt.ArrayLike,
        uncertain: bool = False,
    ) -> None:
        super().__init__(boxes, counts, variances=variances, uncertain=uncertain)
        object.__setattr__(self, "guarantee", guarantee)


def mean_relative_error(estimate: npt.ArrayLike, truth: npt.ArrayLike, floor: float) -> float:
    """Mean over queries of ``|estimate − truth| / max(truth, floor)``.

    Parameters
    ----------
    estimate, truth : array_like, shape (q,)
    floor : float
        Positive: keeps queries that hold almost nobody from deciding the mean.

    Examples
    --------
    >>> mean_relative_error([90, 3], [100, 0], floor=10)
    0.2
    """
    given, true = as_floats(estimate, "estimate"), as_floats(truth, "truth")
    if given.ndim != 1 or given.shape != true.shape or not len(given):
        raise InvalidInput(
            f"estimate and truth must be equally long lists of numbers; got {given.shape} and {true.shape}"
        )
    least = as_number(floor, "floor", positive=True)
    return float(np.mean(np.abs(given - true) / np.maximum(true, least)))
