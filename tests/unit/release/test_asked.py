"""What a mean is of: a function of the position where positions have coordinates, or people's own values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import release
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.pooled import PooledTask
from semilocal.release.means import cell_means, pooled_mean

TREE = from_labels("ICD", [("heart", "I21"), ("heart", "I25"), ("lung", "J18"), ("lung", "J44")])
PEOPLE = np.repeat(list(TREE.leaves.values()), 500)[:, None]
NUMBER = sl.functions.coordinate(0)
SHARE = sl.functions.indicator(TREE.box)
REFUSED = "positions are labels of 'ICD', which have no coordinates; ask for counts, or for the mean of a value"
CALLS: dict[str, Any] = {"mean": sl.mean, "cell_means": sl.cell_means}


@pytest.mark.parametrize("f", [NUMBER, SHARE])
@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
@pytest.mark.parametrize("call", CALLS)
def test_labels_have_no_mean(call: str, trust: str, f: Any) -> None:
    with pytest.raises(InvalidInput, match=REFUSED):
        CALLS[call](PEOPLE, f, hierarchy=TREE, epsilon=1.0, trust=trust)


def test_labels_have_no_values() -> None:
    with pytest.raises(InvalidInput, match=REFUSED):
        sl.values(PEOPLE, NUMBER, hierarchy=TREE, epsilon=1.0)


def test_every_release_refuses_a_function_of_labels_by_itself() -> None:
    rng = np.random.default_rng(1)
    run = sl.simulate(PEOPLE, sl.Task.build(hierarchy=TREE, epsilon=1.0, delta=0.01, k=20), rng=rng)
    task = PooledTask.build(hierarchy=TREE, epsilon=1.0, trust="curator")
    counted = sl.counts(PEOPLE, hierarchy=TREE, epsilon=1.0, trust="curator")
    for refused in (
        lambda: release.mean(run, PEOPLE, NUMBER, epsilon=1.0, rng=rng),
        lambda: release.values(run, PEOPLE, NUMBER, epsilon=1.0, rng=rng),
        lambda: pooled_mean(task, PEOPLE, NUMBER),
        lambda: cell_means(counted, PEOPLE, NUMBER, epsilon=1.0),
    ):
        with pytest.raises(InvalidInput, match=REFUSED):
            refused()


@pytest.mark.parametrize("trust", ["nobody", "two-servers", "curator"])
def test_values_of_people_with_labels_have_a_mean(trust: Any) -> None:
    ages = np.tile([20.0, 60.0], len(PEOPLE) // 2)
    found = sl.mean(PEOPLE, None, hierarchy=TREE, value=ages, range=(0, 100), epsilon=4.0, trust=trust)
    assert abs(found.value - 40) < 7 * found.stderr  # 1e-11
