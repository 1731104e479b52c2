"""How unevenly people lie inside a cell.

One number describes it: ``together``, the chance that two people of a cell are in the same child. It is 1 / fanout for
people who lie evenly and 1 for people who all sit in one place. Clumps are taken for places: two people are in the same
place with probability ``clumped``, however small a part one looks at, and anywhere in the cell otherwise. How many of n
people are in a part with the share b then has the mean n b and the variance

    n b (1 - b) + n (n - 1) clumped b (1 - b),

chance and clumps (a Beta-binomial law).

It is learned from the divisions of a run, by depth and size (_law.py). :func:`fit` learns one number for all cells, to
compare what is expected of them: :func:`share_left` says how much of the unevenness neighbours leave.

Knows counts and their noise. Knows no hierarchy, partition or mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput

__all__ = ["Spread", "fit", "share_left"]

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
    >>> Spread(0.5, 2).clumped.tolist(), Spread(0.75, 2).clumped.tolist(), Spread(1.0, 2).clumped.tolist()
    (0.0, 0.5, 1.0)
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
