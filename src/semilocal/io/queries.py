"""Areas to count in: boxes or polygons from a file, or an even grid.

Knows the formats. What a query is called, and all its other columns or properties, is kept for the answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, short_repr
from ..engines.files import TableFile, open_file
from ..errors import InvalidInput
from ..geometry.areas import Polygons, as_shapes
from ..geometry.box import Box
from ..geometry.units import latitude_first
from ..hierarchy import AnyTree, TableTree
from .basemap import Lines
from .files import read_text
from .points import read_points
from .regions import box_geometries, ring

CORNERS = ("x0", "y0", "x1", "y1")
MOST_CELLS = 10_000_000


@dataclass(frozen=True, eq=False)
class Queries:
    """Areas and what the file says about them."""

    boxes: Floats  # float64[q, 2, d], lower and upper corners; for polygons, of the smallest box around each
    # One entry per query: other columns of the file, or properties of the features
    properties: Properties = field(default_factory=lambda: MappingProxyType({}))
    shapes: npt.NDArray[np.object_] | None = None  # object[q], shapely geometries, checked; None for boxes
    named: bool = False  # the areas are labels of a table: their bounds say nothing to people

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def areas(self) -> Any:
        """What to ask a release about: ``counts.query(queries.areas)``."""
        return self.boxes if self.shapes is None else self.shapes

    def geometries(self, box: Box) -> list[dict[str, Any]]:
        """The areas as GeoJSON geometries (two dimensions only)."""
        if self.shapes is None:
            return box_geometries(_in_axes(self.boxes, box))
        return [shape.__geo_interface__ for shape in self.shapes]


class Asked(NamedTuple):
    """A question on a map with its answer: its name, rings around it, the number, its error and its interval."""

    name: str
    rings: Lines
    value: float
    stderr: float
    low: float
    high: float


def asked_on_map(queries: Queries, columns: Mapping[str, Sequence[Any]]) -> list[Asked]:
    """Questions with the columns of their answers (two dimensions only): named by their first property of text."""
    numbers = zip(*(columns[name] for name in ("count", "stderr", "low", "high")), strict=True)
    words = next((column for column in queries.properties.values() if isinstance(next(iter(column), 0), str)), None)
    names = [f"area {place + 1}" for place in range(len(queries))] if words is None else words
    if queries.shapes is None:
        shapes = [[np.array(ring(corners))] for corners in queries.boxes]
    else:
        shapes = [_rings(shape) for shape in queries.shapes]
    return [Asked(str(name), rings, *each) for name, rings, each in zip(names, shapes, numbers, strict=True)]


def _rings(shape: Any) -> Lines:
    """The rings of a polygon or of several."""
    parts = getattr(shape, "geoms", [shape])
    return [np.asarray(line.coords)[:, :2] for part in parts for line in (part.exterior, *part.interiors)]


def corner_names(box: Box) -> list[str]:
    """Columns of the corners: x0, y0, x1, y1 in two dimensions, else NAME_lower and NAME_upper."""
    if box.dimensions == 2:
        return list(CORNERS)
    return [f"{name}_{end}" for end in ("lower", "upper") for name in box.names]


def label_queries(tree: TableTree) -> Queries:
    """Every label of a table, from the root down."""
    labels = tree.all_labels
    return Queries(tree.boxes(tree.cells_of(labels)), {"label": labels}, named=True)


def read_queries(path: Path, box: Box, tree: AnyTree | None = None) -> Queries:
    """Read areas out of a file.

    Boxes: CSV or Parquet with two columns per axis (see :func:`corner_names`), or GeoJSON rectangles. Polygons, in two
    dimensions: GeoJSON. Labels of a table: a column called ``label``, or as the table. All other columns or properties
    come back with the answers. What is wrong is refused with the file and the line or feature.
    """
    kind = path.suffix.lower()
    if not path.is_file():
        raise InvalidInput(f"{path}: {'is a folder, not a file' if path.is_dir() else 'No such file'}; check the path")
    if kind in (".geojson", ".json"):
        return _from_geojson(path, box)
    source = open_file(path)
    if isinstance(tree, TableTree) and tree.leaves:
        named = [name for name in source.columns if name.lower() in ("label", tree.name.lower())]
        if named:
            return _from_labels(source, named[0], tree)
    wanted = [f"{name}_{end}" for end in ("lower", "upper") for name in box.names]
    there = [name.lower() for name in source.columns]
    if box.dimensions == 2 and not all(name.lower() in there for name in wanted):
        if missing := [name for name in CORNERS if name not in there]:
            raise InvalidInput(
                f"{path}: has no column {missing[0]!r}, and no other areas. Areas are boxes (columns "
                f"{', '.join(CORNERS)}, or {', '.join(wanted)}), or polygons (.geojson)"
            )
        wanted = list(CORNERS)
    table = read_points(path, columns=wanted, row_is="query")
    boxes = table.points.reshape(len(table), 2, -1)
    turned = (boxes[:, 0] > boxes[:, 1]).any(axis=1)
    if turned.any():
        row = int(np.argmax(turned))
        raise InvalidInput(f"{path}, {table.place(row)}: the lower corner is above the upper one; swap them")
    others = [name for name in source.columns if name not in table.names]
    return Queries(boxes, dict(zip(others, source.texts(others), strict=True)))


def _from_labels(source: TableFile, column: str, tree: TableTree) -> Queries:
    texts = dict(zip(source.columns, source.texts(source.columns), strict=True))
    if not texts[column]:
        raise InvalidInput(f"{source.path}: has no {source.row_word}s; there must be at least one query")
    labels, all_labels = [str(text).strip() for text in texts[column]], set(tree.all_labels)
    for row, label in enumerate(labels):
        if label not in all_labels:
            source.refuse(row, f"{label!r} is not a label of {tree.name!r}", "correct it, or remove the line")
    return Queries(tree.boxes(tree.cells_of(labels)), texts, named=True)


def _from_geojson(path: Path, box: Box) -> Queries:
    if box.dimensions != 2:
        raise InvalidInput(f"{path}: polygons have two dimensions, the domain has {box.dimensions}; use CSV with boxes")
    features = features_of(path)
    properties = []
    for number, feature in enumerate(features):
        raw = feature.get("properties")
        if raw is not None and not isinstance(raw, dict):
            raise InvalidInput(f"{path}, feature {number}: the properties must be names with values, or null")
        named = dict(raw or {})
        if "id" in feature:
            named.setdefault("id", feature["id"])
        properties.append(named)
    names = list(dict.fromkeys(name for named in properties for name in named))
    columns = {name: [named.get(name) for named in properties] for name in names}
    rectangles = [_rectangle(feature.get("geometry")) for feature in features]
    found = [corners for corners in rectangles if corners is not None]
    if len(found) == len(rectangles):
        return Queries(_in_axes(np.array(found), box), columns)
    try:
        shapes = as_shapes({"type": "FeatureCollection", "features": features}, box)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    return Queries(_in_axes(Polygons(shapes).bounds, box), columns, shapes)


def _rectangle(geometry: Any) -> tuple[Floats, Floats] | None:
    """Two corners, if a geometry is a rectangle along the axes: boxes need no other packages."""
    try:
        (ring,) = geometry["coordinates"]
        corners = np.array(ring, dtype=np.float64)
        if geometry["type"] != "Polygon" or corners.shape != (5, 2) or not np.isfinite(corners).all():
            return None
    except (KeyError, TypeError, ValueError):
        return None
    low, high = corners.min(axis=0), corners.max(axis=0)
    steps = np.abs(np.diff(corners, axis=0))
    upright = bool(((corners == low) | (corners == high)).all()) and bool((np.count_nonzero(steps, axis=1) == 1).all())
    return (low, high) if upright and np.array_equal(corners[0], corners[-1]) and (low < high).all() else None


def _in_axes(boxes: Floats, box: Box) -> Floats:
    """Boxes float64[q, 2, 2] with the axes of GeoJSON, turned to those of the domain; and back."""
    return boxes[:, :, ::-1] if latitude_first(box) else boxes


def grid_queries(text: str, box: Box) -> Queries:
    """All cells of an even grid such as ``32x32``, the last axis fastest."""
    parts = text.lower().split("x")
    if len(parts) != box.dimensions or not all(part.isdigit() and int(part) for part in parts):
        shape = "x".join(["32"] * box.dimensions)
        raise InvalidInput(f"--grid must be {box.dimensions} positive whole numbers such as {shape}; got {text!r}")
    numbers = [int(part) for part in parts]
    if (cells := math.prod(numbers)) > MOST_CELLS:
        raise InvalidInput(f"--grid {text} has {cells:,} cells; at most {MOST_CELLS:,} are answered at once")
    return Queries(box.grid(numbers))


Properties = Mapping[str, list[Any]]  # one entry per area


def features_of(path: Path) -> list[Mapping[str, Any]]:
    """The features of a GeoJSON file; refused if it has none, or names another CRS than longitude and latitude."""
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}, line {error.lineno}: is not JSON ({error.msg}); fix the file") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list) or not all(isinstance(feature, dict) for feature in features):
        raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of polygons")
    if not features:
        raise InvalidInput(f"{path}: has no features; there must be at least one polygon")
    named = str(((document.get("crs") or {}).get("properties") or {}).get("name", "CRS84"))
    if not named.endswith(("CRS84", ":4326")):
        raise InvalidInput(f"{path}: has the CRS {named!r}; GeoJSON has longitude and latitude (EPSG:4326); convert it")
    return features
