"""The attacker of the pooled tree: knows everybody's position but one, and tells two positions of that one apart.

Everything that is attacked is real: the loop (``pooled.play``), its rule, a counter, and the sampler of noise. To play
thousands of times at once the domain holds thousands of equal towns, and each is a play of its own. What is published
above the towns is the same in both worlds, so it is made public: no noise is added there, and what it costs is taken
off the claim. Where two servers add noise the attacker is one of them and chooses its own: none.

The score of a play is the log of how much likelier what was published of its town is at one position than at the other:
the best statistic there is (Neyman and Pearson).

Knows the public rule, all positions but one, and its own noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from ...arrays import Floats, Integers, exact
from ...errors import InvalidInput
from ...geometry.box import Box
from ...hierarchy.dyadic import Cells
from ...hierarchy.ranks import Ranks, SortedCodes
from ...pooled import noise
from ...pooled.counter import RankedCounter
from ...pooled.play import Counter, Tree, next_level, play, root_level
from ...pooled.task import UNITS, PooledTask, Trust
from ...pooled.values import SCALE, add_up, cell_grids, round_values, sum_noise, sum_rate
from .bounds import LossBound, bound_by_plays

TOP = 12  # levels above the towns
_TOWNS = 1 << TOP
_BELOW = 2  # levels of a town


@dataclass(frozen=True, eq=False)
class PooledPair:
    """Two neighbouring inputs: the same task and others, one person of a town at one of two positions."""

    task: PooledTask  # over the unit interval, with towns and two levels below them
    others: Floats  # float64[n - 1], in a town, which begins at 0 and ends at 1
    here: float  # the person's
    there: float
    counter: Callable[[PooledTask, Ranks, noise.Words], Counter] = RankedCounter

    @cached_property
    def claimed(self) -> float:
        """The loss that is claimed in a town: epsilon, less what is spent above on every path."""
        level, spent = root_level(self.task, _TOWNS * (len(self.others) + 1)), 0
        for _ in range(TOP):
            spent += int(level.price[0])
            level = next_level(self.task, level, np.zeros(len(level.cells), dtype=np.int64))
        return self.task.epsilon * (1 - spent / UNITS)

    def codes(self, at: str) -> Cells:
        """Sorted deepest cells of everybody, in all towns."""
        if at not in ("here", "there"):
            raise InvalidInput(f"at must be 'here' or 'there'; got {at!r}")
        town = np.append(self.others, self.here if at == "here" else self.there)
        places = (np.arange(_TOWNS)[:, None] + town).reshape(-1, 1) / _TOWNS
        return np.sort(self.task.hierarchy.codes(places))


def attack_pooled(pair: PooledPair, *, runs: int, rng: np.random.Generator) -> LossBound:
    """Lower bound on the loss between the two positions, here over there."""
    here, there = (lambda size, at=at: pooled_scores(pair, at=at, runs=size, rng=rng) for at in ("here", "there"))
    return bound_by_plays(here, there, runs=runs)


def pooled_scores(pair: PooledPair, *, at: str, runs: int, rng: np.random.Generator) -> Floats:
    """Log-likelihood ratios, here over there, of many plays with the person at one of the two: float64[runs]."""
    known = _Known(pair)
    ranks = SortedCodes(pair.codes(at))
    words: noise.Words = noise.from_entropy(rng.bytes)  # read as a curator reads those of the system
    if pair.task.noises > 1:
        words = _OneHonest(noise.from_generator(rng))
    scores = [
        known.scores(play(pair.task, _PublicAbove(pair.counter(pair.task, ranks, words))).tree)
        for _ in range(-(-runs // _TOWNS))
    ]
    return np.concatenate(scores)[:runs]


class _PublicAbove:
    """A counter that adds no noise above the towns, where both halves of every cell have the same number of people."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    @property
    def people(self) -> int:
        return self._counter.people

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        found = self._counter.differences(depth, cells, units)
        return np.zeros_like(found) if depth < TOP else found

    def counts(self, cells: Cells, units: Integers) -> Integers:
        return self._counter.counts(cells, units)


class _OneHonest:
    """Words of two servers that draw in turn: the first is the attacker and draws only zeros."""

    def __init__(self, words: noise.Words) -> None:
        self._words = words
        self._own = False

    def __call__(self, rows: Integers, start: int, count: int) -> Cells:
        """As :class:`semilocal.pooled.noise.Words`."""
        if start == 0 and rows[0] == 0:  # the next server begins to draw
            self._own = not self._own
        if self._own:  # above every threshold: no digit is 1
            return np.full((len(rows), count), 2**64 - 1, dtype=np.uint64)
        return self._words(rows, start, count)


