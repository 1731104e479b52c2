"""Poisoning: no set of liars does more than the bounds say, whatever it knows."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from semilocal import Box, Task
from semilocal.lab.audit.exact import crowd_threshold, liar_pass_chance
from semilocal.protocol.rule import splits
from semilocal.protocol.thresholds import level, threshold

BOX = Box((0.0,), (1.0,))


def task_with(liars: int, *, k: int = 20, delta: float = 0.01, rule: str = "cut") -> Task:
    return Task.build(BOX, epsilon=1.0, delta=delta, k=k, rule=rule, tolerate_liars=liars)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["cut", "all"])
@pytest.mark.parametrize("liars", [1, 7, 40])
@pytest.mark.parametrize("size", [100, 300, 3000])
def test_a_side_below_k_honest_passes_with_at_most_its_level_in_spite_of_the_liars(
    liars: int, size: int, rule: str
) -> None:
    """Exact, with all liars naming the side: nobody can do more."""
    task = task_with(liars, rule=rule)
    most = level(task.delta, 0) if rule == "cut" else task.delta
    for asked in {size} if rule == "all" else {size, 90}:
        for present in {0, liars // 2, liars}:
            for honest in {0, task.k - 1}:
                assert liar_pass_chance(task, size, asked, honest=honest, liars=present) <= most * (1 + 1e-9)


def test_without_tolerance_liars_do_fake_crowds() -> None:
    """Planted bug: the plain threshold, which the same check refutes."""
    assert liar_pass_chance(task_with(0), 300, 300, honest=19, liars=40) > 0.5


def test_a_larger_k_is_no_tolerance() -> None:
    """Planted bug: the threshold of k + m. A liar says "here" for sure, an honest one only often."""
    for size, liars in ((300, 10), (1000, 40)):
        raised = threshold(size, size, 20 + liars, 1.0, level(0.01, 0))
        plain = crowd_threshold(task_with(0), size, size)
        careful = msgspec.structs.replace(task_with(0), tolerate_liars=raised - plain)
        assert liar_pass_chance(careful, size, size, honest=19, liars=liars) > level(0.01, 0)


def test_no_answers_of_liars_that_see_everything_first_do_better_than_naming_the_side() -> None:
    """All answers of five liars, by how many name the side, for 200 rounds of honest answers."""
    rng, task = np.random.default_rng(3), task_with(5, k=8, delta=0.2)
    honest = np.array([0] * 7 + [1] * 60)
    needed = crowd_threshold(task, 72, 72)
    for _ in range(200):
        base = np.bincount(task.randomizer.respond_many(honest, rng), minlength=2)
        tallies = base + np.array([(5 - other, other) for other in range(6)])
        passing = tallies[:, 0] >= needed
        assert passing.any() == passing[0], "the first row: all of them name the side"
        assert not splits(tallies, np.full(6, needed))[~passing].any()


def test_no_tolerance_changes_nothing() -> None:
    for asked in (60, 200):
        assert crowd_threshold(task_with(0), 500, asked) == threshold(500, asked, 20, 1.0, level(0.01, 0))
