"""Counts of positions that were rounded to a lattice."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.geometry.index import count_points
from semilocal.release._lattice import NOT_ROUNDED, Lattice

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


@pytest.mark.parametrize("trust", ["curator", "nobody"])
def test_where_the_rounding_is_known_the_error_is_smaller(trust: Any) -> None:
    """Planted bug: the step is not used. Then the errors would be the same."""
    points, result = counted(trust)
    lower = np.random.default_rng(12).uniform(0.2, 0.4, (200, 2))
    boxes = np.stack([lower, lower + 0.15], axis=1)
    truth = count_points(points, boxes)
    known, unknown = (
        np.sqrt(np.mean((result.query(boxes, rounding=step).value - truth) ** 2)) for step in (STEP, None)
    )
    assert known < 0.8 * unknown  # seeded: no chance in it


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
def test_boxes_between_the_same_lines_have_nearly_the_same_answer(trust: Any) -> None:
    _, result = counted(trust)
    boxes = np.array(
        [[[0.301, 0.352], [0.441, 0.463]], [[0.309, 0.358], [0.449, 0.4699]], [[0.31, 0.36], [0.45, 0.47]]]
    )
    answers = result.query(boxes, rounding=(STEP, STEP))
    # Cells without a line hold nobody, but noise: that is all that differs.
    assert np.ptp(answers.value) < 0.5 * np.ptp(result.query(boxes).value)


@pytest.mark.parametrize("trust", ["curator", "nobody"])
def test_boxes_along_regions_have_the_answers_they_had(trust: Any) -> None:
    _, result = counted(trust)
    boxes = result.partition.boxes
    one, other = result.query(boxes), result.query(boxes, rounding=STEP)
    assert np.allclose(one.value, other.value)
    assert np.allclose(one.stderr, other.stderr)
    assert result.density((4, 4), rounding=STEP).sum() == pytest.approx(result.total)


def test_lines_before_a_side_are_those_that_a_half_open_box_leaves_out() -> None:
    lattice = Lattice((STEP,))
    lines = np.round(np.arange(-50, 50) * STEP, 2)
    sides = np.random.default_rng(1).uniform(-0.4, 0.4, (100, 1))
    sides[::4] = np.round(sides[::4], 2)
    before = np.rint(lattice.measure(sides)[:, 0]) + 50
    assert before.tolist() == [np.count_nonzero(lines < side - 1e-9) for side in sides[:, 0]]
    assert NOT_ROUNDED.measure(sides) is sides
    assert (np.diff(lattice.measure(np.unique(sides, axis=0))[:, 0]) > 0).all()


@pytest.mark.parametrize("rounding", [0, -0.1, 2.0, "0.01", (0.01,), (0.01, float("nan")), True])
def test_a_step_that_is_none_is_refused(rounding: Any) -> None:
    with pytest.raises(InvalidInput, match="rounding must be the step"):
        Lattice.of(rounding, UNIT)


def test_rounding_is_refused_for_polygons() -> None:
    _, result = counted("curator")
    triangle = {"type": "Polygon", "coordinates": [[[0.1, 0.1], [0.5, 0.1], [0.1, 0.5], [0.1, 0.1]]]}
    with pytest.raises(InvalidInput, match="rounding is for boxes"):
        result.query([triangle], rounding=STEP)