class _Known:
    """What the attacker knows: the exact numbers of both worlds."""

    def __init__(self, pair: PooledPair) -> None:
        self._task = pair.task
        self._codes = [pair.codes(world) for world in ("here", "there")]
        self._towns = np.unique(pair.task.hierarchy.ancestors(self._codes[0], TOP))

    def scores(self, tree: Tree) -> Floats:
        """What was published of every town, here over there: float64[towns]."""
        depths = [level.depth for level in tree.levels if level.opened.all()]
        if depths[:TOP] != list(range(TOP)):
            raise InvalidInput("the towns of this task are not all reached: the audit needs larger ones")
        out = self._scores(
            tree.cells, tree.units, tree.counts, *(self._count(codes, tree.cells) for codes in self._codes)
        )
        for level, found in zip(tree.levels[TOP:], tree.differences[TOP:], strict=False):
            cells = level.cells[level.opened]
            halves = self._task.hierarchy.children(cells)
            counts = [self._count(codes, halves) for codes in self._codes]
            exact = [count[0::2] - count[1::2] for count in counts]
            out += self._scores(cells, level.price[level.opened], found, *exact)
        return out

    def _count(self, codes: Cells, cells: Cells) -> Integers:
        first, last = self._task.hierarchy.span(cells)
        return np.searchsorted(codes, last, side="right") - np.searchsorted(codes, first)

    def _scores(self, cells: Cells, units: Integers, seen: Integers, here: Integers, there: Integers) -> Floats:
        gained = float(self._task.unit) * units * (np.abs(seen - there) - np.abs(seen - here))
        tree = self._task.hierarchy
        places = np.searchsorted(self._towns, tree.ancestors(tree.span(cells)[0], TOP))
        return np.asarray(np.bincount(places, gained, minlength=_TOWNS), dtype=np.float64)


# -- cases of the catalogue ----------------------------------------------------------------------------------------


def worst_pair(trust: Trust, *, epsilon: float = 2.0, **wrong: Any) -> PooledPair:
    """Small towns, and a person on either side of a town's first cut: the pair with the largest loss."""
    task = PooledTask.build(Box((0.0,), (1.0,)), epsilon=epsilon, trust=trust, max_depth=TOP + _BELOW)
    size = round(3.3 * task.threshold)  # as small as a town can be that is always asked about
    return PooledPair(task, np.linspace(0.02, 0.98, size) ** 1.5, 0.1, 0.9, **wrong)


class LoudCounter(RankedCounter):
    """A counter with a fault: its noise has half the size."""

    def __init__(self, task: PooledTask, ranks: Ranks, words: noise.Words) -> None:
        super().__init__(msgspec.structs.replace(task, epsilon=2 * task.epsilon), ranks, words)


class ForgetfulCounter(RankedCounter):
    """A counter with a fault: what was spent above is not taken off the budget of a final cell."""

    def counts(self, cells: Cells, units: Integers) -> Integers:
        """Counts that are bought with all of a path's budget."""
        return super().counts(cells, np.full_like(units, UNITS))


# -- noisy sums: everybody's value is known but one person's -------------------------------------------------------
#
# Sums and noise come from the functions that real means use (pooled/values.py). Where two servers add noise the
# attacker is one of them and takes its own noise off.

OTHERS = 1000  # values beside the person's


@dataclass(frozen=True, eq=False)
class SumsPair:
    """Two neighbouring inputs: one person with either of two values, each from 0 to 1 within the range of its cell."""

    task: PooledTask  # its epsilon is the claimed loss of the sums
    number: int  # of cells; 1 for the mean over all
    here: tuple[int, float]  # a cell and a value
    there: tuple[int, float]
    louder: int = 1  # what the rate is, times the right one; 2 is noise of half the size: wrong on purpose
    centred: bool = True  # if not, sums are not taken from the middle of the range: wrong on purpose

    def sums(self, at: tuple[int, float], words: noise.Words) -> Integers:
        """Exact sums of everybody: int64[number]."""
        cells = np.append(np.arange(OTHERS) % self.number, at[0])
        unit = np.append(np.tile([0.0, 1.0], OTHERS // 2), at[1])  # values that need no rounding
        middle = 0 if self.centred else np.bincount(cells, minlength=self.number) * SCALE
        steps = round_values(unit, 0.0, 1.0, SCALE, words(np.arange(len(unit)), 0, 1)[:, 0])
        return add_up(steps, cells, cell_grids(np.tile([0.0, 1.0], (self.number, 1)))) + middle


def attack_sums(pair: SumsPair, *, runs: int, rng: np.random.Generator) -> LossBound:
    """Lower bound on the loss between the two values, here over there."""
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
