"""The number of visitors of a cell lies around what the rule expects as its doubt says.

A chain of TRIMs and a SPLIT, played many times side by side: residents leave in every round, visitors toss coins, and
the tallies are drawn by the randomizer. The truth is known. Its distance from what the rule expects, in standard errors
by the doubt, has the law of a standard normal: sums of thousands of coins. Two numbers are held against it, after every
round: the mean square, and how often the truth lies more than ``VISITOR_QUANTILE`` above, which a rule that allows for
so many standard errors gets wrong. So a child or a TRIM that must not be passes at most once in a thousand times. With
ALARM = 1e-8 for each of fewer than 50 comparisons, the false-alarm rate of this file is below 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from semilocal import Box, Task
from semilocal.arrays import Flags, Floats, Integers
from semilocal.protocol import rule
from semilocal.protocol.rule import Frontier, decide, frontier_at
from semilocal.protocol.visitors import already_there, coming

ALARM = 1e-8
PLAYS, ROUNDS = 50_000, 5
PEOPLE, LEAVING = 20_000, 0.05
EPSILON = {"randomized-response": 2.0, "discrete-laplace": 6.0}


def distances(kind: str) -> Iterator[Floats]:
    """(truth - visitors expected) / sqrt(doubt) of all plays, after every round: float64[plays] each."""
    task = Task.build(Box((0,), (1,)), epsilon=EPSILON[kind], delta=1e-6, k=4500, randomizer=kind)  # type: ignore[arg-type]
    rng = np.random.default_rng(11)
    frontier, residents, visitors = frontier_at(np.ones(PLAYS)), PEOPLE, np.zeros(PLAYS, dtype=np.int64)
    for _ in range(ROUNDS):
        leave, coins = round(LEAVING * residents), rng.binomial(visitors, 0.5)
        frontier, kept = played(task, frontier, np.stack([residents - leave + coins, leave + visitors - coins], 1), rng)
        assert (kept == [True, False]).all()
        residents, visitors = residents - leave, visitors + leave
        yield (visitors - frontier.visitors) / np.sqrt(frontier.doubt)
        frontier = frontier._replace(cells=np.ones(PLAYS, dtype=np.uint64))
    coins = rng.binomial(visitors, 0.5)
    half = residents // 2
    frontier, kept = played(task, frontier, np.stack([half + coins, residents - half + visitors - coins], 1), rng)
    assert kept.all()
    yield (coins - frontier.visitors[::2]) / np.sqrt(frontier.doubt[::2])


def played(task: Task, frontier: Frontier, counts: Integers, rng: np.random.Generator) -> tuple[Frontier, Flags]:
    ruling = decide(task, frontier, counts.sum(axis=1), task.randomizer.draw_tally(counts, rng))
    return ruling.frontier, ruling.kept


def surprises(kind: str) -> list[str]:
    """What is not as the doubt says; one round after the other."""
    low, high = (stats.chi2.ppf(q, PLAYS) / PLAYS for q in (ALARM / 2, 1 - ALARM / 2))
    fewest, most = (stats.binom.ppf(q, PLAYS, 1e-3) for q in (ALARM / 2, 1 - ALARM / 2))
    out = []
    for number, found in enumerate(distances(kind), start=1):
        square, beyond = float(np.mean(found**2)), int(np.sum(found > rule.VISITOR_QUANTILE))
        if not low <= square <= high:
            out.append(f"mean square {square} in round {number}")
        if not fewest <= beyond <= most:
            out.append(f"{beyond} of {PLAYS} beyond in round {number}")
    return out


def test_the_quantile_leaves_out_one_in_a_thousand() -> None:
    assert stats.norm.sf(rule.VISITOR_QUANTILE) == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize("kind", EPSILON)
def test_visitors_are_as_many_as_expected_within_the_doubt(kind: str) -> None:
    assert surprises(kind) == []


def _sure(visitors: Floats, doubt: Floats, weights: Floats) -> tuple[Floats, Floats]:
    return already_there(visitors, np.zeros_like(doubt), weights)


def _without_scatter(visitors: Floats, doubt: Floats, weights: Floats) -> tuple[Floats, Floats]:
    return already_there(visitors, doubt, weights)[0], already_there(np.zeros_like(visitors), doubt, weights)[1]


def _piled_up(visitors: Floats, doubt: Floats, weights: Floats) -> tuple[Floats, Floats]:
    own, variance = already_there(visitors, doubt, weights)
    return own, variance + 0.75 * doubt[:, None]


@pytest.mark.parametrize("bug", [_sure, _without_scatter, _piled_up])
def test_a_doubt_that_forgets_or_repeats_something_is_found(
    bug: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what was unknown before a round, that people scatter, and that a round measures visitors again."""
    monkeypatch.setattr(rule, "already_there", bug)
    assert len(surprises("randomized-response")) > 3


def test_a_rule_without_doubt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the noise of the round is forgotten, so that after a TRIM a number is as sure as if it were counted."""

    def counted(own: Floats, weights: Floats, kept: Flags, estimates: Floats, noise: Floats) -> tuple[Floats, Floats]:
        return coming(own, weights, kept, estimates, np.ones_like(noise))

    monkeypatch.setattr(rule, "coming", counted)
    assert len(surprises("randomized-response")) == 2 * (ROUNDS + 1)


# -- what the rule makes of it ---------------------------------------------------------------------------------------


def unsure(visitors: float, doubt: float, rng: np.random.Generator) -> tuple[Frontier, Integers, Integers]:
    """Cells with a TRIM behind them, how many visitors they really have, and how many of these in the first child."""
    frontier = frontier_at(np.ones(PLAYS), trims=1, visitors=visitors, doubt=doubt)
    truth = np.rint(rng.normal(visitors, np.sqrt(doubt), PLAYS)).astype(np.int64)
    return frontier, truth, rng.binomial(truth, 0.5)


def passing_children() -> int:
    """How often a child passes that has one resident less than visitors."""
    task = Task.build(Box((0,), (1,)), epsilon=2.0, delta=0.017, k=20, tau=0.4)
    assert task.delta_test <= 1e-3
    rng = np.random.default_rng(12)
    frontier, _, own = unsure(4000.0, 5000.0, rng)
    _, kept = played(task, frontier, np.stack([2 * own - 1, PEOPLE - (2 * own - 1)], axis=1), rng)
    assert kept[:, 1].mean() > 0.99
    return int(kept[:, 0].sum())


def trims_to_visitors() -> int:
    """How often a TRIM is given after which one more than half of the people are visitors."""
    task = Task.build(Box((0,), (1,)), epsilon=2.0, delta=0.017, k=20, tau=0.4)
    rng = np.random.default_rng(13)
    frontier, visitors, own = unsure(9000.0, 5000.0, rng)
    leaving = PEOPLE // 2 + 1 - visitors  # who live in the second child
    left = leaving + visitors - own
    _, kept = played(task, frontier, np.stack([PEOPLE - left, left], axis=1), rng)
    assert not kept[:, 1].any()
    return int(kept[:, 0].sum())


@pytest.mark.parametrize("mistakes", [passing_children, trims_to_visitors])
def test_at_most_one_in_a_thousand_goes_on_that_is_mostly_visitors(
    mistakes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug: a rule without doubt."""
    allowed = stats.binom.isf(ALARM, PLAYS, 1e-3)
    assert mistakes() <= allowed
    monkeypatch.setattr(rule, "VISITOR_QUANTILE", 0.0)
    assert mistakes() > 10 * allowed
