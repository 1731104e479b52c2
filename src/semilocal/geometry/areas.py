"""What is asked about: boxes or polygons, as people have them, and as a walk down a tree sees them from cells.

Boxes are corners, names of places or bounds. Polygons are shapely geometries, GeoSeries and GeoDataFrames, or GeoJSON;
they are checked one by one and refused with their number, and nothing is repaired. Shapely cuts them.

Knows shapes and the domain. Knows no counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, as_boxes, is_number, short_repr, shown
from ..errors import InvalidInput, optional, printable
from ..words import number_of
from .box import Box
from .places import as_box
from .units import check_crs, is_geographic, latitude_first

_BOXES_AT_ONCE = 1 << 10  # working arrays stay in the processor's cache
_POINTS_AT_ONCE = 1 << 15  # corners of polygons
_LARGE = 256  # corners: such polygons are cut on the way down
_WHOLE = 1.0 - 1e-12  # of a rectangle's area; the rest is rounding
ON_A_LINE = 1e-6  # steps; a side so close to a line is on it: 0.01 is not a float
BETWEEN = 1e-6  # lines that the room of a step counts for beside its own, so that no cell is flat
_MOST_LINES = 1e10  # that are told apart: far more than any file has
Shapes: TypeAlias = npt.NDArray[np.object_]  # shapely geometries


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes along the axes: lower and upper ``corners``, float64[m, 2, d]; sides may be infinite."""

    corners: Floats

    def __len__(self) -> int:
        return len(self.corners)

    def batches(self) -> Iterator[Integers]:
        """Numbers of all boxes, by their first side: neighbours open the same cells, which stay in the cache."""
        nearby = np.argsort(self.corners[:, 0, 0])
        yield from (nearby[start : start + _BOXES_AT_ONCE] for start in range(0, len(nearby), _BOXES_AT_ONCE))

    def take(self, rows: Integers) -> Boxes:
        """Some of them."""
        return Boxes(self.corners.take(rows, axis=0))

    def within(self, boxes: Floats) -> tuple[Boxes, Flags, Flags]:
        """The boxes themselves; whether they meet one box each, and hold all of it."""
        meets, holds = np.ones((2, len(self)), dtype=bool)
        for lower, upper, start, stop in self._sides(boxes):
            meets &= lower < stop
            meets &= upper > start
            holds &= lower <= start
            holds &= upper >= stop
        return self, meets, holds

    def lines_in(self, boxes: Floats) -> tuple[Integers, Integers, Floats, Flags]:
        """Of those that meet one box each, with one side inside it: which, its axis, its place, and if it is lower."""
        inside, axes = self.corners > boxes, boxes.shape[2]
        inside[:, 1] = self.corners[:, 1] < boxes[:, 1]
        sides, places = inside.view(np.int8).reshape(-1, 2 * axes), self.corners.reshape(-1, 2 * axes)
        one = np.flatnonzero(sum(sides.T) == 1)  # column by column: rows are short
        side = sides[one] @ np.arange(2 * axes)
        return one, side % axes, places[one, side], side < axes

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each that is covered."""
        share = np.ones(len(self))
        for lower, upper, start, stop in self._sides(boxes):
            side = np.minimum(upper, stop)
            side -= np.maximum(lower, start)
            np.maximum(side, 0.0, out=side)
            share *= np.divide(side, stop - start, out=side)
        return share

    def _sides(self, boxes: Floats) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Along each axis: where these and other boxes begin and end."""
        for axis in range(boxes.shape[2]):
            yield self.corners[:, 0, axis], self.corners[:, 1, axis], boxes[:, 0, axis], boxes[:, 1, axis]


