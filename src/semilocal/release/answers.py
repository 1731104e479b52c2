"""Answers with their errors: the one place where a confidence level becomes an interval.

Knows numbers. Knows no tree and no mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, is_number, require
from ..protocol.promise import Mark
from ..tabular import Tabular, known

_HARDLY = 1e-100  # standard errors: so few are nobody
_FAR = 38.0  # standard errors beyond which floats have no density left


@dataclass(frozen=True, eq=False, repr=False)
class CountAnswers(Tabular):
    """Answers to q range queries.

    Attributes
    ----------
    value : float64[q]
        Expected number of people; not negative.
    stderr : float64[q]
        Noise of the reports, chance, and people who lie unevenly; 0 where the answer is exact.
    plain : float64[q]
        The number that errors are about; an interval holds the value, too. Pooled trees: without keeping estimates from
        being negative, which moves people from crowded cells to empty ones; chance does not average that out. Public
        regions: people are expected towards crowded neighbours.
    most : float64[q]
        Upper limits that hold for certain: all in regions that the box meets, or all participants.
    noise : float64[q]
        Which part of ``stderr ** 2`` is noise of estimates that know nothing about people: they may be far too small,
        even negative. Pooled trees: that of the published numbers; the rest is how people lie. Public regions: 0, their
        expected numbers are means of what is possible.
    areas : float64[q, 2, d], polygons or None
        What was asked about, in the order of the domain's axes.
    names : tuple of str
        What the areas are called; empty for those that are no places.
    result : Mapped or None
        What was asked: who was counted, and the mark of a simulation.
    """

    value: Floats
    stderr: Floats
    plain: Floats
    most: Floats
    noise: Floats
    areas: Any = None
    names: tuple[str, ...] = ()
    result: Any = None

    def __len__(self) -> int:
        return len(self.value)

    def to_table(self, level: float = 0.95) -> dict[str, npt.NDArray[Any]]:
        """One row per area: what it is called or its corners, the estimate, both ends of the interval, its level."""
        low, high = self.interval(level).T
        return {
            "area": np.array(self._called()), "estimate": known(self.value, self.stderr),
            "low": known(low, self.stderr), "high": known(high, self.stderr), "level": np.full(len(self), level),
        }  # fmt: skip

    def _called(self) -> list[str]:
        """The name of every area, else its corners, else a number."""
        if not isinstance(self.areas, np.ndarray):
            return [f"area {number}" for number in range(1, len(self) + 1)]
        boxes = self.areas.tolist()
        corners = [" to ".join(", ".join(f"{x:.6g}" for x in corner) for corner in box) for box in boxes]
        return [name or other for name, other in zip(self.names or corners, corners, strict=True)]

    def caution(self, level: float = 0.95) -> str:
        """What to say where intervals tell next to nothing, from nobody to twice the answer or more; else nothing."""
        low, high = self.interval(level).T
        wide = np.count_nonzero((low == 0) & (high >= 2 * self.value) & (self.value >= 1))
        if not wide:
            return ""
        which = "The interval" if len(self) == 1 else f"{wide} of {len(self)} intervals"
        says = "says" if wide == 1 else "say"
        return f"{which} {says} next to nothing: from nobody to twice the answer or more. {what_helps(self.result)}"

    def _below(self) -> str:
        return "" if self.result is None else "\n".join(filter(None, [f"of {self.result.counted}", self.caution()]))

    @property
    def _mark(self) -> Mark | None:
        return None if self.result is None else self.result.partition.mark

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each number, in whole people: float64[q, 2]. It always holds the value.

        It holds the truth with this level for anybody who asks about a box, and for somebody who knows a person in it.
        It does not for somebody who looks at the map first and picks its most crowded cell.

        How people lie in clumps is a gamma law, skewed to the right, with the expected mean and the variance without
        noise. Noise is normal. The lower end is that of whoever takes any box; the upper one that of whoever knows a
        person in it. There the sampling is size-biased: boxes are met in proportion to their people X, so
        E[X^2] / E[X] are expected; that of a gamma law is the gamma law of one more person's shape. E[X] is the mean of
        a normal law cut off at zero, never less than 0.8 standard errors of the noise.

        How often intervals hold the truth, by kind of box and population, is measured in bench/COVERAGE.md.
        """
        check_level(level)
        away, error = standard_errors(level), np.where(self.stderr > 0, self.stderr, 1.0)
        middle = np.maximum((self.plain + self.value) / 2, self.value)  # estimates may be negative
        expected = np.maximum(mean_above_zero(middle, np.sqrt(self.noise)), _HARDLY * error)
        seen, scale = (part / expected for part in (self.stderr**2, np.maximum(self.stderr**2 - self.noise, 0.0)))
        fewer = expected - _skewed(expected, scale, -away)
        more = np.maximum(_skewed(expected + scale, scale, away) - expected - scale, 0.0)  # a median is below the mean
        low = self.plain - np.hypot(away * np.sqrt(self.noise), fewer)
        high = self.plain + seen + np.hypot(away * np.sqrt(self.noise), more)
        ends = np.stack([low, np.where(self.stderr > 0, high, self.plain)], axis=1)
        ends = np.rint(np.clip(ends, 0.0, self.most[:, None]))
        exact = (self.stderr == 0) & (self.plain == self.value)
        # Sums of fractions are off by a rounding error: exact answers have one number of people, and the value.
        value = np.minimum(self.value, self.most)
        around = np.stack([np.floor(value), np.ceil(value)], axis=1)
        ends[exact], around[exact] = np.rint(self.value[exact, None]), self.value[exact, None]
        return np.stack([np.minimum(ends[:, 0], around[:, 0]), np.maximum(ends[:, 1], around[:, 1])], axis=1)


