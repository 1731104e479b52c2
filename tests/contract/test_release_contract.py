"""Every job answers the same calls in every mode of trust."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import OutsideWarning
from semilocal.protocol.partition import Partition

BOX = sl.Box((0, 0), (1, 1))
POINTS = np.random.default_rng(1).beta(2, 5, (3_000, 2))
F = sl.functions.coordinate(0)
TRUSTS = ("curator", "two-servers", "nobody")
JOBS: dict[str, Callable[..., Any]] = {
    "counts": lambda **named: sl.counts(POINTS, BOX, **named),
    "partition": lambda **named: sl.partition(POINTS, BOX, **named),
    "points": lambda **named: sl.points(POINTS, BOX, **named),
    "mean": lambda **named: sl.mean(POINTS, F, BOX, **named),
    "cell_means": lambda **named: sl.cell_means(POINTS, F, BOX, **named),
}
EPSILON = 3.0


@cache
def result(job: str, trust: str) -> Any:
    return JOBS[job](epsilon=EPSILON, trust=trust, rng=np.random.default_rng(2))


everything = [(job, trust) for job in JOBS for trust in TRUSTS]
contract = pytest.mark.parametrize(("job", "trust"), everything)


@contract
def test_query_keeps_totals_and_has_intervals_that_hold_the_value(job: str, trust: str) -> None:
    found = result(job, trust)
    answers = found.query([[[0, 0], [1, 1]], [[0, 0], [0.3, 0.3]], [[0.3, 0], [1, 0.3]], [[0, 0.3], [1, 1]]])
    assert answers.value[0] == pytest.approx(3_000)
    assert answers.value[1:].sum() == pytest.approx(3_000)
    ends = answers.interval(0.9)
    assert ends.shape == (4, 2)
    assert ((ends[:, 0] <= answers.value) & (answers.value <= ends[:, 1])).all()
    assert found.total == 3_000


@contract
@pytest.mark.parametrize("polygons", [False, True])
def test_areas_outside_the_domain_warn_once_per_call(job: str, trust: str, polygons: bool) -> None:
    areas: Any = [[[0, 0], [1, 1]], [[0.5, 0.5], [3, 3]], [[7, 7], [8, 8]]]
    if polygons:
        shapely = pytest.importorskip("shapely")
        areas = [shapely.box(*low, *high) for low, high in areas]
    with pytest.warns(OutsideWarning, match="2 of 3 areas reach outside") as caught:
        answers = result(job, trust).query(areas)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "it points at the caller"
    assert answers.value[2] == 0


@contract
def test_density_is_the_query_of_a_grid(job: str, trust: str) -> None:
    found = result(job, trust)
    density = found.density((3, 5))
    assert density.shape == (3, 5)
    assert np.array_equal(density.ravel(), found.query(BOX.grid((3, 5))).value)


@contract
def test_interval_grows_with_its_level_and_holds_the_answer(job: str, trust: str) -> None:
    found = result(job, trust)
    narrow, wide = np.array(found.interval(0.5)), np.array(found.interval(0.99))
    assert narrow.shape == wide.shape
    shape: tuple[int, ...]
    if job == "points":
        shape = (3_000, 2, 2)
        inside = (wide[:, 0] <= found.points) & (found.points <= wide[:, 1])
    elif job == "mean":
        shape, inside = (2,), np.array([wide[0] <= found.value <= wide[1]])
    else:
        shape = (len(found.partition), 2)
        answer = found.value if job == "cell_means" else found.crowds
        inside = np.isnan(answer) | ((wide[:, 0] <= answer) & (answer <= wide[:, 1]))
    assert wide.shape == shape
    assert inside.all()
    if job != "points":
        known = ~np.isnan(wide).any(axis=-1)
        assert (wide[..., 0] <= narrow[..., 0])[known].all()
        assert (narrow[..., 1] <= wide[..., 1])[known].all()
        exact = trust == "nobody" and job in ("counts", "partition")  # members of regions are public
        assert (wide[known] != narrow[known]).any() != exact


@contract
def test_partition_covers_the_domain_and_finds_positions(job: str, trust: str) -> None:
    found = result(job, trust)
    partition = found.partition
    assert isinstance(partition, Partition) == (trust == "nobody")
    assert np.array_equal(found.boxes, partition.boxes)
    assert found.crowds.sum() == pytest.approx(3_000)
    places = found.locate(POINTS)
    inside = (partition.boxes[places, 0] <= POINTS) & (partition.boxes[places, 1] >= POINTS)
    assert inside.all()
    if job != "mean":
        assert len(partition) > 1
    elif trust != "nobody":
        assert len(partition) == 1, "one sum tells nothing about where people are"


@contract
def test_what_is_spent_is_what_is_promised_and_what_was_asked_for(job: str, trust: str) -> None:
    found = result(job, trust)
    assert float(found.spent.epsilon) == found.guarantee.epsilon == pytest.approx(EPSILON)
    assert found.guarantee.trust == trust
    assert found.guarantee.anywhere == (None if trust == "nobody" else EPSILON)
    assert found.guarantee.simulated
    assert "SIMULATION" in found.guarantee.explain()
    assert max((loss for _, loss in found.guarantee.ladder), default=EPSILON) == EPSILON
    if trust != "nobody":
        assert found.spent.epsilon_anywhere == found.spent.epsilon
        nearest = {"counts": 0.0, "partition": 0.0, "points": 0.0, "cell_means": EPSILON / 2}
        assert job == "mean" or found.guarantee.ladder[0][1] == nearest[job]
