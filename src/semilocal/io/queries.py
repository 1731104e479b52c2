"""Boxes to count in: from a CSV file, from GeoJSON rectangles, or an even grid.

Knows the formats. What a query is called, and all its other columns or properties, is kept for the answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arrays import Floats, short_repr
from ..errors import InvalidInput
from ..geometry.box import Box
from .files import read_text
from .points import read_points
from .sources import open_source

__all__ = ["CORNERS", "MOST_CELLS", "Queries", "corner_names", "grid_queries", "read_queries"]

CORNERS = ("x0", "y0", "x1", "y1")
MOST_CELLS = 10_000_000


@dataclass(frozen=True, eq=False)
class Queries:
    """Boxes and what the file says about them.

    Attributes
    ----------
    boxes : float64[q, 2, d]
        Lower and upper corners.
    properties : mapping of str to list
        One entry per query: other columns of the CSV file, or properties of the features.
    """

    boxes: Floats
    properties: Mapping[str, list[Any]] = field(default_factory=lambda: MappingProxyType({}))

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.boxes)

    def outside(self, box: Box) -> tuple[int, int]:
        """How many boxes reach outside the domain in part, and how many lie outside altogether."""
        low, high = self.boxes[:, 0], self.boxes[:, 1]
        apart = ((high < box.lower) | (low > box.upper)).any(axis=1)
        reaching = ((low < box.lower) | (high > box.upper)).any(axis=1) & ~apart
        return int(np.count_nonzero(reaching)), int(np.count_nonzero(apart))


def corner_names(box: Box) -> list[str]:
    """Columns of the corners: x0, y0, x1, y1 in two dimensions, else NAME_lower and NAME_upper."""
    if box.dimensions == 2:
        return list(CORNERS)
    return [f"{name}_{end}" for end in ("lower", "upper") for name in box.names]


def read_queries(path: Path, box: Box) -> Queries:
    """Read boxes out of a CSV file or GeoJSON rectangles."""
    if path.suffix.lower() in (".geojson", ".json"):
        return _rectangles(path, box)
    wanted = [f"{name}_{end}" for end in ("lower", "upper") for name in box.names]
    try:
        table = read_points(path, columns=wanted)
    except InvalidInput as error:
        if box.dimensions != 2 or "has no column" not in str(error):
            raise
        table = read_points(path, columns=CORNERS)
    boxes = table.points.reshape(len(table), 2, -1)
    turned = (boxes[:, 0] > boxes[:, 1]).any(axis=1)
    if turned.any():
        row = int(np.argmax(turned))
        raise InvalidInput(f"{path}, {table.place(row)}: the lower corner is above the upper one; swap them")
    source = open_source(path)
    others = [name for name in source.columns if name not in table.names]
    return Queries(boxes, dict(zip(others, source.texts(others), strict=True)))


def _rectangles(path: Path, box: Box) -> Queries:
    if box.dimensions != 2:
        raise InvalidInput(f"{path}: GeoJSON has two dimensions, the domain has {box.dimensions}; use CSV")
    try:
        features = json.loads(read_text(path))["features"]
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}, line {error.lineno}: is no JSON ({error.msg}); fix the file") from None
    except (KeyError, TypeError):
        raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of rectangles") from None
    if not isinstance(features, list):
        raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of rectangles")
    found, properties = [], []
    for number, feature in enumerate(features):
        try:
            (ring,) = feature["geometry"]["coordinates"]
            corners = np.array(ring, dtype=np.float64)
            low, high = corners.min(axis=0), corners.max(axis=0)
            upright = corners.shape == (5, 2) and bool(((corners == low) | (corners == high)).all())
            upright = upright and bool(np.isfinite(corners).all())
            named = dict(feature.get("properties") or {})
        except (KeyError, TypeError, ValueError):
            upright = False
        if not upright:
            raise InvalidInput(f"{path}, feature {number}: must be a rectangle along the axes, with five points")
        found.append((low, high))
        if "id" in feature:
            named.setdefault("id", feature["id"])
        properties.append(named)
    if not found:
        raise InvalidInput(f"{path}: has no features; there must be at least one rectangle")
    names = list(dict.fromkeys(name for named in properties for name in named))
    return Queries(np.array(found), {name: [named.get(name) for named in properties] for name in names})


def grid_queries(text: str, box: Box) -> Queries:
    """All cells of an even grid such as ``32x32``, the last axis fastest."""
    parts = text.lower().split("x")
    if len(parts) != box.dimensions or not all(part.isdigit() and int(part) for part in parts):
        shape = "x".join(["32"] * box.dimensions)
        raise InvalidInput(f"--grid must be {box.dimensions} positive whole numbers such as {shape}; got {text!r}")
    cells = 1
    for part in parts:
        cells *= int(part)
    if cells > MOST_CELLS:
        raise InvalidInput(f"--grid {text} has {cells:,} cells; at most {MOST_CELLS:,} are answered at once")
    return Queries(box.grid([int(part) for part in parts]))
