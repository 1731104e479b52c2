"""Coastlines behind maps: the ones that ship, or those of a GeoJSON file.

The shipped ones are Natural Earth's at 1:50 million, as TopoJSON. Knows two formats. Knows no participants.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.earth import is_map
from .files import read_text

__all__ = ["Lines", "coast", "inside", "lines_json", "read_basemap"]

Lines = list[Floats]  # each float64[n, 2]


@lru_cache(maxsize=1)
def _world() -> tuple[Floats, ...]:
    packed = files("semilocal").joinpath("data", "land-50m.json.gz").read_bytes()
    topology = json.loads(gzip.decompress(packed))
    scale, offset = (np.asarray(topology["transform"][name]) for name in ("scale", "translate"))
    return tuple(np.cumsum(arc, axis=0) * scale + offset for arc in topology["arcs"])


def coast(box: Box, basemap: Path | None = None) -> Lines:
    """Lines inside a domain, one array float64[n, 2] per piece; none if its axes are not degrees and no file is given.

    Parameters
    ----------
    box : Box
    basemap : Path, optional
        A GeoJSON file whose lines and outlines are taken instead of the coast.
    """
    if basemap is not None:
        return inside(read_basemap(basemap), box)
    if not is_map(box):
        return []
    return list(_coast(box))


@lru_cache(maxsize=16)
def _coast(box: Box) -> tuple[Floats, ...]:
    return tuple(inside(_world(), box))


def inside(lines: Iterable[Floats], box: Box) -> Lines:
    """The pieces of lines that a map of a domain shows; none unless it has two dimensions."""
    return [piece for line in lines for piece in _pieces(line, box)] if box.dimensions == 2 else []


def _pieces(line: Floats, box: Box) -> Lines:
    """The pieces of a line whose segments touch the box, with the first point outside at either end."""
    low, high = np.minimum(line[:-1], line[1:]), np.maximum(line[:-1], line[1:])
    near = ((high >= box.lower) & (low <= box.upper)).all(axis=1)
    if is_map(box):
        near &= np.abs(line[1:, 0] - line[:-1, 0]) < 180  # not across the date line
    edges = np.flatnonzero(np.diff(np.concatenate([[False], near, [False]])))
    return [line[start : stop + 1] for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def read_basemap(path: Path) -> Lines:
    """Lines and outlines of a GeoJSON file."""
    try:
        found: Lines = []
        _collect(json.loads(read_text(path)), found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path}: is not GeoJSON with lines or polygons ({error})") from None
    if not found:
        raise InvalidInput(f"{path}: holds no lines and no polygons; a base map is made of them")
    if not all(np.isfinite(line).all() for line in found):
        raise InvalidInput(f"{path}: has coordinates that are not finite numbers; write them as plain decimals")
    return found


def _collect(node: dict[str, Any], found: Lines) -> None:
    kind = node["type"]
    if kind == "FeatureCollection":
        for feature in node["features"]:
            _collect(feature, found)
    elif kind == "Feature":
        if node["geometry"] is not None:
            _collect(node["geometry"], found)
    elif kind == "GeometryCollection":
        for part in node["geometries"]:
            _collect(part, found)
    else:
        depth = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}.get(kind)
        if depth is not None:
            _lines(node["coordinates"], depth, found)


def _lines(coordinates: list[Any], depth: int, found: Lines) -> None:
    if depth:
        for part in coordinates:
            _lines(part, depth - 1, found)
    else:
        found.append(np.array([point[:2] for point in coordinates], dtype=np.float64).reshape(-1, 2))


def lines_json(lines: Lines, box: Box) -> list[list[float]]:
    """Lines as flat lists x, y, x, y, …, rounded to what a map of the domain can show."""
    width = max(high - low for low, high in zip(box.lower, box.upper, strict=True))
    digits = max(0, 5 - int(np.floor(np.log10(width))))
    return [np.round(line, digits).ravel().tolist() for line in lines]