def what_helps(result: Any, area: str = "a larger area") -> str:
    """What would make the intervals of a result tell more."""
    nobody = result is not None and result.guarantee.trust == "nobody"
    return f"More people, a larger epsilon{', two servers' if nobody else ''} or {area} would help."


def check_level(level: float, *, certain: bool = False) -> None:
    """Refuse what is not a level of confidence; 1 is one where regions hold positions with certainty."""
    number = is_number(level) or isinstance(level, np.floating | np.integer)
    good = number and (0.0 < level < 1.0 or (certain and level == 1.0))
    allowed = "a number above 0 and at most 1" if certain else "a number strictly between 0 and 1"
    require(good, "level", f"{allowed}, such as 0.95", level)


def standard_errors(level: float) -> float:
    """Half the width of a two-sided normal interval, in standard errors.

    Examples
    --------
    >>> round(standard_errors(0.95), 2)
    1.96
    """
    check_level(level)
    return NormalDist().inv_cdf(0.5 + level / 2)


def _skewed(mean: Floats, scale: Floats, away: float) -> Floats:
    """Quantiles of gamma laws by the cubes of normal ones (Wilson and Hilferty): float64[m]."""
    part = scale / (9.0 * mean)
    return np.asarray(mean * np.maximum(1.0 - part + away * np.sqrt(part), 0.0) ** 3)


def mean_above_zero(middle: Floats, error: Floats) -> Floats:
    """Mean of normal laws cut off at zero: float64[m], from mean and standard deviation of the whole laws, float64[m].

    They are not negative; a law without error is left as it is.

    Examples
    --------
    >>> mean_above_zero(np.array([0.0, 3.0, 3.0]), np.array([1.0, 1.0, 0.0])).round(3).tolist()
    [0.798, 3.004, 3.0]
    """
    if not error.any():
        return middle
    from scipy.special import ndtr  # loaded at first use: it takes a while

    away = np.divide(middle, error, out=np.full(len(middle), np.inf), where=middle < _FAR * error)
    return np.asarray(middle + error * np.exp(-0.5 * away**2) / (np.sqrt(2.0 * np.pi) * ndtr(away)))
