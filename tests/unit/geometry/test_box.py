"""What the box promises: points are taken as they are, or refused with how many and where the first one is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semilocal import Box
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import MAX_DIMENSIONS

SQUARE = Box((-10, -10), (10, 10), names=("x", "y"))
fixed = settings(derandomize=True, deadline=None)
finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("dimensions", range(1, MAX_DIMENSIONS + 1))
def test_a_box_has_one_to_eight_dimensions(dimensions: int) -> None:
    box = Box((0,) * dimensions, (1,) * dimensions)
    assert box.dimensions == dimensions
    assert box.names == tuple(f"x{axis}" for axis in range(dimensions))
    assert all(type(value) is float for value in (*box.lower, *box.upper))


@pytest.mark.parametrize(
    ("lower", "upper", "names", "message"),
    [
        ((), (), (), "1 to 8 dimensions"),
        ([0] * 9, [1] * 9, (), "1 to 8 dimensions"),
        ((0, 0), (1,), (), "lower has 2 values and upper 1"),
        ((0,), (0,), (), "finite lower < upper"),
        ((1,), (0,), (), "finite lower < upper"),
        ((math.nan,), (1,), (), "finite lower < upper"),
        ((0,), (math.inf,), (), "finite lower < upper"),
        ((-1.7e308,), (1.7e308,), (), "finite lower < upper"),  # the width is not a float
        ((0, 0), (1, 1), ("x",), "2 different strings"),
        ((0, 0), (1, 1), ("x", "x"), "2 different strings"),
        ((0, 0), (1, 1), ("x", ""), "strings of 1 to 200 characters"),
        ((0, 0), (1, 1), ("x", 3), "strings of 1 to 200 characters"),
        ((0, 0), (1, 1), ("x", "a\x1b[2J"), "without control characters"),
        ((0, 0), (1, 1), ("x", "\u202eb"), "without control characters"),
        ((0, 0), (1, 1), ("x", "y" * 201), "strings of 1 to 200 characters"),
        ((0, 0), (1, 1), ("x", []), "strings of 1 to 200 characters"),
        (("0",), ("1",), (), "must hold numbers; got '0'"),
        ((None,), (1,), (), "must hold numbers; got None"),
        ((True,), (2,), (), "must hold numbers; got True"),
        ((0,), (10**400,), (), "must hold numbers"),
        (0, 1, (), "lower must be a sequence"),
        ("0", "1", (), "lower must be a sequence"),
    ],
)
def test_an_impossible_box_is_refused_with_its_reason(lower: Any, upper: Any, names: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Box(lower, upper, names)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", ["check", "clip"])
def test_points_that_are_not_finite_are_refused_and_never_clipped(bad: float, method: str) -> None:
    points = [[0, 0], [bad, 0], [0, 0], [0, bad], [bad, -bad]]
    with pytest.raises(OutsideDomain, match="3 of 5 points are NaN or infinite, the first at index 1"):
        getattr(SQUARE, method)(points)


@pytest.mark.parametrize(
    "points", [[["a", "b"]], "abc", [[None, 0]], [[True, False]], [[0j, 1j]], [[object(), 0]], [[1, 2], [3]], {"x": 1}]
)
def test_what_is_no_number_is_refused(points: Any) -> None:
    with pytest.raises(InvalidInput, match="points must be"):
        SQUARE.check(points)


@pytest.mark.parametrize("points", [[1.0, 2.0], [[1.0]], [[1.0, 2.0, 3.0]], np.zeros((2, 2, 2)), 1.0])
def test_a_wrong_shape_is_refused_with_the_shape_it_wants(points: npt.ArrayLike) -> None:
    with pytest.raises(InvalidInput, match=r"shape \(n, 2\)"):
        SQUARE.check(points)


@fixed
@given(st.lists(st.tuples(finite, finite), max_size=30))
def test_clip_moves_exactly_the_points_outside_to_the_nearest_point(points: list[tuple[float, float]]) -> None:
    clipped, moved = SQUARE.nearest(SQUARE.shaped(points))
    nearest = [[min(max(x, -10.0), 10.0) for x in point] for point in points]
    assert clipped.tolist() == nearest
    assert moved == sum(list(point) != near for point, near in zip(points, nearest, strict=True))
    assert SQUARE.check(clipped) is not None
    if all(abs(x) < 360 for point in points for x in point):  # more looks like metres, see test_mistakes.py
        assert SQUARE.clip(points).points.tolist() == nearest


@fixed
@given(st.lists(st.tuples(finite, finite), max_size=30))
def test_check_refuses_exactly_what_lies_outside_and_changes_nothing(points: list[tuple[float, float]]) -> None:
    outside = [i for i, point in enumerate(points) if not all(-10 <= x <= 10 for x in point)]
    if not outside:
        assert SQUARE.check(points).tolist() == [list(point) for point in points]
        return
    with pytest.raises(OutsideDomain, match=f"{len(outside)} of {len(points)} points .* index {outside[0]}[;.]"):
        SQUARE.check(points)


@pytest.mark.parametrize("points", [np.full((3, 2), 0.8125), [[0.8125, 0.5]], (0.8125, 0.5), np.array([0.8125, 0.5])])
def test_positions_in_the_place_of_parts_or_names_are_not_printed(points: Any) -> None:
    for wrong in (lambda: SQUARE.grid(points), lambda: Box((0, 0), (1, 1), points)):
        with pytest.raises(InvalidInput, match=r"positive whole numbers|must be strings") as caught:
            wrong()
        assert "0.8125" not in str(caught.value)


def test_parts_of_a_grid_are_one_per_axis() -> None:
    with pytest.raises(InvalidInput, match="one value per axis; got 4"):
        SQUARE.grid(4)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"one per axis; got \(4, 0\)"):
        SQUARE.grid((4, 0))
