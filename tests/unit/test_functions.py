"""What functions with known ranges promise: no value leaves its range, and built-in ranges are as tight as can be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semilocal import functions
from semilocal.errors import InvalidInput
from semilocal.functions import BoundedFunction, as_function, check_values
from semilocal.geometry.box import Box

Floats = npt.NDArray[np.float64]


def points_of(box: Floats, *, rng: np.random.Generator, targets: list[Any]) -> Floats:
    """Points of a closed box: corners, a dense lattice, random ones, edges, and those nearest to the targets."""
    lower, upper = box
    dimensions = len(lower)
    corners = np.array(list(itertools.product(*zip(lower, upper, strict=True))))
    per_axis = {1: 200, 2: 20, 3: 9, 4: 6}[dimensions]
    lattice = np.array(list(itertools.product(np.linspace(0.0, 1.0, per_axis), repeat=dimensions)))
    shares = np.concatenate([lattice, rng.random((200, dimensions)), rng.integers(0, 2, (50, dimensions))])
    inner = lower + shares * (upper - lower)
    nearest = np.array([np.broadcast_to(np.asarray(target, dtype=float), dimensions) for target in targets])
    everything = np.concatenate([corners, inner, nearest])
    return np.asarray(np.clip(everything, lower, upper))


def assert_encloses(f: BoundedFunction, box: Floats, points: Floats) -> None:
    lower, upper = f.range_over(box[None])[0]
    values = f(points)
    assert values.dtype == np.float64
    assert values.shape == (len(points),)
    assert (values >= lower).all()
    assert (values <= upper).all()


coordinates = st.floats(-1e6, 1e6) | st.floats(-2.0, 2.0) | st.sampled_from([0.0, 1.0, -1.0, 0.1, 1 / 3])


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, Floats, list[float], list[float], float, Box]:
    """Dimensions, a box (also a very thin or empty one), a center, weights, a positive width, a second box."""
    dimensions = draw(st.integers(1, 4))
    vector = st.lists(coordinates, min_size=dimensions, max_size=dimensions)
    ends = np.sort(np.array([draw(vector), draw(vector)]), axis=0)
    if draw(st.booleans()):
        ends[1] = np.nextafter(ends[0], np.inf)
    other = np.sort(np.array([draw(vector), draw(vector)]), axis=0)
    other[1] = np.where(other[1] > other[0], other[1], other[0] + 1.0)
    if draw(st.booleans()):  # boxes that share a face
        other[0], other[1] = ends[1], ends[1] + 1.0
    sigma = draw(st.floats(1e-3, 1e6))
    return dimensions, ends, draw(vector), draw(vector), sigma, Box(tuple(other[0]), tuple(other[1]))


BUILT_IN: dict[str, Callable[[int, list[float], list[float], float, Box], BoundedFunction]] = {
    "first coordinate": lambda d, center, weights, sigma, box: functions.coordinate(0),
    "last coordinate": lambda d, center, weights, sigma, box: functions.coordinate(d - 1),
    "squared norm": lambda d, center, weights, sigma, box: functions.squared_norm(),
    "squared distance": lambda d, center, weights, sigma, box: functions.squared_norm(center),
    "bump": lambda d, center, weights, sigma, box: functions.gaussian_bump(sigma),
    "bump elsewhere": lambda d, center, weights, sigma, box: functions.gaussian_bump(sigma, center),
    "linear": lambda d, center, weights, sigma, box: functions.linear(weights, center[0]),
    "indicator": lambda d, center, weights, sigma, box: functions.indicator(box),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=cases())
def test_no_value_leaves_the_range_and_the_range_is_tight(case: Any) -> None:
    """Extremes are at corners, or nearest to the center, or where two boxes meet: there the bounds are attained."""
    dimensions, box, center, weights, sigma, other = case
    meeting = (np.maximum(box[0], other.lower) + np.minimum(box[1], other.upper)) / 2
    targets = [0.0, center, meeting, other.lower, other.upper]
    points = points_of(box, rng=np.random.default_rng(1), targets=targets)
    for which, make in BUILT_IN.items():
        f = make(dimensions, center, weights, sigma, other)
        assert_encloses(f, box, points)
        lower, upper = f.range_over(box[None])[0]
        values = f(points)
        slack = 17 * np.spacing(upper) if which.startswith("bump") else 0.0
        assert values.min() - lower <= slack, which
        assert upper - values.max() <= slack, which


@pytest.mark.parametrize(
    "planted",
    [
        functions.function(lambda points: points[:, 0] ** 2, lambda boxes: boxes[:, :, 0] ** 2),
        functions.function(lambda points: points[:, 0], lambda boxes: boxes[:, :, 0] * (1 - 1e-13)),
    ],
)
def test_the_same_check_catches_planted_wrong_ranges(planted: BoundedFunction) -> None:
    box = np.array([[-1.0], [3.0]])
    points = points_of(box, rng=np.random.default_rng(3), targets=[0.0])
    with pytest.raises(AssertionError):
        assert_encloses(planted, box, points)
    with pytest.raises(InvalidInput, match="leave the range"):
        check_values(planted, points, box[None])


def test_ranges_of_many_boxes_are_the_ranges_of_each() -> None:
    rng = np.random.default_rng(4)
    boxes = np.sort(rng.normal(size=(500, 2, 3)), axis=1)
    for make in BUILT_IN.values():
        f = make(3, [0.1, 0.2, 0.3], [1.0, -2.0, 0.5], 0.7, Box((-1, -1, -1), (0.5, 1, 2)))
        together = f.range_over(boxes)
        assert together.shape == (500, 2)
        assert np.array_equal(together, np.concatenate([f.range_over(box[None]) for box in boxes]))
        assert f.range_over(np.empty((0, 2, 3))).shape == (0, 2)
        assert f(np.empty((0, 3))).shape == (0,)


def test_values_are_what_the_names_say() -> None:
    points = np.random.default_rng(5).normal(size=(100, 2))
    assert np.array_equal(functions.coordinate(1)(points), points[:, 1])
    assert functions.squared_norm()(points) == pytest.approx(np.linalg.norm(points, axis=1) ** 2)
    assert functions.squared_norm([1, 2])(points) == pytest.approx(np.linalg.norm(points - [1, 2], axis=1) ** 2)
    bump = np.exp(-(np.linalg.norm(points - [1, 2], axis=1) ** 2) / (2 * 0.3**2))
    assert functions.gaussian_bump(0.3, (1, 2))(points) == pytest.approx(bump)
    assert functions.linear((2, -3), 0.5)(points) == pytest.approx(points @ [2.0, -3.0] + 0.5)
    assert np.array_equal(
        functions.indicator(Box((0, 0), (1, 1)))(points), [(0 <= x <= 1) * (0 <= y <= 1) for x, y in points]
    )


def test_built_in_functions_are_frozen_values_with_names() -> None:
    assert functions.squared_norm([1, 2]) == functions.squared_norm((1.0, 2.0))
    assert len({functions.linear([1.0]), functions.linear([1]), functions.linear([2])}) == 2
    names = [make(2, [0.0, 1.0], [1.0, 2.0], 2.0, Box((0, 0), (1, 1))).name for make in BUILT_IN.values()]
    assert len(set(names)) == len(names)
    assert functions.function(np.sum, np.sum, name="total").name == "total"
    with pytest.raises(AttributeError):
        functions.coordinate(0).axis = 1  # type: ignore[attr-defined]


# --- checks --------------------------------------------------------------------------------------------------------


def test_check_values_returns_values_and_ranges_of_the_boxes_asked_for() -> None:
    f = functions.squared_norm()
    boxes = np.array([[[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [2.0, 1.0]]])
    points = np.array([[1.5, 0.5], [0.5, 0.5], [1.0, 1.0]])
    values, ranges = check_values(f, points, boxes, of=[1, 0, 0])
    assert np.array_equal(values, f(points))
    assert np.array_equal(ranges, f.range_over(boxes))
    single = check_values(f, points[1:], boxes[:1])
    each = check_values(f, points[1:], boxes[[0, 0]])
    assert np.array_equal(single[0], each[0])


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (None, "one box per point"),
        ([0, 1], "one integer"),
        ([0, 1, 2], r"in \[0, 2\)"),
        ([0, 1, -1], r"in \[0, 2\)"),
        ([0.0, 1.0, 1.0], "one integer"),
        ([0, 0, 1], "not in their box"),
    ],
)
def test_check_values_refuses_boxes_that_do_not_belong_to_the_points(of: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_values(functions.coordinate(0), [[0.5], [1.5], [1.7]], [[[0.0], [1.0]], [[1.0], [2.0]]], of=of)


@pytest.mark.parametrize("f", [lambda points: points[:, 0], np.sin, 3, "squared_norm", None, functions.coordinate, int])
def test_what_knows_no_range_is_refused_with_an_example(f: Any) -> None:
    with pytest.raises(InvalidInput, match=r"functions\.squared_norm\(\).*range_over_boxes"):
        as_function(f)
    with pytest.raises(InvalidInput, match="never guessed from the data"):
        check_values(f, [[0.0]], [[[0.0], [1.0]]])


def test_any_object_that_keeps_the_protocol_is_taken() -> None:
    class Mine:
        name = "mine"

        def __call__(self, points: npt.ArrayLike) -> Floats:
            return np.zeros(len(np.asarray(points)))

        def range_over(self, boxes: npt.ArrayLike) -> Floats:
            return np.zeros((len(np.asarray(boxes)), 2))

    mine = Mine()
    assert as_function(mine) is mine
    assert check_values(mine, [[0.0]], [[[0.0], [1.0]]])[0].tolist() == [0.0]


@pytest.mark.parametrize(
    "result",
    [np.zeros((3, 1)), np.zeros(2), 0.0, np.array([0.0, np.nan, 0.0]), [np.inf] * 3, ["a"] * 3, None, [1j] * 3],
)
def test_wrong_output_of_a_callable_is_refused(result: Any) -> None:
    f = functions.function(lambda points: result, lambda boxes: np.zeros((len(boxes), 2)), name="mine")
    with pytest.raises(InvalidInput, match="mine"):
        f(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "result", [np.zeros(3), np.zeros((2, 3)), [[1.0, 0.0]] * 3, [[0.0, np.nan]] * 3, [[0.0, np.inf]] * 3, None]
)
def test_wrong_range_of_a_callable_is_refused(result: Any) -> None:
    f = functions.function(lambda points: np.zeros(len(points)), lambda boxes: result, name="mine")
    with pytest.raises(InvalidInput, match="mine"):
        f.range_over(np.zeros((3, 2, 2)))


def test_a_callable_cannot_change_the_points() -> None:
    def meddle(points: Floats) -> Floats:
        points[:, 0] = 0.0
        return np.zeros(len(points))

    with pytest.raises(ValueError, match="read-only"):
        functions.function(meddle, np.sum)(np.ones((3, 2)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: functions.coordinate(-1),
        lambda: functions.coordinate(0.0),  # type: ignore[arg-type]
        lambda: functions.coordinate(True),
        lambda: functions.squared_norm([np.nan]),
        lambda: functions.squared_norm([]),
        lambda: functions.squared_norm(1.0),  # type: ignore[arg-type]
        lambda: functions.gaussian_bump(0.0),
        lambda: functions.gaussian_bump(-1.0),
        lambda: functions.gaussian_bump(np.inf),
        lambda: functions.gaussian_bump(1e-200),
        lambda: functions.gaussian_bump("wide"),  # type: ignore[arg-type]
        lambda: functions.linear([]),
        lambda: functions.linear(None),  # type: ignore[arg-type]
        lambda: functions.linear([1.0], np.nan),
        lambda: functions.indicator([[0, 0], [1, 1]]),  # type: ignore[arg-type]
        lambda: functions.function(1, np.sum),  # type: ignore[arg-type]
        lambda: functions.function(np.sum, None),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], BoundedFunction]) -> None:
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize(
    "f",
    [
        functions.coordinate(2),
        functions.squared_norm([0.0]),
        functions.gaussian_bump(1.0, [0.0] * 3),
        functions.linear([1.0]),
        functions.indicator(Box((0,), (1,))),
    ],
)
def test_points_and_boxes_of_other_dimensions_are_refused(f: BoundedFunction) -> None:
    with pytest.raises(InvalidInput, match="dimensions"):
        f([[0.0, 0.0]])
    with pytest.raises(InvalidInput, match="dimensions"):
        f.range_over([[[0.0, 0.0], [1.0, 1.0]]])


@pytest.mark.parametrize("make", BUILT_IN.values())
def test_malformed_points_and_boxes_are_refused(make: Callable[..., BoundedFunction]) -> None:
    f = make(1, [0.0], [1.0], 1.0, Box((0,), (1,)))
    wrong: list[Any] = [0.0, [0.0], [[[0.0]]], [[np.nan]], [[np.inf]], [["a"]], [[]], [[0.0], [0.0, 1.0]]]
    for points in wrong:
        with pytest.raises(InvalidInput, match="points"):
            f(points)
    for boxes in ([[0.0], [1.0]], [[[0.0]]], [[[1.0], [0.0]]], [[[0.0], [np.nan]]], [[[0.0], [np.inf]]]):
        with pytest.raises(InvalidInput, match="boxes"):
            f.range_over(boxes)


def test_overflow_is_refused_and_not_infinite() -> None:
    for f in (functions.squared_norm(), functions.squared_norm([-1e308]), functions.linear([1e308])):
        with pytest.raises(InvalidInput, match="finite"):
            f([[1e308]])
        with pytest.raises(InvalidInput, match="finite"):
            f.range_over([[[0.0], [1e308]]])
