"""What opening costs at the least, and what a difference that is too large says."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.pooled import PooledTask
from semilocal.pooled.play import difference_noise, next_level, root_level
from semilocal.pooled.task import UNITS


@pytest.mark.parametrize("people", [1_000, 10**6, 10**12])
def test_opening_never_costs_less_than_its_share_of_a_whole_path(people: int) -> None:
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=0.2, trust="curator", max_depth=14)
    level = root_level(task, people)
    while level.opened.any():
        assert level.price[level.opened].min() >= UNITS // (8 * task.hierarchy.max_depth)
        level = next_level(task, level, np.zeros(np.count_nonzero(level.opened), dtype=np.int64))


@pytest.mark.parametrize("difference", [1_000, 1_400, -5_000])
def test_a_half_that_seems_empty_is_not_certain_to_be_empty(difference: int) -> None:
    task = PooledTask.build(Box((0, 0), (1, 1)), epsilon=0.2, trust="curator", max_depth=14)
    root = root_level(task, 1_000)
    noise = difference_noise(task, root.price)
    halves = next_level(task, root, np.array([difference]))
    assert (halves.variance >= noise[0] / 4).all()
    assert halves.size.sum() == pytest.approx(1_000)
