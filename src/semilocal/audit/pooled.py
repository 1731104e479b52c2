"""The attacker of the pooled tree: knows everybody's position but one, and tells two positions of that one apart.

Plays with the same published differences so far are played together; trees and prices come from the rule that real runs
follow, noise from the sampler that they use. Where two servers add noise the attacker is one of them and takes its own
noise off. The score of a play is the log of how much likelier what it sees is at one position than at the other: the
best statistic there is (Neyman and Pearson).

Knows the public rule, all positions but one, and its own noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy.dyadic import Cells
from ..pooled import noise
from ..pooled.rule import Level, next_level, root_level
from ..pooled.task import UNITS, PooledTask, Trust
from .bounds import LossBound, bound_by_plays

__all__ = ["PooledPair", "attack_pooled", "forget_spending", "pooled_scores", "worst_pair"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PooledPair:
    """Two neighbouring inputs: the same task and others, one person at one of two positions.

    Attributes
    ----------
    task : PooledTask
    others : float64[n - 1, d]
    here, there : position
    louder : float
        What the real rates are, times those that the task promises. 2 is noise of half the size: wrong on purpose.
    advance : callable
        The rule; another one is wrong on purpose.
    """

    task: PooledTask
    others: Floats
    here: tuple[float, ...]
    there: tuple[float, ...]
    louder: int = 1
    advance: Callable[[PooledTask, Level, Integers], Level] = next_level

    def codes(self, at: str) -> Cells:
        """Sorted deepest cells of everybody."""
        if at not in ("here", "there"):
            raise InvalidInput(f"at must be 'here' or 'there'; got {at!r}")
        own = self.here if at == "here" else self.there
        return np.sort(self.task.hierarchy.codes(np.concatenate([self.others, [own]])))


def attack_pooled(pair: PooledPair, *, runs: int, rng: np.random.Generator) -> LossBound:
    """Lower bound on the loss between the two positions, here over there.

    Parameters
    ----------
    runs : int
        As for :func:`semilocal.audit.bounds.bound_by_plays`.
    """
    here, there = (lambda size, at=at: pooled_scores(pair, at=at, runs=size, rng=rng) for at in ("here", "there"))
    return bound_by_plays(here, there, runs=runs)


def pooled_scores(pair: PooledPair, *, at: str, runs: int, rng: np.random.Generator) -> Floats:
    """Log-likelihood ratios, here over there, of many plays with the person at one of the two: float64[runs]."""
    game = _Game(pair, at, noise.from_generator(rng))
    scores = np.zeros(runs)
    waiting = [([root_level(pair.task, len(pair.others) + 1)], np.arange(runs))]
    while waiting:
        levels, plays = waiting.pop()
        deepest = levels[-1]
        if not deepest.opened.any():
            final = np.concatenate([level.cells[~level.opened] for level in levels])
            left = np.concatenate([level.left[~level.opened] for level in levels])
            scores[plays] += game.ask(len(plays), left, *(game.count(world, final) for world in game.worlds))[1]
            continue
        cells = deepest.cells[deepest.opened]
        differences = [game.count(w, 2 * cells) - game.count(w, 2 * cells + np.uint64(1)) for w in game.worlds]
        published, gained = game.ask(len(plays), deepest.price[deepest.opened], *differences)
        scores[plays] += gained
        if deepest.depth + 1 == pair.task.hierarchy.max_depth:  # what comes below depends on these numbers no more
            groups = np.zeros(len(plays), dtype=np.int64)
        else:
            groups = np.unique(published, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(groups, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            below = pair.advance(pair.task, deepest, published[members[0]])
            waiting.append(([*levels, below], plays[members]))
    return scores


class _Game:
    """One world's exact numbers, and what the attacker sees of them."""

    def __init__(self, pair: PooledPair, at: str, words: noise.Words) -> None:
        self.worlds = ("here", "there")
        self._pair = pair
        self._at = at
        self._words = words
        self._codes = {world: pair.codes(world) for world in self.worlds}

    def count(self, world: str, cells: Cells) -> Integers:
        first, last = self._pair.task.hierarchy.span(cells)
        codes = self._codes[world]
        return np.searchsorted(codes, last, side="right") - np.searchsorted(codes, first)

    def ask(self, runs: int, units: Integers, here: Integers, there: Integers) -> tuple[Integers, Floats]:
        """Published numbers int64[runs, m] and what they add to the scores float64[runs]."""
        unit = self._pair.task.unit * self._pair.louder
        shape, all_units = (runs, len(units)), np.tile(units, runs)
        exact = here if self._at == "here" else there
        seen = exact + noise.draw(unit, all_units, self._words).reshape(shape)
        score = (np.abs(seen - there) - np.abs(seen - here)) @ (units * float(unit))
        own = np.zeros(shape, dtype=np.int64)
        for _ in range(self._pair.task.noises - 1):
            own = own + noise.draw(unit, all_units, self._words).reshape(shape)
        return seen + own, score


# -- cases of the catalogue ----------------------------------------------------------------------------------------


def worst_pair(trust: Trust, *, epsilon: float = 2.0, opening_share: float = 0.125, **wrong: Any) -> PooledPair:
    """A small town, and a person on either side of the first cut: the pair with the largest loss."""
    task = PooledTask.build(Box((0.0,), (1.0,)), epsilon=epsilon, trust=trust, max_depth=2)
    task = msgspec.structs.replace(task, opening_share=opening_share)
    size = round(4 * task.threshold)
    others = np.linspace(0.02, 0.98, size)[:, None] ** 1.5
    return PooledPair(task, others, (0.1,), (0.9,), **wrong)


def forget_spending(task: PooledTask, level: Level, differences: Integers) -> Level:
    """The rule with a fault: what was spent above is not taken off the path's budget."""
    below = next_level(task, level, differences)
    return replace(below, left=np.full_like(below.left, UNITS))