@dataclass(frozen=True, eq=False)
class Polygons:
    """Valid shapely (multi)polygons in the order of the domain's axes, object[q]; :func:`as_polygons` makes them.

    Examples
    --------
    >>> import shapely
    >>> one = Polygons(np.array([shapely.box(0, 0, 2, 2)]))
    >>> one.covered(np.array([[[1.0, 0.0], [5.0, 1.0]]])).tolist()
    [0.25]
    """

    shapes: Shapes

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def bounds(self) -> Floats:
        """Lower and upper corners of the boxes around them, NaN where there is nothing: float64[q, 2, 2]."""
        return np.asarray(_shapely().bounds(self.shapes).reshape(-1, 2, 2))

    def batches(self) -> Iterator[Integers]:
        """The numbers of all polygons, in groups of bounded size and near each other."""
        shapely, order = _shapely(), np.argsort(self.bounds[:, 0, 0])
        group = np.cumsum(shapely.get_num_coordinates(self.shapes[order])) // _POINTS_AT_ONCE
        yield from np.split(order, np.flatnonzero(np.diff(group)) + 1)

    def take(self, rows: Integers) -> Polygons:
        """Some of the polygons, in the order of ``rows`` int64[m]; one may be taken several times."""
        return Polygons(self.shapes[rows])

    def within(self, boxes: Floats) -> tuple[Polygons, Flags, Flags]:
        """What is left of them in one box each, float64[q, 2, 2]; whether they meet it, and whether they hold it."""
        shapely, rectangles = _shapely(), _rectangles(boxes)
        shapely.prepare(self.shapes)
        meets = shapely.intersects(self.shapes, rectangles)
        meets[meets] = ~shapely.touches(self.shapes[meets], rectangles[meets])
        holds = meets.copy()
        holds[meets] = shapely.covers(self.shapes[meets], rectangles[meets])
        large = meets & ~holds & (shapely.get_num_coordinates(self.shapes) > _LARGE)
        out = self.shapes.copy()
        out[large] = shapely.intersection(out[large], rectangles[large])
        return Polygons(out), meets, holds

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[q, 2, 2], that the polygons cover: float64[q]."""
        (lower, upper), (begin, end) = self.bounds.transpose(1, 0, 2), boxes.transpose(1, 0, 2)
        shapely, near = _shapely(), np.flatnonzero(((lower < end) & (upper > begin)).all(axis=1))
        out = np.zeros(len(boxes))
        parts = shapely.intersection(self.shapes[near], _rectangles(boxes[near]))
        out[near] = shapely.area(parts) / np.prod(end[near] - begin[near], axis=1)
        return np.where(out >= _WHOLE, 1.0, out)

    def contain(self, places: Floats) -> Flags:
        """Whether the first polygon holds places float64[n, 2]: bool[n]."""
        _shapely().prepare(self.shapes[:1])
        return np.asarray(_shapely().contains_xy(self.shapes[0], places), dtype=bool)


def _rectangles(boxes: Floats) -> npt.NDArray[Any]:
    return np.asarray(_shapely().box(*boxes.reshape(-1, 4).T))


Areas: TypeAlias = Boxes | Polygons  # m of them, each seen from one cell
Asked: TypeAlias = Floats | Polygons  # float64[q, 2, d], or polygons in the plane


def as_areas(areas: Any, box: Box) -> Asked:
    """Boxes float64[q, 2, d] or polygons in the order of the domain's axes, or a refusal.

    ``areas`` are numbers of that shape, names of places, boxes or their 2d numbers, also mixed (see
    :func:`semilocal.geometry.places.as_box`), or polygons (see :func:`as_polygons`).
    """
    if isinstance(areas, str | Box):
        areas = [areas]
    if isinstance(areas, Polygons) or has_shapes(areas):
        if box.dimensions != 2:
            raise InvalidInput(f"polygons need two dimensions; the domain has {box.dimensions}; ask about boxes")
        return areas if isinstance(areas, Polygons) else as_polygons(areas, box)
    d = box.dimensions
    bounds = [areas] if _are_bounds(areas, d) else areas
    if isinstance(bounds, list | tuple) or (isinstance(bounds, np.ndarray) and bounds.ndim == 2):
        areas = [_corners(each, box) for each in bounds]
    return as_boxes(areas, dimensions=d, infinite=True)


def _are_bounds(given: Any, d: int) -> bool:
    """Whether this is the 2d numbers of one box, lower corner first."""
    if isinstance(given, np.ndarray):
        return bool(given.shape == (2 * d,))
    if not isinstance(given, list | tuple) or len(given) != 2 * d:
        return False
    return not any(isinstance(each, list | tuple | np.ndarray | str | Box) for each in given)


def area_names(areas: Any) -> tuple[str, ...]:
    """What areas are called that are asked about by name, or by bounds as text; empty for others, none if all are."""
    texts = [areas] if isinstance(areas, str) else areas if isinstance(areas, list | tuple) else []
    names = tuple(text if isinstance(text, str) else "" for text in texts)
    return names if any(names) else ()


def _corners(area: Any, box: Box) -> Any:
    """The corners float64[2, d] of a place, of bounds as text or numbers, or of a box; anything else as it is."""
    if isinstance(area, Box):
        return area.lower, area.upper
    if not isinstance(area, str):
        return (area[: box.dimensions], area[box.dimensions :]) if _are_bounds(area, box.dimensions) else area
    name, found = area, as_box(area)
    if "," not in name and not is_geographic(box):
        raise InvalidInput(
            f"{name!r} is in degrees, and the axes of the domain are {' and '.join(map(repr, box.names))}; call them "
            "longitude and latitude if they are degrees, or ask about corners"
        )
    corners = np.array([found.lower, found.upper])
    return corners[:, ::-1] if "," not in name and latitude_first(box) else corners


def outside_words(areas: Any, box: Box) -> str:
    """What to know about areas that reach outside the domain, and what to do; empty if none does.

    An infinite side means as far as the domain goes. Parameters are those of :func:`as_areas`.
    """
    asked = as_areas(areas, box)
    corners = asked.bounds if isinstance(asked, Polygons) else asked
    beyond = np.isfinite(corners) & ((corners < box.lower) | (corners > box.upper))
    reaching = np.flatnonzero(beyond.any(axis=(1, 2)))
    if not len(reaching):
        return ""
    some = (asked if isinstance(asked, Polygons) else Boxes(asked)).take(reaching)
    domain = np.broadcast_to([box.lower, box.upper], (len(reaching), 2, box.dimensions))
    parts = int(np.count_nonzero(some.within(domain)[1]))
    apart = len(reaching) - parts
    found = [f"{apart:,} altogether (the count is 0)"] * (apart > 0)
    found += [f"{parts:,} in part (only the part inside is counted)"] * (parts > 0)
    verb = "reaches" if len(reaching) == 1 else "reach"
    return (
        f"{len(reaching):,} of {number_of(len(asked), 'area')} {verb} outside the domain {box}, where nobody was "
        f"asked: {', '.join(found)}. Check their units and the order of their axes, cut them to the domain, or "
        "leave them out"
    )


# -- polygons as people have them --------------------------------------------------------------------------------------


def has_shapes(areas: Any) -> bool:
    """Whether something holds polygons, and not the corners of boxes."""
    if isinstance(areas, np.ndarray):
        return areas.dtype == object and areas.ndim <= 1
    return _is_shape(areas) or _is_frame(areas) or (isinstance(areas, list | tuple) and any(map(_is_shape, areas[:1])))


def as_polygons(areas: Any, box: Box) -> Polygons:
    """Polygons in the order of a domain's axes, or a refusal that names the first bad one.

    They are shapely geometries, alone or in a list or array; a GeoSeries or GeoDataFrame, whose CRS must fit the
    domain; GeoJSON (a geometry, Feature, FeatureCollection or a list of them); anything with ``__geo_interface__``.
    Coordinates are longitude and latitude, or x and y, in this order. Parts outside the domain hold nobody.
    """
    shapes = as_shapes(areas, box)
    if latitude_first(box):
        shapes = _shapely().transform(shapes, lambda points: points[:, ::-1])
    return Polygons(shapes)


def as_shapes(areas: Any, box: Box) -> Shapes:
    """The same as shapely geometries, checked: object[q]."""
    if _is_frame(areas):
        check_crs(areas.crs, box, what="the polygons")
        shapes = np.asarray(areas.geometry.values if hasattr(areas, "geometry") else areas, dtype=object)
    else:
        every = [shape for area in ([areas] if _is_shape(areas) else areas) for shape in _shapes_of(area)]
        shapes = np.empty(len(every), dtype=object)
        shapes[:] = every
    if not len(shapes):
        raise InvalidInput("there are no polygons; give at least one")
    _check(shapes)
    return shapes


# -- inside ------------------------------------------------------------------------------------------------------------


def _shapely() -> Any:
    return optional("shapely", "maps")


def _is_frame(areas: Any) -> bool:
    """A GeoSeries, GeoDataFrame or GeometryArray: it has a CRS, perhaps None."""
    return hasattr(areas, "crs") and (hasattr(areas, "geometry") or hasattr(areas, "geom_type"))


def _is_shape(area: Any) -> bool:
    return hasattr(area, "geom_type") or hasattr(area, "__geo_interface__") or isinstance(area, Mapping)


def _shapes_of(area: Any) -> list[Any]:
    """The geometries of one thing: several for a FeatureCollection."""
    if hasattr(area, "geom_type"):
        return [area]
    document = area if isinstance(area, Mapping) else getattr(area, "__geo_interface__", None)
    if not isinstance(document, Mapping):
        raise InvalidInput(f"a polygon must be a shapely geometry or a GeoJSON object; got {type(area).__name__}")
    if document.get("type") != "FeatureCollection":
        return [_geometry(document)]
    features = document.get("features")
    if not isinstance(features, list | tuple):
        raise InvalidInput("a GeoJSON FeatureCollection needs a list of features; this one has none")
    return [_geometry(feature, f"feature {number}: ") for number, feature in enumerate(features)]


def _geometry(document: Any, where: str = "") -> Any:
    shapely = _shapely()
    if isinstance(document, Mapping) and document.get("type") == "Feature":
        document = document.get("geometry")
    kind = document.get("type") if isinstance(document, Mapping) else document
    if not isinstance(document, Mapping) or kind not in ("Polygon", "MultiPolygon"):
        raise InvalidInput(f"{where}a geometry must be a Polygon or MultiPolygon; got {printable(repr(kind))}")
    try:
        return shapely.from_geojson(json.dumps(dict(document)))
    except (TypeError, ValueError, RecursionError, shapely.errors.GEOSException) as error:
        why = printable(str(error))
        raise InvalidInput(f"{where}a {kind} has coordinates that are not rings of numbers ({why})") from None


def _check(shapes: Shapes) -> None:
    """Refuse the first that is not a valid polygon, with its number."""
    shapely = _shapely()
    kinds = shapely.get_type_id(shapes)
    for row in np.flatnonzero((kinds != 3) & (kinds != 6)).tolist():
        kind = getattr(shapes[row], "geom_type", None)
        what = "missing" if shapes[row] is None else f"a {kind}" if kind else printable(repr(shapes[row]))
        raise InvalidInput(f"polygon {row} is {what}; every area must be a Polygon or MultiPolygon")
    for row in np.flatnonzero(shapely.is_empty(shapes)).tolist():
        raise InvalidInput(f"polygon {row} is empty; remove it")
    for row in np.flatnonzero(~shapely.is_valid(shapes)).tolist():
        reason, _, place = shapely.is_valid_reason(shapes[row]).rstrip("]").partition("[")
        raise InvalidInput(f"polygon {row} is invalid, near {place}: {reason}; repair it with shapely.make_valid")


# -- positions that were rounded ---------------------------------------------------------------------------------------


class Lattice(NamedTuple):
    """Lines at the multiples of a step along each axis; no steps at all if positions are not rounded.

    Coordinates that were rounded all lie on these lines. Where cells are about as small as the step, a cell has one
    line or two, and what a side of a box takes of it is a matter of lines, not of lengths: by lengths all cells along
    the side would err alike. So boxes are measured by how many lines lie before their sides, and people lie evenly
    again. The step is a public fact about the data. Polygons are measured by area, whatever the step.
    """

    steps: tuple[float, ...] = ()

    @staticmethod
    def of(rounding: Any, box: Box) -> Lattice:
        """From one step for all axes or one for each; none if it is 0 or left out."""
        if rounding is None or (is_number(rounding) and rounding == 0):
            return NOT_ROUNDED
        steps = tuple(rounding) if hasattr(rounding, "__iter__") else (rounding,) * box.dimensions
        if len(steps) != box.dimensions or not all(
            is_number(step) and max(abs(low), abs(high)) / _MOST_LINES <= step <= high - low
            for step, low, high in zip(steps, box.lower, box.upper, strict=True)
        ):
            raise InvalidInput(
                f"rounding must be the step that coordinates are multiples of, at most a side of the domain and not "
                f"below {1 / _MOST_LINES:.0e} of its coordinates, or one per axis ({box.dimensions}); 0 for none; "
                f"got {shown(rounding)}"
            )
        return Lattice(tuple(float(step) for step in steps))

    def measure(self, corners: Floats) -> Floats:
        """How many lines lie before each coordinate, and a trifle for the room between them: float64[..., d]."""
        if not self.steps:
            return corners
        steps = corners / np.array(self.steps)
        return np.asarray(np.ceil(steps - ON_A_LINE) + BETWEEN * steps)


NOT_ROUNDED = Lattice()
