"""The attacker of noisy sums: knows everybody's value but one person's, and tells two values of that one apart.

Sums and noise come from the functions that real means use (pooled/values.py). Where two servers add noise the
attacker is one of them and takes its own noise off. The score is the log-likelihood ratio, as in :mod:`.pooled`.

Knows all values but one, and its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ...arrays import Floats, Integers, exact
from ...geometry.box import Box
from ...pooled import noise
from ...pooled.task import PooledTask, Trust
from ...pooled.values import SCALE, add_up, cell_grids, round_values, sum_noise, sum_rate
from .bounds import LossBound, bound_by_plays

__all__ = ["SumsPair", "attack_sums", "worst_sums"]

OTHERS = 1000


@dataclass(frozen=True, eq=False)
class SumsPair:
    """Two neighbouring inputs: one person with either of two values, each from 0 to 1 within the range of its cell.

    Attributes
    ----------
    task : PooledTask
        Its epsilon is the claimed loss of the sums.
    number : int
        Cells; 1 for the mean over all.
    here, there : (int, float)
        Cell and value.
    louder : int
        What the real rate is, times the right one. 2 is noise of half the size: wrong on purpose.
    centred : bool
        If not, sums are not taken from the middle of the range: wrong on purpose.
    """

    task: PooledTask
    number: int
    here: tuple[int, float]
    there: tuple[int, float]
    louder: int = 1
    centred: bool = True

    def sums(self, at: tuple[int, float], words: noise.Words) -> Integers:
        """Exact sums of everybody: int64[number]."""
        cells = np.append(np.arange(OTHERS) % self.number, at[0])
        unit = np.append(np.tile([0.0, 1.0], OTHERS // 2), at[1])  # values that need no rounding
        middle = 0 if self.centred else np.bincount(cells, minlength=self.number) * SCALE
        steps = round_values(unit, 0.0, 1.0, SCALE, words(np.arange(len(unit)), 0, 1)[:, 0])
        return add_up(steps, cells, cell_grids(np.tile([0.0, 1.0], (self.number, 1)))) + middle


def attack_sums(pair: SumsPair, *, runs: int, rng: np.random.Generator) -> LossBound:
    """Lower bound on the loss between the two values, here over there.

    Parameters
    ----------
    runs : int
        As for :func:`semilocal.lab.audit.bounds.bound_by_plays`.
    """
    words = noise.from_generator(rng)
    here, there = pair.sums(pair.here, words), pair.sums(pair.there, words)
    epsilon, reports = exact(pair.task.epsilon) * pair.louder, pair.task.max_reports
    rate = sum_rate(epsilon, SCALE, reports)

    def scores(exact_ones: Integers, size: int) -> Floats:
        widths = np.full(size * pair.number, SCALE)
        # One draw also with two servers: either knows its own noise.
        seen = (np.tile(exact_ones, size) + sum_noise(widths, epsilon, reports, words)).reshape(size, -1)
        return np.asarray(float(rate) * (np.abs(seen - there) - np.abs(seen - here)).sum(axis=1))

    return bound_by_plays(partial(scores, here), partial(scores, there), runs=runs)


def worst_sums(
    trust: Trust, *, cells: int = 1, epsilon: float = 1.0, louder: int = 1, centred: bool = True
) -> SumsPair:
    """The pair with the largest loss: from the top of one cell's range to the bottom of the last one's."""
    task = PooledTask.build(Box((0.0,), (1.0,)), epsilon=epsilon, trust=trust, max_depth=2)
    there = 0.0 if centred or cells == 1 else 1.0
    return SumsPair(task, cells, (0, 1.0), (cells - 1, there), louder, centred)
