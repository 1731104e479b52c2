"""What the box promises: points are taken as they are, or refused with how many and where the first one is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import FEWEST, MAX_DIMENSIONS, Box, mistake_words
from semilocal.geometry.places import PLACES, as_box, named_box
from tests.helpers.engine_runs import PointsSource

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


def test_the_name_of_a_file_is_no_position() -> None:
    with pytest.raises(InvalidInput, match="got the name of a file: read it"):
        SQUARE.check("people.csv")


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
    if all(abs(x) < 360 for point in points for x in point):  # more looks like metres, see below
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


STATE = named_box("california")
METRES = Box((400_000, 3_600_000), (900_000, 4_600_000))
TURN = np.array([360.0, 0.0])


def lon_lat(count: int = 500) -> Floats:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(-124, -115, count), rng.uniform(33, 42, count)])


def test_what_is_likely() -> None:
    assert "look swapped" in mistake_words(lon_lat()[:, ::-1], STATE)
    mostly = np.concatenate([lon_lat(400)[:, ::-1], lon_lat(200)])
    assert "look swapped" in mistake_words(mostly, STATE)
    assert mistake_words(mostly, STATE, fewest=FEWEST) == ""  # too weak to refuse to move points
    assert "0 to 360" in mistake_words(lon_lat() + TURN, STATE)
    assert "0 to 360" in mistake_words(lon_lat(), Box((230, 30), (260, 45), names=("lon", "lat")))
    assert mistake_words(lon_lat() + TURN, Box(STATE.lower, STATE.upper)) == ""  # no longitudes
    assert "look like metres" in mistake_words(lon_lat() * 111_000, STATE)
    assert mistake_words(np.full((9, 2), 900.0), Box((0, 0), (100, 100))) == ""  # percent, pixels, money: no map
    assert "look like degrees" in mistake_words(lon_lat(), METRES)
    assert mistake_words(lon_lat(), STATE) == ""
    assert mistake_words(np.zeros((3, 1)), Box((1,), (2,))) == ""


WRONG = [
    (lon_lat()[:, ::-1], STATE, "axes look swapped: longitude and latitude fit after an exchange"),
    (lon_lat() + TURN, STATE, "longitudes look counted from 0 to 360"),
    (lon_lat() * 111_000.0, STATE, "look like metres"),
    (lon_lat(), METRES, "look like degrees"),
]
CHECKS = [
    lambda points, box: box.check(points),
    lambda points, box: box.clip(points),
    lambda points, box: PointsSource(points, box).check(),
    lambda points, box: sl.counts(points, box, epsilon=1.0, trust="curator"),
]


@pytest.mark.parametrize(("points", "box", "words"), WRONG)
@pytest.mark.parametrize("check", CHECKS)
def test_the_mistake_is_named_instead_of_a_larger_box(points: Floats, box: Box, words: str, check: Any) -> None:
    with pytest.raises(OutsideDomain, match=words) as caught:
        check(points, box)
    text = str(caught.value)
    assert "500" in text
    assert "larger box" not in text
    assert "Box.clip" not in text
    for number in points[0]:
        assert f"{number:.4f}"[:7] not in text


@pytest.mark.parametrize("count", [1, FEWEST - 1, FEWEST])
def test_a_few_points_are_no_evidence_that_axes_are_swapped(count: int) -> None:
    """They are moved, as they would be if they fitted after an exchange by chance; the advice of a check stays."""
    points = lon_lat(count)[:, ::-1]
    with pytest.raises(OutsideDomain, match="axes look swapped"):
        STATE.check(points)
    if count < FEWEST:
        assert STATE.clip(points).moved == count
    else:
        with pytest.raises(OutsideDomain, match=r"10 of 10 points .* none was moved\. The axes look swapped"):
            STATE.clip(points)


@pytest.mark.parametrize(
    ("names", "upper", "shift"),
    [
        (("hour", "euros"), (24, 300), 1000.0),
        (("age", "income"), (120, 100_000), -300.0),
        (("time", "x"), (1, 1), 500.0),
    ],
)
def test_axes_that_are_no_map_have_no_metres_or_degrees(
    names: tuple[str, str], upper: tuple[float, float], shift: float
) -> None:
    box = Box((0, 0), upper, names=names)
    points = np.random.default_rng(1).uniform(0, 24, (500, 2)) + np.array([0, shift])
    assert box.clip(points).moved == 500
    with pytest.raises(OutsideDomain, match="take a larger box"):
        box.check(points)


@pytest.mark.parametrize("names", [("pickup_lon", "pickup_lat"), ("X", "Y"), ("utm_x", "utm_y"), (), ("east", "north")])
def test_axes_of_maps_are_known_by_their_names(names: tuple[str, ...]) -> None:
    assert "look like metres" in mistake_words(lon_lat() * 111_000, Box(STATE.lower, STATE.upper, names=names))
    if "pickup_lon" not in names:  # a box in metres cannot have such axes
        assert "look like degrees" in mistake_words(lon_lat(), Box(METRES.lower, METRES.upper, names=names))


def test_every_place_is_a_box_inside_the_world() -> None:
    world = named_box("world")
    for name in PLACES:
        box = named_box(name)
        assert box.names == ("longitude", "latitude")
        world.check([box.lower, box.upper])


def test_bounds_are_lower_corner_then_upper_corner_in_any_dimension() -> None:
    assert as_box(" -1, -2,3 ,4.5") == Box((-1, -2), (3, 4.5))
    assert as_box("0,1") == Box((0,), (1,))
    assert as_box("0,0,0,1,2,3") == Box((0, 0, 0), (1, 2, 3))
    assert as_box("New York") == named_box("new-york")
    assert as_box((-1, -2, 3, 4.5), names=("x", "y")) == Box((-1, -2), (3, 4.5), names=("x", "y"))
    assert as_box(np.array([0, 1])) == as_box(Box((0,), (1,)))
    assert as_box("california", names=("lon", "lat")).names == ("lon", "lat")
    with pytest.raises(InvalidInput, match="is for 2 columns, and 3 columns were named"):
        as_box("0,0,1,1", names=("a", "b", "c"))
    with pytest.raises(InvalidInput, match=r"box must be a semilocal\.Box, the name of a place, or numbers"):
        as_box([[0, 0], [1, 1]])


def test_degrees_that_cannot_be_are_refused_with_the_order_of_the_corners() -> None:
    names = ("longitude", "latitude")
    for swapped in ((32.5, -124.5, 42.0, -114.0), (-124.5, -114.0, 32.5, 42.0), (0, 0, 10, 95)):
        with pytest.raises(InvalidInput, match=r"'latitude' is in degrees from -90 to 90.*: west, south, east, north"):
            as_box(swapped, names=names)
        assert as_box(swapped, names=("x", "y"))
    for beyond in ((-190, 0, -170, 9), (-124.5, 32, 200, 42), (170, 0, 361, 9)):
        with pytest.raises(InvalidInput, match="'pickup_lng' is in degrees from -180 to 180, or from 0 to 360"):
            as_box(beyond, names=("pickup_lng", "pickup_lat"))
    with pytest.raises(InvalidInput, match="south, west, north, east"):
        as_box((-124.5, 32.5, -114.0, 42.0), names=("lat", "lon"))
    assert as_box((170, -20, 190, 0), names=names).upper == (190, 0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("atlantis", "no box is named 'atlantis'"),
        ("", "no box is named ''"),
        ("1,2,3", "hold 3 numbers"),
        ("1,two,3,4", "must be numbers with commas"),
        ("5", "no box is named '5'"),
        ("1,1,0,0", "lower < upper"),
        ("0,0,inf,1", "finite"),
        (",".join("1" * 18), "hold 18 numbers"),
    ],
)
def test_wrong_bounds_are_refused_with_the_fix(text: str, part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        as_box(text)
    assert part in str(caught.value)
