"""How unevenly people lie inside a cell, learned from how the run's own cells divide.

The model is a cascade: a cell's people divide among its children by random shares, each child's people again by the
same law, and so on down. One number describes it: ``together``, the chance that two people of a cell are in the same
child. It is 1 / fanout for people who lie evenly and 1 for people who all sit in one place.

Two people of a cell are both in a part made of whole levels, the share b of the cell's volume, with probability
b ** exponent, where exponent = 1 - log(together) / log(fanout): 2 if people lie evenly, 1 if they sit in one place. So
the number of people in the part, of n in the cell, has the mean n b and the variance

    n (n - 1) b ** exponent + n b - (n b) ** 2.

The same is used for other parts, with b the smaller of the part's share and the rest's.

Knows counts and their noise. Knows no hierarchy, partition or mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput

__all__ = ["Spread", "fit"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """How a cell's people divide.

    Attributes
    ----------
    together : float
        Chance that two people of a cell are in the same child, from 1 / fanout to 1.
    fanout : int
        Children per cell.

    Examples
    --------
    >>> Spread(0.5, 2).variance(100, 0.25).tolist()  # even: binomial
    18.75
    >>> Spread(1.0, 2).variance(100, 0.25).tolist()  # everybody in one place: all or nobody
    1875.0
    """

    together: float
    fanout: int = 2

    def __post_init__(self) -> None:
        if self.fanout < 2:
            raise InvalidInput(f"fanout must be at least 2; got {self.fanout}")
        if not 1.0 / self.fanout <= self.together <= 1.0:
            raise InvalidInput(f"together must be from 1/{self.fanout} to 1; got {self.together}")

    @property
    def exponent(self) -> float:
        """Two people of a cell are both in a share b of it with probability b ** exponent."""
        return 1.0 - math.log(self.together) / math.log(self.fanout)

    @property
    def share_variance(self) -> float:
        """Variance of a child's share of a cell with very many people."""
        return (self.together - 1.0 / self.fanout) / self.fanout

    def variance(self, people: npt.ArrayLike, share: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """Variance of the number of people in a part of a cell, given how many are in the cell.

        Parameters
        ----------
        people : array_like
            People in the cell; negative numbers count as 0.
        share : array_like
            The part's share of the cell's volume, 0 to 1.
        noise : array_like
            Variance of ``people``, if it is an estimate. What it adds directly, ``share ** 2 * noise``, is left to the
            caller, who knows what else the estimate goes into.

        Returns
        -------
        float64, the shape that the arguments have together
        """
        number = np.maximum(np.asarray(people, dtype=np.float64), 0.0)
        inside = np.asarray(share, dtype=np.float64)
        part = np.minimum(inside, 1.0 - inside)
        squared = number**2 + np.asarray(noise, dtype=np.float64)
        pairs = np.maximum(squared - number, 0.0)
        return np.asarray(np.maximum(pairs * part**self.exponent + number * part - squared * part**2, 0.0))

    def divide(self, people: npt.ArrayLike, estimates: npt.ArrayLike, noise: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Best guess of how cells divide among their children, from noisy estimates.

        The linear estimate with the smallest mean square error: estimates are pulled towards an even division, the
        more the noisier they are against what the spread allows.

        Parameters
        ----------
        people : array_like, shape (m,)
        estimates : array_like, shape (m, fanout)
        noise : array_like, shape (m,)
            Variance of each estimate.

        Returns
        -------
        expected : float64[m, fanout]
            Not negative; adds up to ``people``.
        variance : float64[m]
            Of each of them.
        """
        total = np.asarray(people, dtype=np.float64)
        prior = total**2 * self.share_variance + total * (1.0 - self.together) / self.fanout
        trust = np.divide(prior, prior + np.asarray(noise), out=np.zeros_like(prior), where=prior > 0)
        even = total[:, None] / self.fanout
        pulled = np.maximum(even + (np.asarray(estimates, dtype=np.float64) - even) * trust[:, None], 0.0)
        sums = pulled.sum(axis=1, keepdims=True)
        scale = np.divide(total[:, None], sums, out=np.zeros_like(sums), where=sums > 0)
        return pulled * scale, prior * (1.0 - trust)


def fit(parents: npt.ArrayLike, children: npt.ArrayLike, noise: npt.ArrayLike) -> Spread:
    """Learn the spread from cells that divided.

    Each cell gives an unbiased estimate of ``together``. A cell counts by how well its noise lets its division be
    known, if all divisions were equally likely. One more cell without noise, of which that is exactly true, is added,
    so that few or noisy cells leave us with ignorance and not with an accident.

    Parameters
    ----------
    parents : array_like, shape (m,)
        People in each cell. Cells with fewer than two tell nothing and are left out.
    children : array_like, shape (m, fanout)
        Estimated people in each child.
    noise : array_like, shape (m,) or (m, fanout)
        Variance of each estimate; 0 for exact counts.

    Examples
    --------
    >>> cells = 1000
    >>> fit(np.full(cells, 100.0), np.full((cells, 2), 50.0), np.zeros(cells)).together
    0.5
    >>> fit([], np.empty((0, 2)), []).together == 2 / 3
    True
    """
    below = np.asarray(children, dtype=np.float64)
    total = np.asarray(parents, dtype=np.float64)
    if below.ndim != 2 or below.shape[1] < 2 or total.shape != below.shape[:1]:
        raise InvalidInput(f"children must have shape (parents, fanout); got {below.shape} for {total.shape}")
    fanout = below.shape[1]
    errors = np.asarray(noise, dtype=np.float64)
    errors = np.broadcast_to(errors[:, None] if errors.ndim == 1 else errors, below.shape)
    several = total >= 2
    total, below, errors = total[several], below[several], errors[several]
    found = (below**2 - errors - below).sum(axis=1) / (total * (total - 1.0))
    widest = (1.0 / fanout) * (1.0 - 1.0 / fanout) / (fanout + 1.0)  # variance of a share if all are equally likely
    known = widest + errors.mean(axis=1) / total**2
    weights = np.append(1.0 / known**2, 1.0 / widest**2)
    average = float(np.average(np.append(found, 2.0 / (fanout + 1.0)), weights=weights))
    return Spread(min(max(average, 1.0 / fanout), 1.0), fanout)
