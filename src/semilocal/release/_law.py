"""How the people of a cell divide among its children: a law that a run's own divisions teach."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from .spread import Spread

__all__ = ["UNKNOWN", "Law", "learn"]

_HALF = 64
_FAR = 5.0
_USUAL = 100.0
_WHOLE = 1 / 12
_MOST_CELLS = 1 << 11
_LEVELS = np.arange(-5.0, 10.5, 0.5)  # log2 a
_CENTERS = np.arange(-4.0, 9.25, 0.5)
_GROWTH = np.arange(-1.5, 0.75, 0.5)
_MIXED = np.array([0.25, 0.75, 1.5, 2.25, 3.0])


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
def _laws() -> Floats:
    """float64[3, h]"""
    return np.stack([g.ravel() for g in np.meshgrid(_CENTERS, _GROWTH, _MIXED, indexing="ij")])


def _weights(laws: Floats, people: Floats) -> Floats:
    """float64[h, m, levels]"""
    center, growth, mixed = laws[:, :, None, None]
    size = np.log2(np.maximum(people, 1.0) / _USUAL)[None, :, None]
    middle = np.clip(center + growth * size, _LEVELS[0], _LEVELS[-1])
    w = np.exp(-0.5 * ((_LEVELS - middle) / mixed) ** 2)
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
    below, above = ndtr(z), ndtr(-z)
    k = np.where(z[:, 1:] > 0, above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1])
    k /= np.diff(edge)
    k /= np.maximum(k.max(axis=1, keepdims=True), 1e-300)
    return k


class Law(NamedTuple):
    laws: Floats
    chance: Floats
    least: float

    def clumped(self, people: Floats, fanout: int) -> Floats:
        w = np.einsum("h,hma->ma", self.chance, _weights(self.laws, np.maximum(people, self.least)))
        return w @ (1.0 / (fanout * np.exp2(_LEVELS) + 1.0))

    def spread(self, people: Floats, fanout: int) -> Spread:
        even = 1.0 / fanout
        return Spread(np.clip(even + (1.0 - even) * self.clumped(people, fanout), even, 1.0), fanout)

    def few_people(self, estimate: Floats, noise: Floats, most: Floats, fanout: int = 2):
        size = np.maximum(most, 1.0)
        kernel, masses = _kernel(size, estimate, noise), _masses(fanout)
        edge = _edges()
        p = (edge[1:] + edge[:-1]) / 2
        x = size[:, None] * p
        chance = x * (1 - p)
        gain = chance / (chance + noise[:, None] + _WHOLE)
        mean = np.maximum(x + gain * (estimate[:, None] - x), 0)
        second = mean**2 + chance * (1 - gain)
        t0, t1, t2 = kernel @ masses.T, (kernel * mean) @ masses.T, (kernel * second) @ masses.T
        w = _weights(self.laws, size)
        s0, s1, s2 = ((w * t).sum(axis=2) for t in (t0, t1, t2))
        m, v = s1 / s0, s2 / s0
        middle = self.chance @ m
        within = self.chance @ (v - m**2)
        between = self.chance @ (m - middle) ** 2
        return middle, np.maximum(within, 0), np.sqrt(between)


UNKNOWN = Law(np.array([[-1.0], [0.0], [1.5]]), np.ones(1), 20.0)


def learn(people: Floats, estimates: Floats, noise: Floats) -> Law:
    several = people >= 2
    people, estimates, noise = people[several], estimates[several], noise[several]
    order = np.argsort(people)
    step = -(-len(order) // _MOST_CELLS) if len(order) else 1
    rows = order[::step]
    people, estimates, noise = people[rows], estimates[rows], noise[rows]
    laws = _laws()
    logs = np.zeros(laws.shape[1])
    octave = np.floor(2 * np.log2(people))
    width = np.count_nonzero(~np.isnan(estimates), axis=1)
    for fanout in np.unique(width[width > 1]).tolist():
        for child in range(fanout - 1):
            here = (width == fanout) & ~np.isnan(estimates[:, child])
            t0 = _kernel(people[here], estimates[here, child], noise[here]) @ _masses(fanout).T
            for o in np.unique(octave[here]):
                at = octave[here] == o
                w = _weights(laws, np.array([2 ** ((o + 0.5) / 2)]))[:, 0]
                logs += step * np.log(np.maximum(t0[at] @ w.T, 1e-300)).sum(axis=0)
    chance = np.exp(logs - logs.max())
    chance /= chance.sum()
    keep = chance > 1e-3
    return Law(laws[:, keep], chance[keep] / chance[keep].sum(), float(people[len(people) // 20]) if len(people) else 20.0)
