"""How unevenly people lie inside a cell.

One number describes it: ``together``, the chance that two people of a cell are in the same child. It is 1 / fanout for
people who lie evenly and 1 for people who all sit in one place. How many of n people are in a part with the share b has
the mean n b and the variance

    n b (1 - b) + n (n - 1) v(b),

chance and clumps. What v is for parts other than children depends on how people clump:

- A *cascade*: children divide like their cells, and so on. Then v(b) = b ** (1 - log together) - b ** 2, the logarithm
  to the base of the fan-out; b is the smaller of share and rest, which are equally uncertain.
- *Places*: two people are in the same place with probability ``clumped``, however small a part one looks at, and
  anywhere in the cell otherwise. Then v(b) = clumped b (1 - b). It agrees for children and is larger for smaller parts.
  Larger parts hold some children and not the others, so they have it in a cascade, too.

By true positions people inside public boxes are nearer to a cascade (bench/RESULTS.md), which :meth:`Spread.variance`
has. On the sphere, in tables and in final cells of pooled trees clumps are taken for places.

It is learned from the divisions of a run, by depth and size (_law.py). :func:`fit` learns one number for all cells, to
compare what is expected of them: :func:`share_left` says how much of the unevenness neighbours leave.

Knows counts and their noise. Knows no hierarchy, partition or mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput

__all__ = ["Spread", "cascade", "fit", "share_left"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """How a cell's people divide.

    Attributes
    ----------
    together : float or float64[m]
        Chance that two people of a cell are in the same child, from 1 / fanout to 1; that of each cell, if they differ.
    fanout : int
        Children per cell.

    Examples
    --------
    >>> Spread(0.5, 2).variance(100, 0.25).tolist()  # even: binomial
    18.75
    >>> Spread(1.0, 2).variance(100, 0.25).tolist()  # everybody in one place: all or nobody
    1875.0
    >>> Spread(0.75, 2).variance(100, 0.25).round().tolist(), Spread(0.75, 2).in_places(100, 0.25).round().tolist()
    (792.0, 947.0)
    """

    together: float | Floats
    fanout: int = 2

    def __post_init__(self) -> None:
        if self.fanout < 2:
            raise InvalidInput(f"fanout must be at least 2; got {self.fanout}")
        if np.min(self.together, initial=1.0) < 1.0 / self.fanout or np.max(self.together, initial=0.0) > 1.0:
            raise InvalidInput(f"together must be from 1/{self.fanout} to 1; got {self.together}")

    @staticmethod
    def of(clumped: Floats, fanout: int = 2) -> Spread:
        """The spread of cells whose people are in the same place with these chances: float64[m], from 0 to 1."""
        return Spread(np.clip((1.0 + (fanout - 1) * clumped) / fanout, 1.0 / fanout, 1.0), fanout)

    @property
    def clumped(self) -> Floats:
        """Chance that two people of a cell are in the same place."""
        return np.asarray(np.maximum((self.together * self.fanout - 1.0) / (self.fanout - 1.0), 0.0))

    @property
    def power(self) -> Floats:
        """The power of a part's share in a cascade: from 1 (everybody in one place) to 2 (evenly)."""
        return np.asarray(1.0 - np.log(self.together) / np.log(self.fanout))

    @property
    def share_variance(self) -> Floats:
        """Variance of a child's share of a cell with very many people."""
        return np.asarray((self.together - 1.0 / self.fanout) / self.fanout)

    def take(self, rows: npt.NDArray[Any]) -> Spread:
        """That of some cells, if they differ."""
        return Spread(np.asarray(self.together)[rows], self.fanout)

    def variance(self, people: npt.ArrayLike, share: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """Variance of the number of people in a part of a cell, given how many are in the cell, by a cascade.

        Parameters
        ----------
        people : array_like
            People in the cell; negative numbers count as 0.
        share : array_like
            The part's expected share of the cell's people, 0 to 1.
        noise : array_like
            Variance of ``people``, if it is an estimate. What it adds directly, ``share ** 2 * noise``, is left to the
            caller, who knows what else the estimate goes into.

        Returns
        -------
        float64, the shape that the arguments have together
        """
        number, inside = np.maximum(np.asarray(people, dtype=np.float64), 0.0), np.asarray(share, dtype=np.float64)
        return np.asarray(number * inside * (1.0 - inside) + self.excess(people, inside, noise))

    def excess(self, people: npt.ArrayLike, share: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """By how much :meth:`variance` exceeds that of people who lie evenly. Arguments are as there."""
        inside = np.asarray(share, dtype=np.float64)
        return np.asarray(self.pairs(people, noise) * cascade(inside, self.clumped, self.power))

    def in_places(self, people: npt.ArrayLike, share: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """The variance if all of the clumps are places. Arguments are those of :meth:`variance`."""
        inside = np.asarray(share, dtype=np.float64)
        return np.asarray(self.unevenness(people, noise) * inside * (1.0 - inside))

    def unevenness(self, people: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """What times share and 1 - share is :meth:`in_places`. Arguments are as there."""
        number = np.maximum(np.asarray(people, dtype=np.float64), 0.0)
        return np.asarray(self.clumped * self.pairs(people, noise) + number)

    @staticmethod
    def pairs(people: npt.ArrayLike, noise: npt.ArrayLike = 0.0) -> Floats:
        """Expected number of pairs of people, each in both orders. Arguments are those of :meth:`variance`."""
        number = np.maximum(np.asarray(people, dtype=np.float64), 0.0)
        return np.asarray(np.maximum(number**2 + np.asarray(noise, dtype=np.float64) - number, 0.0))

    def divide(
        self,
        people: npt.ArrayLike,
        estimates: npt.ArrayLike,
        noise: npt.ArrayLike,
        expected: npt.ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Best guess of how cells divide among their children, from noisy estimates.

        The linear estimate with the smallest mean square error: estimates are pulled towards the expected division,
        the more the noisier they are against what the spread allows.

        Parameters
        ----------
        people : array_like, shape (m,)
        estimates : array_like, shape (m, fanout)
        noise : array_like, shape (m,)
            Variance of each estimate; infinite where there is none.
        expected : array_like, shape (m, fanout), optional
            Expected shares of the children; even if left out.

        Returns
        -------
        people : float64[m, fanout]
            Not negative; adds up to ``people``.
        variance : float64[m]
            Of each of them.
        """
        total = np.asarray(people, dtype=np.float64)
        prior = total**2 * self.share_variance + total * (1.0 - self.together) / self.fanout
        trust = np.divide(prior, prior + np.asarray(noise), out=np.zeros_like(prior), where=prior > 0)
        middle = total[:, None] * (1.0 / self.fanout if expected is None else np.asarray(expected, dtype=np.float64))
        pulled = np.maximum(middle + (np.asarray(estimates, dtype=np.float64) - middle) * trust[:, None], 0.0)
        sums = pulled.sum(axis=1, keepdims=True)
        scale = np.divide(total[:, None], sums, out=np.zeros_like(sums), where=sums > 0)
        return pulled * scale, prior * (1.0 - trust)


def cascade(share: Floats, clumped: Floats, power: Floats) -> Floats:
    """Variance of a part's share of very many people, by a cascade.

    Parameters
    ----------
    share, clumped, power : float64
        Arrays whose shapes fit: the part's expected share, :attr:`Spread.clumped` and :attr:`Spread.power`.
    """
    part = np.minimum(share, 1.0 - share)
    return np.asarray(np.clip(part**power - part * part, 0.0, clumped * part * (1.0 - part)))


def fit(
    parents: npt.ArrayLike, children: npt.ArrayLike, noise: npt.ArrayLike, expected: npt.ArrayLike | None = None
) -> Spread:
    """Learn the spread from cells that divided.

    Each cell gives an unbiased estimate of ``together``. A cell counts by its people and by how well its noise lets
    its division be known, if all divisions were equally likely. One more cell of average size without noise, of which
    that is exactly true, is added, so that few or noisy cells leave us with ignorance and not with an accident.

    Parameters
    ----------
    parents : array_like, shape (m,)
        People in each cell. Cells with fewer than two tell nothing and are left out.
    children : array_like, shape (m, fanout)
        Estimated people in each child.
    noise : array_like, shape (m,) or (m, fanout)
        Variance of each estimate; 0 for exact counts.
    expected : array_like, shape (m, fanout), optional
        Expected shares of the children; even if left out. The spread is then about how far divisions are from them.

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
    share = np.broadcast_to(1.0 / fanout if expected is None else np.asarray(expected, dtype=np.float64), below.shape)
    several = total >= 2
    total, below, errors, share = total[several], below[several], errors[several], share[several]
    middle = total[:, None] * share
    beyond = (below - middle) ** 2 - errors - middle * (1.0 - share)  # noise and chance taken out
    pairs = total * (total - 1.0)
    found = 1.0 / fanout + beyond.sum(axis=1) / pairs
    widest = (1.0 / fanout) * (1.0 - 1.0 / fanout) / (fanout + 1.0)  # variance of a share if all are equally likely
    known = widest + errors.mean(axis=1) / total**2
    weights = np.append(total / known**2, (total.mean() if len(total) else 1.0) / widest**2)
    average = float(np.average(np.append(found, 2.0 / (fanout + 1.0)), weights=weights))
    return Spread(min(max(average, 1.0 / fanout), 1.0), fanout)


def share_left(people: Floats, children: Floats, noise: Floats, flat: Floats, suggested: Floats) -> float:
    """Share of the unevenness of cells that is left if their divisions are expected to be other than flat ones.

    Parameters
    ----------
    people, noise : float64[m]
        As in :func:`fit`.
    children, flat, suggested : float64[m, fanout]
        Estimated people; shares if nothing is known about a cell, and those that something suggests.

    Returns
    -------
    float
        1 at the most, and if there are no cells.
    """
    before, after = (fit(people, children, noise, expected).clumped for expected in (flat, suggested))
    return min(float(after / before), 1.0) if before > 0 else 1.0
