"""Counts of positions that were rounded to a lattice."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import shapely

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.geometry.areas import NOT_ROUNDED, Lattice
from semilocal.lab.index import count_points

STEP = 0.01
UNIT = sl.Box((0.0, 0.0), (1.0, 1.0))


def rounded(size: int, rng: np.random.Generator) -> Floats:
    """A town, by two decimals."""
    return np.asarray(np.clip(np.round(rng.normal(0.4, 0.05, (size, 2)), 2), 0.0, 0.99))


@cache
def counted(trust: Any) -> tuple[Floats, Any]:
    rng = np.random.default_rng(11)
    points = rounded(4_000, rng)
    crowd: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    return points, sl.counts(points, UNIT, epsilon=2.0, trust=trust, rng=rng, **crowd)


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_where_the_rounding_is_known_the_error_is_smaller(trust: Any) -> None:
    """Planted bug: the step is not used. Then the errors would be the same."""
    points, result = counted(trust)
    lower = np.random.default_rng(12).uniform(0.2, 0.4, (200, 2))
    boxes = np.stack([lower, lower + 0.15], axis=1)
    truth = count_points(points, boxes)
    known, unknown = (np.sqrt(np.mean((result.query(boxes, rounding=step).value - truth) ** 2)) for step in (STEP, 0))
    assert known < 0.8 * unknown  # seeded: no chance in it


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_boxes_along_regions_have_the_answers_they_had(trust: Any) -> None:
    _, result = counted(trust)
    boxes = result.partition.boxes
    one, other = (result.query(boxes, rounding=step) for step in (0, STEP))
    assert np.allclose(one.value, other.value)
    assert np.allclose(one.stderr, other.stderr)
    assert result.density((4, 4), rounding=STEP).sum() == pytest.approx(result.total)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_no_step_is_looked_for(trust: Any) -> None:
    """As the help of ``--rounding`` says: without a step the answers are those without any lattice."""
    _, result = counted(trust)
    boxes = np.random.default_rng(13).uniform(0.2, 0.4, (50, 1, 2)) + np.array([[[0.0, 0.0], [0.15, 0.15]]])
    one, other = result.query(boxes), result.query(boxes, rounding=0)
    assert np.array_equal(one.value, other.value)
    assert np.array_equal(one.interval(0.95), other.interval(0.95))


def test_lines_before_a_side_are_those_that_a_half_open_box_leaves_out() -> None:
    lattice = Lattice((STEP,))
    lines = np.round(np.arange(-50, 50) * STEP, 2)
    sides = np.random.default_rng(1).uniform(-0.4, 0.4, (100, 1))
    sides[::4] = np.round(sides[::4], 2)
    before = np.rint(lattice.measure(sides)[:, 0]) + 50
    assert before.tolist() == [np.count_nonzero(lines < side - 1e-9) for side in sides[:, 0]]
    assert NOT_ROUNDED.measure(sides) is sides
    assert (np.diff(lattice.measure(np.unique(sides, axis=0))[:, 0]) > 0).all()


@pytest.mark.parametrize("rounding", [-0.1, 2.0, 1e-300, "0.01", (0.01,), (0.01, float("nan")), True])
def test_a_step_that_is_none_is_refused(rounding: Any) -> None:
    with pytest.raises(InvalidInput, match="rounding must be the step"):
        Lattice.of(rounding, UNIT)


def test_a_polygon_is_measured_by_area_whatever_the_step() -> None:
    _, result = counted("curator")
    polygon = [shapely.box(0.303, 0.35, 0.44, 0.46)]
    assert result.query(polygon, rounding=STEP).value == result.query(polygon, rounding=0).value


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
def test_a_step_that_the_job_knows_holds_for_every_answer(trust: Any) -> None:
    """Planted bug: the job forgets the step. Then both would be equal without it, too."""
    _, result = counted(trust)
    crowd: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    rng = np.random.default_rng(11)
    knows = sl.counts(rounded(4_000, rng), UNIT, epsilon=2.0, trust=trust, rounding=STEP, rng=rng, **crowd)
    box = [[[0.301, 0.352], [0.441, 0.463]]]
    assert knows.query(box).value == result.query(box, rounding=STEP).value != result.query(box, rounding=0).value
    assert (knows.density((7, 7)) == result.density((7, 7), rounding=STEP)).all()
    assert np.allclose(knows.interval(), result.interval())


def test_a_job_refuses_a_step_before_it_counts() -> None:
    for domain, words in (({"box": UNIT}, "at most a side"), ({"hierarchy": sl.SphereTree(10)}, "maps of boxes")):
        with pytest.raises(InvalidInput, match=words):
            sl.counts(np.zeros((9, 2)), epsilon=1.0, trust="curator", rounding=2.0, **domain)
