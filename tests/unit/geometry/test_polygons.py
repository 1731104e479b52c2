"""Areas of every form are what they say; what is none is refused in words; what reaches outside the domain is said."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.geometry.areas import (
    NOT_ROUNDED,
    Lattice,
    Polygons,
    area_names,
    as_areas,
    as_polygons,
    has_shapes,
    outside_words,
)
from semilocal.geometry.box import Box
from semilocal.lab.baselines.boxes import count_points

shapely = pytest.importorskip("shapely")
UNIT = Box((0, 0), (1, 1))
DEGREES = Box.world()


def star(rng: np.random.Generator, corners: int = 12) -> Any:
    """A polygon with dents and one hole, around a random middle."""
    middle, size = rng.uniform(0.2, 0.8, 2), rng.uniform(0.1, 0.5)
    angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
    radii = size * rng.uniform(0.4, 1.0, corners)
    ring = middle + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    hole = middle + 0.1 * size * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]])
    return shapely.difference(shapely.make_valid(shapely.Polygon(ring)), shapely.Polygon(hole))


def stars(count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [shape for shape in (star(rng) for _ in range(count)) if shape.geom_type in ("Polygon", "MultiPolygon")]


def random_boxes(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.sort(np.random.default_rng(seed).random((count, 2, 2)), axis=1)


def test_share_meeting_and_holding_of_a_box_are_what_its_definition_says() -> None:
    shapes = stars(400, 3)
    boxes = random_boxes(len(shapes), 4)
    boxes[::2] = boxes[::2].mean(axis=1, keepdims=True) + (boxes[::2] - boxes[::2].mean(axis=1, keepdims=True)) / 20
    polygons = as_polygons(shapes, UNIT)
    _, meets, holds = polygons.within(boxes)
    pairs = [(shape, shapely.box(*box.ravel())) for shape, box in zip(shapes, boxes, strict=True)]
    truth = [shape.intersection(box).area / box.area for shape, box in pairs]
    assert np.allclose(polygons.covered(boxes), truth, atol=1e-12)
    assert meets.tolist() == [shape.intersects(box) for shape, box in pairs]
    assert holds.tolist() == [shape.contains(box) for shape, box in pairs]
    assert holds.any()
    assert not meets.all()


def test_a_tiny_hole_in_the_world_is_not_overlooked() -> None:
    hole = shapely.box(10.0, 50.0, 10.0 + 1e-7, 50.0 + 1e-7)
    polygons = as_polygons(shapely.difference(shapely.box(-180, -90, 180, 90), hole), DEGREES)
    _, meets, holds = polygons.within(np.array([[[-180.0, -90.0], [180.0, 90.0]]]))
    assert (bool(meets.all()), bool(holds.any())) == (True, False)


def test_polygons_along_the_sides_of_a_box_hold_it_or_do_not_meet_it() -> None:
    third = 1 / 3
    left, right = [[[0.0, 0.0], [third, 0.7]]], [[[third, 0.0], [1.0, 0.7]]]
    polygons = as_polygons(shapely.Polygon([(0, 0), (third, 0), (third, 0.3), (third, 0.7), (0, 0.7)]), UNIT)
    for box, expected in ((left, (True, True)), (right, (False, False))):
        _, meets, holds = polygons.within(np.array(box))
        assert (meets[0], holds[0]) == expected


def test_taking_polygons_keeps_their_shapes() -> None:
    shapes = stars(20, 7)
    rows = np.array([3, 3, 0, 19, 7])
    some = as_polygons(shapes, UNIT).take(rows)
    whole = np.repeat(np.array([[[-1.0, -1.0], [2.0, 2.0]]]), len(rows), axis=0)
    assert np.allclose(some.covered(whole) * 9, [shapes[row].area for row in rows])
    assert sorted(np.concatenate(list(some.batches())).tolist()) == [0, 1, 2, 3, 4]


def test_rings_may_run_either_way_and_the_latitude_may_come_first() -> None:
    shape = shapely.difference(shapely.box(10, 40, 20, 60), shapely.box(12, 45, 13, 50))
    turned = shapely.Polygon(shape.exterior.coords[::-1], [ring.coords[::-1] for ring in shape.interiors])
    box = np.array([[[10.0, 40.0], [20.0, 60.0]]])
    for other in (shape, turned):
        assert as_polygons(other, DEGREES).covered(box)[0] == pytest.approx(195 / 200)
    swapped = Box((-90, -180), (90, 180), names=("lat", "lon"))
    assert as_polygons(shape, swapped).covered(box[:, :, ::-1])[0] == pytest.approx(195 / 200)


GEOJSON: dict[str, Any] = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}


class WithInterface:
    __geo_interface__ = GEOJSON


@pytest.mark.parametrize(
    ("areas", "count"),
    [
        (shapely.box(0, 0, 1, 1), 1),
        ([shapely.box(0, 0, 1, 1)] * 2, 2),
        (np.array([shapely.box(0, 0, 1, 1)] * 2), 2),
        (GEOJSON, 1),
        ([GEOJSON, WithInterface()], 2),
        ({"type": "Feature", "geometry": GEOJSON, "properties": {}}, 1),
        ({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": GEOJSON}] * 3}, 3),
        ({"type": "MultiPolygon", "coordinates": [[[[0, 0, 9], [1, 0, 9], [1, 1, 9], [0, 0, 9]]]]}, 1),
    ],
)
def test_polygons_come_in_every_usual_form(areas: Any, count: int) -> None:
    assert has_shapes(areas)
    found = as_polygons(areas, UNIT)
    assert isinstance(found, Polygons)
    assert len(found) == count


def test_corners_of_boxes_are_no_polygons() -> None:
    assert not any(map(has_shapes, (np.zeros((2, 2, 2)), [[[0, 0], [1, 1]]], [0, 0, 1, 1], [], "london")))


BOWTIE = shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])


@pytest.mark.parametrize(
    ("areas", "words"),
    [
        ([shapely.box(0, 0, 1, 1), BOWTIE], r"polygon 1 is invalid, near \S+ \S+: Self-intersection; repair it"),
        (
            shapely.Polygon(shapely.box(0, 0, 1, 1).exterior, [[(2, 2), (3, 2), (3, 3)]]),
            "near 2 2: Hole lies outside shell",
        ),
        ([shapely.Polygon()], "polygon 0 is empty; remove it"),
        ([shapely.box(0, 0, 1, 1), None], "got NoneType|polygon 1 is missing"),
        (np.array([shapely.box(0, 0, 1, 1), None]), "got NoneType|polygon 1 is missing"),
        (shapely.Point(0, 0), "polygon 0 is a Point"),
        ({"type": "Point", "coordinates": [0, 0]}, "Polygon or MultiPolygon; got 'Point'"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}, "not rings of numbers"),
        ({"type": "Polygon", "coordinates": [[["a", 0]]]}, "not rings of numbers"),
        ({"type": "Polygon"}, "not rings of numbers"),
        ({"type": "FeatureCollection"}, "list of features"),
        ({"type": "FeatureCollection", "features": []}, "no polygons"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [float("nan"), 1], [0, 0]]]}, "not rings of numbers"),
    ],
)
def test_bad_polygons_are_refused_with_their_number(areas: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        as_polygons(areas, UNIT)


def test_the_reference_system_must_be_that_of_the_domain() -> None:
    geopandas = pytest.importorskip("geopandas")
    series = geopandas.GeoSeries([shapely.box(10, 40, 20, 60)])
    with pytest.raises(InvalidInput, match=r"no CRS.*set_crs\(4326\)"):
        as_polygons(series, DEGREES)
    known = series.set_crs(4326)
    assert len(as_polygons(known, DEGREES)) == len(as_polygons(known.to_frame("geometry"), DEGREES)) == 1
    metres = known.to_crs(3857)
    with pytest.raises(InvalidInput, match=r"EPSG:3857.*convert them with .to_crs\(4326\)"):
        as_polygons(metres, DEGREES)
    with pytest.raises(InvalidInput, match="call them lon and lat"):
        as_polygons(known, UNIT)
    assert len(as_polygons(metres, UNIT)) == 1


@pytest.mark.parametrize("areas", [[None], None, [[[0, 0], [1, 1]], None], [[0, 0, 1, 1], [2]]])
def test_what_is_no_area_is_refused(areas: object) -> None:
    with pytest.raises(InvalidInput, match="boxes must"):
        as_areas(areas, Box((0, 0), (1, 1)))


def test_boxes_may_be_rows_of_bounds() -> None:
    square, rows = Box((0, 0), (1, 1)), np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]])
    for given, box in ((rows, square), (rows.tolist(), square), ([[0, 1], [1, 2]], Box((0,), (2,)))):
        found = as_areas(given, box)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found.reshape(2, -1), given)
    with pytest.raises(InvalidInput, match="shape"):
        as_areas([[0, 0, 1]], square)


def test_names_boxes_and_numbers_may_be_mixed() -> None:
    found = as_areas(["london", Box((1, 2), (3, 4)), [1, 2, 3, 4], [[1, 2], [3, 4]]], Box.world())
    assert isinstance(found, np.ndarray)
    assert area_names(["london", [1, 2, 3, 4]]) == ("london", "")
    assert area_names([[1, 2, 3, 4]]) == ()
    assert found[1:].tolist() == [[[1, 2], [3, 4]]] * 3
    assert found[:1].tolist() == as_areas("london", Box.world()).tolist()  # type: ignore[union-attr]


BOX = Box((0, 0), (2, 1))


def test_areas_that_reach_outside_are_told_from_those_that_lie_there() -> None:
    inside, far = [[0, 0], [2, 1]], [[5, 5], [6, 6]]
    beside = [[2, 0], [3, 1]]  # boxes are half-open: nobody of the domain is in it
    assert outside_words([inside, [[0.5, 0.5], [0.5, 0.5]]], BOX) == ""
    assert outside_words(np.empty((0, 2, 2)), BOX) == ""
    assert outside_words([[[-np.inf, 0], [np.inf, np.inf]]], BOX) == "", "as far as the domain goes"
    assert "1 of 2 areas reaches outside the domain" in (words := outside_words([inside, far], BOX))
    assert "1 altogether (the count is 0). Check" in words
    words = outside_words([far, beside, [[0.5, 0], [3, 1]], [[-1, -1], [2, 3]], [[-1, -1], [np.inf, 3]]], BOX)
    assert "5 of 5 areas reach outside" in words
    assert "2 altogether (the count is 0), 3 in part (only the part inside is counted)" in words


def test_a_polygon_around_the_domain_that_holds_none_of_it_lies_outside() -> None:
    shapely = pytest.importorskip("shapely")
    around = shapely.box(-2, -2, 4, 4) - shapely.box(-1, -1, 3, 3)
    assert "1 altogether" in outside_words([around], BOX)
    assert "1 in part" in outside_words([around, shapely.box(1, 0, 3, 1), shapely.box(0, 0, 1, 1)], BOX)


STEP = 0.01
SQUARE = sl.Box((0.0, 0.0), (1.0, 1.0))


def rounded(size: int, rng: np.random.Generator) -> Floats:
    """A town, by two decimals."""
    return np.asarray(np.clip(np.round(rng.normal(0.4, 0.05, (size, 2)), 2), 0.0, 0.99))


@cache
def counted(trust: Any) -> tuple[Floats, Any]:
    rng = np.random.default_rng(11)
    points = rounded(4_000, rng)
    crowd: Any = {"k": 20, "delta": 0.05} if trust == "nobody" else {}
    return points, sl.counts(points, SQUARE, epsilon=2.0, trust=trust, rng=rng, **crowd)


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_where_the_rounding_is_known_the_error_is_smaller(trust: Any) -> None:
    """Planted bug: the step is not used. Then the errors would be the same."""
    points, result = counted(trust)
    lower = np.random.default_rng(12).uniform(0.2, 0.4, (200, 2))
    boxes = np.stack([lower, lower + 0.15], axis=1)
    truth = count_points(points, boxes)
    known, unknown = (np.sqrt(np.mean((result.query(boxes, rounding=step).value - truth) ** 2)) for step in (STEP, 0))
    assert known < 0.8 * unknown  # seeded: no chance in it


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
        Lattice.of(rounding, SQUARE)


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
    knows = sl.counts(rounded(4_000, rng), SQUARE, epsilon=2.0, trust=trust, rounding=STEP, rng=rng, **crowd)
    box = [[[0.301, 0.352], [0.441, 0.463]]]
    assert knows.query(box).value == result.query(box, rounding=STEP).value != result.query(box, rounding=0).value
    assert (knows.density((7, 7)) == result.density((7, 7), rounding=STEP)).all()
    assert np.allclose(knows.interval(), result.interval())


def test_a_job_refuses_a_step_before_it_counts() -> None:
    for domain, words in (({"box": SQUARE}, "at most a side"), ({"hierarchy": sl.SphereTree(10)}, "maps of boxes")):
        with pytest.raises(InvalidInput, match=words):
            sl.counts(np.zeros((9, 2)), epsilon=1.0, trust="curator", rounding=2.0, **domain)
