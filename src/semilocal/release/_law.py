"""How the people of a cell divide among its children: a law that a run's own divisions teach."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from .spread import Spread

__all__ = ["UNKNOWN", "Law", "learn"]

_HALF = 40
_SURE = 0.25
_FAR = 5.0
_WHOLE = 1 / 12
_MOST_CELLS = 1 << 11
_LEVELS = np.arange(-8.0, 10.5, 0.5)  # log2 a
_CENTERS = np.arange(-8.0, 9.25, 0.5)
_MIXED = np.array([0.25, 0.75, 1.5, 2.25, 3.0])
_STEPS = np.array([0.25, 0.5, 1.0])
_UNLIKELY = 1e-3


@lru_cache(maxsize=1)
def _edges() -> Floats:
    half = 0.5 * (np.arange(_HALF + 1) / _HALF) ** 3
    return np.concatenate([half, 1.0 - half[-2::-1]])


@lru_cache(maxsize=8)
def _masses(fanout: int) -> Floats:
    """float64[levels, bins]"""
    from scipy.special import betainc

    a = np.exp2(_LEVELS)[:, None]
    return np.diff(betainc(a, (fanout - 1) * a, _edges()), axis=1)


@lru_cache(maxsize=1)
def _mixtures() -> Floats:
    """float64[mixed, centers, levels]"""
    w = np.exp(-0.5 * ((_LEVELS - _CENTERS[:, None]) / _MIXED[:, None, None]) ** 2)
    return w / w.sum(axis=2, keepdims=True)


def _kernel(people: Floats, estimate: Floats, noise: Floats) -> Floats:
    """float64[m, bins]"""
    from scipy.special import ndtr

    noise = noise + _WHOLE
    error = np.sqrt(noise)
    e = np.clip(estimate, -_FAR * error, people + _FAR * error)
    edge = _edges()
    n = people[:, None]
    z = (n * edge - e[:, None]) / np.sqrt(noise[:, None] + n * edge * (1.0 - edge))
    k = np.diff(ndtr(z), axis=1)
    k /= np.diff(edge)
    k /= np.maximum(k.max(axis=1, keepdims=True), 1e-300)
    return k


class Law(NamedTuple):
    chance: Floats  # [depths, mixed, centers]

    def _row(self, depth: Integers) -> Integers:
        return np.minimum(depth, len(self.chance) - 1)

    def clumped(self, depth: Integers, fanout: int) -> Floats:
        each = np.einsum("dmc,mcl->dl", self.chance, _mixtures()) @ (1.0 / (fanout * np.exp2(_LEVELS) + 1.0))
        return each[self._row(depth)]

    def spread(self, depth: Integers, fanout: int) -> Spread:
        even = 1.0 / fanout
        return Spread(np.clip(even + (1.0 - even) * self.clumped(depth, fanout), even, 1.0), fanout)

    def few_people(self, estimate: Floats, noise: Floats, most: Floats, depth: Integers, fanout: int = 2):
        size = np.maximum(most, 1.0)
        kernel, masses = _kernel(size, estimate, noise), _masses(fanout)
        edge = _edges()
        p = (edge[1:] + edge[:-1]) / 2
        x = size[:, None] * p
        chance = x * (1 - p)
        gain = chance / (chance + noise[:, None] + _WHOLE)
        mean = np.maximum(x + gain * (estimate[:, None] - x), 0)
        second = mean**2 + chance * (1 - gain)
        t = np.stack([kernel @ masses.T, (kernel * mean) @ masses.T, (kernel * second) @ masses.T])
        out, rows = np.zeros((4, len(size))), self._row(depth)
        for row in np.unique(rows):
            at = np.flatnonzero(rows == row)
            likely = self.chance[row] > _UNLIKELY
            weight = self.chance[row][likely] / self.chance[row][likely].sum()
            s0, s1, s2 = t[:, at] @ _mixtures()[likely].T
            m, v = s1 / s0, s2 / s0
            middle = m @ weight
            law = np.tensordot(self.chance[row], _mixtures(), 2) @ masses
            total = np.cumsum(kernel[at] * law, axis=1)
            total /= total[:, -1:]
            past = (total < _SURE).sum(axis=1)
            before = np.where(past > 0, total[np.arange(len(at)), past - 1], 0.0)
            inside = (_SURE - before) / (total[np.arange(len(at)), past] - before)
            median = size[at] * (edge[past] + inside * np.diff(edge)[past])
            out[:, at] = middle, (v - m**2) @ weight, np.sqrt((m - middle[:, None]) ** 2 @ weight), middle - median
        return out


_start = np.zeros((1, len(_MIXED), len(_CENTERS)))
_start[0, 2, np.searchsorted(_CENTERS, -1.0)] = 1.0
UNKNOWN = Law(_start)


def learn(depth: Integers, people: Floats, estimates: Floats, noise: Floats) -> Law:
    several = people >= 2
    depth, people, estimates, noise = depth[several], people[several], estimates[several], noise[several]
    if not len(people):
        return UNKNOWN
    order = np.argsort(depth, kind="stable")
    step = -(-len(order) // _MOST_CELLS)
    rows = order[::step]
    depth, people, estimates, noise = depth[rows], people[rows], estimates[rows], noise[rows]
    logs = np.zeros((int(depth[-1]) + 1, len(_MIXED), len(_CENTERS)))
    width = np.count_nonzero(~np.isnan(estimates), axis=1)
    for fanout in np.unique(width[width > 1]).tolist():
        for child in range(fanout - 1):
            here = (width == fanout) & ~np.isnan(estimates[:, child])
            t = _kernel(people[here], estimates[here, child], noise[here]) @ _masses(fanout).T
            for o in np.unique(depth[here]):
                own = t[depth[here] == o]
                logs[o] += step * np.log(np.maximum(own @ _mixtures().reshape(-1, own.shape[1]).T, 1e-300)).sum(axis=0).reshape(logs.shape[1:])
    return Law(_chain(logs))


def _chain(logs: Floats) -> Floats:
    """Posterior [depths, mixed, centers] if centers make a normal step from one depth to the next."""
    highest = logs.max(axis=2, keepdims=True)
    likelihood, depths = np.exp(logs - highest), len(logs)
    found = np.zeros((len(_STEPS), *logs.shape))
    evidence = np.tile(highest.sum(axis=(0, 2)), (len(_STEPS), 1))
    for row, step in enumerate(_STEPS):
        move = np.exp(-0.5 * ((_CENTERS - _CENTERS[:, None]) / step) ** 2)
        move /= move.sum(axis=1, keepdims=True)
        before, after = np.full(logs.shape, 1.0 / len(_CENTERS)), np.ones(logs.shape)
        for depth in range(depths):
            here = before[depth] * likelihood[depth]
            total = here.sum(axis=1, keepdims=True)
            evidence[row] += np.log(total[:, 0])
            if depth + 1 < depths:
                before[depth + 1] = (here / total) @ move
        for depth in range(depths - 2, -1, -1):
            here = (after[depth + 1] * likelihood[depth + 1]) @ move.T
            after[depth] = here / here.max(axis=1, keepdims=True)
        both = before * likelihood * after
        found[row] = both / both.sum(axis=2, keepdims=True)
    weight = np.exp(evidence - evidence.max())
    return np.einsum("sm,sdmc->dmc", weight / weight.sum(), found)
