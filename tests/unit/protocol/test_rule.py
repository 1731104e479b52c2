"""The rule: where is cut, who is asked, what the answers mean, when a region ends, and what devices check again."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from semilocal import Box, DiscreteLaplace, Task
from semilocal.protocol.estimate import Walls
from semilocal.protocol.rule import (
    Census,
    first_portion,
    go_on,
    questions,
    randomizer_for,
    refinements,
    splits,
    threshold_holds,
)
from semilocal.protocol.thresholds import level, needed, tail, threshold

LINE = Box((0.0,), (1.0,))


def task_of(**options: Any) -> Task:
    return Task.build(LINE, **{"epsilon": 1.0, "delta": 0.05, "k": 20, "max_depth": 10, **options})


TASK = task_of()
LOWER, UPPER = TASK.hierarchy.ends


def census(*rows: tuple[int, int, int, int], walls: Walls | None = None) -> Census:
    """Of regions (lower, upper, askable, failed)."""
    lower, upper, askable, failed = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Census(
        lower.astype(np.uint64), upper.astype(np.uint64), askable, askable, failed,
        Walls.none(len(rows)) if walls is None else walls,
    )  # fmt: skip


def whole(askable: int, failed: int = 0, walls: Walls | None = None) -> Census:
    return census((LOWER, UPPER, askable, failed), walls=walls)


def one_wall(cut: int, asked: int, yes: int) -> Walls:
    return Walls(np.array([0, 1]), np.array([cut], np.uint64), np.array([asked]), np.array([yes]))


# -- what is asked -----------------------------------------------------------------------------------------------------


def test_m_is_what_the_test_needs_and_t_is_the_exact_threshold() -> None:
    for askable, failed in ((10_000, 0), (500, 3), (300, 40)):
        asking = questions(TASK, whole(askable, failed))
        m = min(int(needed([askable], 20, 1.0, [level(0.05, failed)])[0]), askable)
        assert asking.asked.tolist() == [m]
        assert asking.threshold.tolist() == [threshold(askable, m, 20, 1.0, level(0.05, failed))]
        assert 8 <= asking.portion[0] <= m
        assert (asking.portion[0] <= first_portion(TASK)) == (askable < 1000)


def test_a_region_ends_where_nothing_can_be_shown() -> None:
    asking = questions(TASK, census((LOWER, UPPER, 39, 0), (LOWER, UPPER, 5000, 0), (LOWER, LOWER + 1, 5000, 0)))
    assert asking.rows.tolist() == [1]
    assert len(questions(TASK, whole(60)).rows) == 0  # at epsilon 1 a crowd of 20 is not seen in 60


def test_a_region_s_question_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(2)
    rows = [(LOWER + 2 * i, UPPER - 3 * i, int(rng.integers(200, 20_000)), i % 5) for i in range(40)]
    together = questions(TASK, census(*rows))
    for place, row in enumerate(together.rows.tolist()):
        alone = questions(TASK, census(rows[row]))
        assert [column[0].tolist() for column in alone[1:]] == [column[place].tolist() for column in together[1:]]


def test_regions_stay_as_large_as_the_task_says() -> None:
    task = task_of(resolution=0.4)
    asking = questions(task, whole(10_000))
    assert len(asking.rows) == 1  # halves have sides of 0.5
    half = (LOWER + UPPER) // 2
    assert len(questions(task, census((LOWER, half, 10_000, 0))).rows) == 0


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_every_part_must_reach_the_threshold_and_nothing_splits_without_one() -> None:
    tally = np.array([[10, 10], [10, 9], [9, 30], [0, 0], [30, 30]])
    assert splits(tally, np.array([10, 10, 10, 10, 0])).tolist() == [True, False, False, False, False]


def test_the_rest_is_asked_if_passing_is_likely() -> None:
    asking = questions(TASK, whole(900))
    portion = asking.portion
    assert go_on(TASK, asking, portion, portion // 2).tolist() == [True]
    assert go_on(TASK, asking, portion, portion).tolist() == [False]  # everybody is above
    assert go_on(TASK, asking, portion * 0, portion * 0).dtype == bool
    done = asking._replace(portion=asking.asked)
    assert go_on(TASK, done, asking.asked, asking.asked // 2).tolist() == [False]  # nobody is left to ask


# -- refinements -------------------------------------------------------------------------------------------------------


def test_free_members_halve_the_largest_piece() -> None:
    quarter = LOWER + (UPPER - LOWER) // 4
    asking = refinements(TASK, whole(100, 1, one_wall(quarter, 200, 140)))
    (cut,) = asking.cuts[0].tolist()
    assert quarter < cut < UPPER
    assert asking.threshold.tolist() == [0]
    assert asking.asked.tolist() == asking.portion.tolist()
    assert asking.asked[0] <= 100


def test_nobody_is_asked_to_refine_what_is_too_small() -> None:
    assert len(refinements(TASK, whole(5)).rows) == 0
    assert len(refinements(TASK, census((LOWER, LOWER + 1, 500, 0))).rows) == 0
    assert len(refinements(task_of(rule="all"), whole(500)).rows) == 0


# -- what devices check ------------------------------------------------------------------------------------------------


def holds(task: Task, **changes: int) -> bool:
    numbers = {"askable": 500, "asked": 200, "failed": 2, "parts": 2}
    least = threshold(500, 200, task.k, task.randomizer.epsilon, level(task.delta, 2))
    return threshold_holds(task, **{**numbers, "threshold": least, **changes})


def test_a_device_accepts_the_threshold_and_nothing_below() -> None:
    least = threshold(500, 200, 20, 1.0, level(0.05, 2))
    assert holds(TASK)
    assert holds(TASK, threshold=least + 5)
    assert not holds(TASK, threshold=least - 1)
    assert not holds(TASK, failed=30)
    assert not holds(TASK, asked=400)
    assert not holds(TASK, parts=3)
    assert holds(TASK, askable=5000)  # the same number asked of more people shows more
    assert not holds(TASK, askable=200)


def test_a_device_allows_a_rounding_and_no_more() -> None:
    own = tail(500, 200, 20, 1.0, 100)
    for factor, accepted in ((1 - 0.9e-6, True), (1 - 1.1e-6, False), (1.0, True)):
        task = msgspec.structs.replace(TASK, delta=min(own * factor * 2, 0.49))
        if own * factor * 2 < 0.49:
            assert threshold_holds(task, askable=500, asked=200, failed=0, parts=2, threshold=100) == accepted


def test_liars_are_taken_off_every_tally() -> None:
    """m liars add at most m to a side, whatever they know, so t is m higher. Planted: k + m for k is not enough."""
    task = task_of(tolerate_liars=10, delta=1e-3)
    least = threshold(500, 200, 20, 1.0, level(1e-3, 0))
    assert threshold_holds(task, askable=500, asked=200, failed=0, parts=2, threshold=least + 10)
    assert not threshold_holds(task, askable=500, asked=200, failed=0, parts=2, threshold=least + 9)
    asking = questions(task, whole(5000))
    assert asking.threshold[0] == threshold(5000, int(asking.asked[0]), 20, 1.0, level(1e-3, 0)) + 10
    raised = threshold(200, 200, 30, 1.0, level(1e-3, 0))
    assert tail(190, 190, 20, 1.0, raised - 10) > level(1e-3, 0)  # 19 honest ones and ten liars who all say "here"


# -- rule "all" --------------------------------------------------------------------------------------------------------


def test_rule_all_asks_everybody_about_the_children_and_ends_after_a_failure() -> None:
    task = Task.build(Box((0.0, 0.0), (1.0, 1.0)), epsilon=1.0, delta=0.05, k=20, rule="all", tree="quad", max_depth=4)
    lower, upper = task.hierarchy.ends
    asking = questions(task, census((lower, upper, 900, 0), (lower, upper, 900, 1), (lower, lower + 1, 900, 0)))
    assert asking.rows.tolist() == [0]
    quarter = (upper - lower) // 4
    assert asking.cuts.tolist() == [[lower + quarter, lower + 2 * quarter, lower + 3 * quarter]]
    assert asking.asked.tolist() == asking.portion.tolist() == [900]
    assert asking.threshold.tolist() == task.randomizer.threshold([900], k=20, delta=0.05).tolist()
    numbers = {"askable": 900, "asked": 900, "failed": 0, "parts": 4, "threshold": int(asking.threshold[0])}
    assert threshold_holds(task, **numbers)
    for change in ({"asked": 800}, {"failed": 1}, {"threshold": numbers["threshold"] - 1}):
        assert not threshold_holds(task, **{**numbers, **change})


def test_rule_all_keeps_the_paper_s_test_for_other_noise() -> None:
    task = msgspec.structs.replace(task_of(rule="all"), randomizer=DiscreteLaplace(1.0, 2))
    asking = questions(task, whole(900))
    assert asking.threshold.tolist() == task.randomizer.threshold([900], k=20, delta=0.05).tolist()
    assert randomizer_for(task, 2) == task.randomizer
