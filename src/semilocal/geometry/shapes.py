"""Polygons as people have them: shapely geometries, GeoSeries and GeoDataFrames, GeoJSON.

They are checked one by one and refused with their number; nothing is repaired. Knows coordinates and their reference
system. Knows no counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, MissingExtra, printable
from .box import Box
from .polygons import Polygons
from .units import check_crs, latitude_first

__all__ = ["as_polygons", "as_shapes", "has_shapes"]

Shapes = npt.NDArray[np.object_]  # shapely geometries


def has_shapes(areas: Any) -> bool:
    """Whether something holds polygons, and not the corners of boxes."""
    if isinstance(areas, np.ndarray):
        return areas.dtype == object and areas.ndim <= 1
    return _is_shape(areas) or _is_frame(areas) or (isinstance(areas, list | tuple) and any(map(_is_shape, areas[:1])))


def as_polygons(areas: Any, box: Box) -> Polygons:
    """Polygons in the order of a domain's axes, or a refusal that names the first bad one.

    Parameters
    ----------
    areas : polygons
        Shapely geometries, alone or in a list or array; a GeoSeries or GeoDataFrame, whose CRS must fit the domain;
        GeoJSON (a geometry, Feature, FeatureCollection or a list of them); anything with ``__geo_interface__``.
        Coordinates are longitude and latitude, or x and y, in this order.
    box : Box
        The domain, with two dimensions. Parts of polygons outside of it hold nobody.
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
        several = [areas] if _is_shape(areas) else areas
        shapes = np.concatenate([np.empty(0, dtype=object), *map(_shapes_of, several)])
    if not len(shapes):
        raise InvalidInput("there are no polygons; give at least one")
    _check(shapes)
    return shapes


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


def _shapes_of(area: Any) -> Shapes:
    """The geometries of one thing: several for a FeatureCollection."""
    if hasattr(area, "geom_type"):
        return _objects([area])
    document = area if isinstance(area, Mapping) else getattr(area, "__geo_interface__", None)
    if not isinstance(document, Mapping):
        raise InvalidInput(f"a polygon must be a shapely geometry or a GeoJSON object; got {type(area).__name__}")
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
