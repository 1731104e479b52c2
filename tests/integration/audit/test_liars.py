"""Poisoning: no set of liars does more than the bounds say, whatever it knows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from semilocal import Box, Curator, Task
from semilocal.audit import push_counts, push_verdicts
from semilocal.audit.exact import liar_pass_chance
from semilocal.errors import InvalidInput
from semilocal.protocol.rule import decide, first_frontier, frontier_at
from semilocal.randomizer import RandomizedResponse

BOX = Box((0.0,), (1.0,))


def task_with(liars: int, *, k: int = 20, delta: float = 0.01, fanout: int = 2, rule: str = "all") -> Task:
    box = BOX if fanout == 2 else Box((0.0, 0.0), (1.0, 1.0))
    return Task.build(
        box, epsilon=1.0, delta=delta, k=k, rule=rule, tolerate_liars=liars,  # type: ignore[arg-type]
        tree="binary" if fanout == 2 else "quad",
    )  # fmt: skip


def everything(fanout: int, m: int) -> list[tuple[int, ...]]:
    """All that m liars can say; first that all of them name child 0."""
    return list(itertools.product(range(fanout), repeat=m))


@pytest.mark.parametrize("liars", [1, 7, 40])
@pytest.mark.parametrize("size", [60, 300, 5000])
def test_a_child_below_k_honest_passes_with_at_most_delta_in_spite_of_the_liars(liars: int, size: int) -> None:
    """Exact, with all liars naming the child: nobody can do more."""
    task = task_with(liars)
    for present in range(liars + 1):
        for honest in {0, task.k // 2, task.k - 1}:
            if honest + present <= size:
                assert liar_pass_chance(task, size, honest=honest, liars=present) <= task.delta


def test_without_tolerance_liars_do_fake_crowds() -> None:
    """Planted bug: the plain threshold, which the same check refutes."""
    assert liar_pass_chance(task_with(0), 300, honest=19, liars=40) > 0.5


def test_no_answers_of_liars_that_see_everything_first_do_better_than_naming_the_child() -> None:
    """All 2^m (and 4^m) answers of the liars, tried for every round of honest reports: 200 rounds."""
    rng = np.random.default_rng(3)
    for fanout, m in ((2, 5), (4, 3)):
        task = task_with(m, k=8, delta=0.2, fanout=fanout, rule="each")
        randomizer = task.randomizer
        honest = np.array([0] * 7 + [1] * 40)
        for _ in range(200):
            base = np.bincount(randomizer.respond_many(honest, rng), minlength=fanout)
            tallies = np.array([base + np.bincount(lies, minlength=fanout) for lies in everything(fanout, m)])
            count = len(tallies)
            frontier = frontier_at(np.ones(count))
            kept = decide(task, frontier, np.full(count, len(honest) + m), tallies).kept[:, 0]
            assert kept.any() == kept[0], "the first row: all of them name the child"


def test_the_curator_keeps_k_honest_against_the_worst_liars() -> None:
    """400 rounds of the real machine: 19 honest in a child, 30 liars that name it.

    A sound threshold errs with probability at most 0.01 per round; more than 22 errors in 400 have probability below
    1e-9. Without tolerance there are many more.
    """
    rng = np.random.default_rng(8)
    errors = {}
    for tolerated in (0, 30):
        task = task_with(tolerated)
        errors[tolerated] = 0
        for _ in range(400):
            reports = task.randomizer.respond_many(np.array([0] * 19 + [1] * 400), rng)
            tally = np.bincount(reports, minlength=2) + np.array([30, 0])
            errors[tolerated] += bool(Curator(task).step([449], [tally]).kept[0].any())
    assert errors[30] <= 22
    assert errors[0] > 40


def test_counts_move_by_at_most_m_over_p_minus_p0_and_that_is_reached() -> None:
    task = task_with(0)
    worst, bound = push_counts(task, 400, 12, rng=np.random.default_rng(1), runs=4000)
    assert isinstance(task.randomizer, RandomizedResponse)
    true, other = task.randomizer.probabilities
    assert bound == pytest.approx(12 / (true - other))
    assert worst <= bound * (1 + 1e-12)
    assert worst > 0.9 * bound


def test_tolerance_costs_about_what_the_liars_could_fake() -> None:
    row = push_verdicts(task_with(0), 1000, 20)
    assert row.tolerated <= 0.01 < row.chance
    assert row.faked < push_verdicts(task_with(0), 1000, 0).faked
    assert row.honest_needed >= row.faked


def test_no_tolerance_changes_nothing() -> None:
    """With 0 liars the verdicts are those of the plain test, for many tallies."""
    plain = Task.build(BOX, epsilon=1.0, delta=0.01, k=20)
    rng = np.random.default_rng(2)
    tallies = rng.integers(0, 500, (200, 1))
    for count in tallies[:, 0].tolist():
        same = plain.randomizer.passes([[count, 500 - count]], [500], k=20, delta=0.01)
        passing = decide(task_with(0, rule="each"), first_frontier(), [500], [[count, 500 - count]]).kept
        assert (same == passing).all()


def test_what_cannot_be_bounded_is_refused() -> None:
    with pytest.raises(InvalidInput, match="randomized response"):
        Task.build(BOX, epsilon=1.0, delta=0.01, k=20, tolerate_liars=3, randomizer="discrete-laplace")
    with pytest.raises(InvalidInput, match="tolerate_liars"):
        Task.build(BOX, epsilon=1.0, delta=0.01, k=20, tolerate_liars=-1)
    with pytest.raises(InvalidInput, match="server_key"):
        Task.build(BOX, epsilon=1.0, delta=0.01, k=20, server_key=b"short")
    with pytest.raises(InvalidInput, match="randomized response only"):
        push_verdicts(Task.build(BOX, epsilon=1.0, delta=0.01, k=20, randomizer="discrete-laplace"), 100, 1)
    with pytest.raises(InvalidInput, match="liars must be"):
        push_verdicts(task_with(0), 10, 11)
