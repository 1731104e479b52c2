"""Polygons as people have them: shapely geometries, GeoSeries and GeoDataFrames, GeoJSON, H3 cells.

They are checked one by one and refused with their number; nothing is repaired. Knows coordinates and their reference
system. Knows no counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, MissingExtra, printable
from .box import Box
from .polygons import Polygons
from .units import check_crs, is_geographic, latitude_first

__all__ = ["as_polygons", "as_shapes", "h3_shapes", "has_shapes"]

Shapes = npt.NDArray[np.object_]  # shapely geometries
_LEAST_CELL = 1 << 59  # of H3, as an integer


def has_shapes(areas: Any) -> bool:
    """Whether something holds polygons or H3 cells, and not the corners of boxes."""
    if _is_shape(areas) or _is_frame(areas) or _is_cell(areas):
        return True
    if _is_series(areas):
        areas = np.asarray(areas)
    if isinstance(areas, np.ndarray) and areas.dtype.kind in "OUT":
        return areas.ndim <= 1
    return _is_many(areas) and (_is_shape(areas[0]) or _is_cell(areas[0]))


def as_polygons(areas: Any, box: Box) -> Polygons:
    """Polygons in the order of a domain's axes, or a refusal that names the first bad one.

    Parameters
    ----------
    areas : polygons
        Shapely geometries, alone or in a list or array; a GeoSeries or GeoDataFrame, whose CRS must fit the domain;
        GeoJSON (a geometry, Feature, FeatureCollection or a list of them); anything with ``__geo_interface__``; H3
        cells as strings or integers, also in a column of a frame. Coordinates are longitude and latitude, or x and
        y, in this order.
    box : Box
        The domain, with two dimensions. Parts of polygons outside of it hold nobody.
    """
    shapes = as_shapes(areas, box)
    if latitude_first(box):
        shapes = _shapely().transform(shapes, lambda points: points[:, ::-1])
    return Polygons(shapes)


def as_shapes(areas: Any, box: Box) -> Shapes:
    """The same as shapely geometries, checked: object[q]."""
    if _is_series(areas):
        areas = np.asarray(areas)
    if _is_cell(areas):
        areas = [areas]
    if _is_many(areas) and _is_cell(areas[0]):
        if not is_geographic(box):
            raise InvalidInput(
                f"H3 cells are on the Earth; the axes of the domain are {' and '.join(map(repr, box.names))}, not "
                "longitude and latitude in degrees; name them lon and lat if they are"
            )
        shapes = h3_shapes(areas)
    elif _is_frame(areas):
        check_crs(areas.crs, box, what="the polygons")
        shapes = np.asarray(areas.geometry.values if hasattr(areas, "geometry") else areas, dtype=object)
    elif _is_shape(areas):
        shapes = _shapes_of(areas)
    else:
        shapes = np.concatenate([np.empty(0, dtype=object), *(_shapes_of(area) for area in areas)])
    if not len(shapes):
        raise InvalidInput("there are no polygons; give at least one")
    _check(shapes)
    return shapes


def h3_shapes(cells: Iterable[str | int]) -> Shapes:
    """Outlines of H3 cells (texts or integers) in degrees, divided where they cross the date line: object[q]."""
    try:
        import h3
    except ImportError:
        raise MissingExtra("h3", "h3") from None
    out = []
    for row, raw in enumerate(cells):
        cell = h3.int_to_str(int(raw)) if isinstance(raw, int | np.integer) and 0 <= raw < 1 << 64 else raw
        if not isinstance(cell, str) or not h3.is_valid_cell(cell):
            raise InvalidInput(
                f"H3 cell {row} is {printable(repr(raw))}, which is not an H3 cell; correct or remove it"
            )
        poles = {h3.latlng_to_cell(latitude, 0.0, h3.get_resolution(cell)) for latitude in (-90.0, 90.0)}
        if cell in poles:
            raise InvalidInput(f"H3 cell {row} ({cell}) holds a pole and has no outline in degrees; leave it out")
        out.append(_in_degrees(np.array(h3.cell_to_boundary(cell))[:, ::-1]))
    return _objects(out)


# -- inside ------------------------------------------------------------------------------------------------------------


def _shapely() -> Any:
    try:
        import shapely
    except ImportError:
        raise MissingExtra("shapely", "maps") from None
    return shapely


def _is_frame(areas: Any) -> bool:
    """A GeoSeries, GeoDataFrame or GeometryArray: it has a CRS, perhaps None."""
    return hasattr(areas, "crs") and (hasattr(areas, "geometry") or hasattr(areas, "geom_type"))


def _is_shape(area: Any) -> bool:
    return hasattr(area, "geom_type") or hasattr(area, "__geo_interface__") or isinstance(area, Mapping)


def _is_series(areas: Any) -> bool:
    """One column of a frame: it has no CRS and can be an array."""
    return hasattr(areas, "to_numpy") and not _is_frame(areas)


def _is_many(areas: Any) -> bool:
    return isinstance(areas, list | tuple | np.ndarray) and getattr(areas, "shape", None) != () and len(areas) > 0


def _is_cell(area: Any) -> bool:
    """A text, or a number that is as large as all H3 cells are and as no coordinate is."""
    return isinstance(area, str) or (isinstance(area, int | np.integer) and int(area) >= _LEAST_CELL)


def _shapes_of(area: Any) -> Shapes:
    """The geometries of one thing: several for a FeatureCollection."""
    if hasattr(area, "geom_type"):
        return _objects([area])
    document = area if isinstance(area, Mapping) else getattr(area, "__geo_interface__", None)
    if not isinstance(document, Mapping):
        raise InvalidInput(
            f"a polygon must be a shapely geometry, a GeoJSON object or an H3 cell; got {type(area).__name__}"
        )
    if document.get("type") == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list | tuple):
            raise InvalidInput("a GeoJSON FeatureCollection needs a list of features; this one has none")
        return _objects([_geometry(feature, f"feature {number}: ") for number, feature in enumerate(features)])
    return _objects([_geometry(document)])


def _geometry(document: Any, where: str = "") -> Any:
    shapely = _shapely()
    if isinstance(document, Mapping) and document.get("type") == "Feature":
        document = document.get("geometry")
    if not isinstance(document, Mapping) or document.get("type") not in ("Polygon", "MultiPolygon"):
        kind = document.get("type") if isinstance(document, Mapping) else document
        raise InvalidInput(f"{where}a geometry must be a Polygon or MultiPolygon; got {printable(repr(kind))}")
    try:
        return shapely.from_geojson(json.dumps(dict(document)))
    except (TypeError, ValueError, RecursionError, shapely.errors.GEOSException) as error:
        why = printable(str(error))
        raise InvalidInput(
            f"{where}a {document['type']} has coordinates that are not rings of numbers ({why})"
        ) from None


def _objects(shapes: list[Any]) -> Shapes:
    out = np.empty(len(shapes), dtype=object)
    out[:] = shapes
    return out


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


def _in_degrees(corners: Floats) -> Any:
    """A polygon from corners float64[n, 2], divided at the date line if it crosses it."""
    shapely = _shapely()
    if np.ptp(corners[:, 0]) <= 180.0:
        return shapely.Polygon(corners)
    whole = shapely.Polygon(np.column_stack([corners[:, 0] % 360.0, corners[:, 1]]))
    west = shapely.intersection(whole, shapely.box(0.0, -90.0, 180.0, 90.0))
    east = shapely.intersection(whole, shapely.box(180.0, -90.0, 360.0, 90.0))
    return shapely.MultiPolygon([west, shapely.transform(east, lambda points: points - [360.0, 0.0])])
