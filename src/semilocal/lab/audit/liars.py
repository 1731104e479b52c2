"""Poisoning: how far lying devices push counts and verdicts, against the bounds.

An answer of randomized response names one side, so a liar changes a tally by at most one and an estimate by at most
1 / (p - p0), whatever it knows about the others. The worst liars for a crowd all name the side that should fail.

``Task.build(tolerate_liars=m)`` asks for m answers more on every side, so that a side passes only if the others alone
show k honest participants. Liars may still hide a crowd (less is published) and bias estimates.

Knows tallies. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import InvalidInput
from ...protocol.task import Task
from ...randomizer import RandomizedResponse
from ..tables import markdown
from .exact import liar_pass_chance

__all__ = ["Poisoning", "poisoning_table", "push_counts", "push_verdicts"]


class Poisoning(NamedTuple):
    """What m liars do to the crowd test of a region in which everybody is asked."""

    liars: int
    responders: int
    chance: float  # that a side with k - 1 honest people passes if all liars name it, exact
    tolerated: float  # the same if the task tolerates as many liars; at most the level of the test
    faked: int  # honest people on the smallest side that passes with probability one half
    honest_needed: int  # the same if the task tolerates the liars: what tolerance costs


def push_verdicts(task: Task, responders: int, liars: int) -> Poisoning:
    """How far ``liars`` among ``responders`` push the crowd test of one side, exactly."""
    _check(task, responders, liars)
    careful = _tolerating(task, liars)
    plain = _tolerating(task, 0)
    worst = min(task.k - 1, responders - liars)
    return Poisoning(
        liars, responders, liar_pass_chance(plain, responders, responders, honest=worst, liars=liars),
        liar_pass_chance(careful, responders, responders, honest=worst, liars=liars),
        _half(plain, responders, liars), _half(careful, responders, liars),
    )  # fmt: skip


def push_counts(
    task: Task, responders: int, liars: int, *, rng: np.random.Generator, runs: int = 2000
) -> tuple[float, float]:
    """Largest change of an estimated count that the liars reached in many rounds, and the bound liars / (p - p0).

    The same round is counted twice: once with the liars' honest reports, once with their lies. The liars' true place is
    the last part and they all name the first.
    """
    _check(task, responders, liars)
    randomizer = task.randomizer
    assert isinstance(randomizer, RandomizedResponse)
    worst, size = 0.0, np.array([responders])
    for _ in range(runs):
        children = rng.integers(0, randomizer.fanout, responders)
        children[:liars] = randomizer.fanout - 1
        reports = randomizer.respond_many(children, rng)
        lies = reports.copy()
        lies[:liars] = 0
        group = np.zeros(responders, dtype=np.int64)
        honest = randomizer.estimate(randomizer.tally(reports, group, 1), size)
        pushed = randomizer.estimate(randomizer.tally(lies, group, 1), size)
        worst = max(worst, float(np.abs(pushed - honest).max()))
    true, other = randomizer.probabilities
    return worst, liars / (true - other)


def _half(task: Task, responders: int, liars: int) -> int:
    low, high = 0, responders - liars
    while low < high:
        middle = (low + high) // 2
        if liar_pass_chance(task, responders, responders, honest=middle, liars=liars) >= 0.5:
            high = middle
        else:
            low = middle + 1
    return low


def _tolerating(task: Task, liars: int) -> Task:
    import msgspec

    return msgspec.structs.replace(task, tolerate_liars=liars)


def _check(task: Task, responders: int, liars: int) -> None:
    if not isinstance(task.randomizer, RandomizedResponse):
        raise InvalidInput("liars are bounded for randomized response only; use that randomizer")
    if not 0 <= liars <= responders:
        raise InvalidInput(f"liars must be from 0 to the {responders} responders; got {liars}")


def poisoning_table(rows: Sequence[Poisoning], *, k: int, delta: float) -> str:
    """A Markdown table of what liars do to crowds."""
    out = [
        ("liars", "responders", f"a side with {k - 1} honest passes", f"with tolerate_liars (at most {delta:g})",
         "honest on a side that passes half the time", "with tolerate_liars")
    ]  # fmt: skip
    out += [
        (f"{row.liars}", f"{row.responders}", f"{row.chance:.2g}", f"{row.tolerated:.2g}", f"{row.faked}",
         f"{row.honest_needed}")
        for row in rows
    ]  # fmt: skip
    return markdown(out)
