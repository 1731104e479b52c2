"""What the command line reads and writes: positions, bounds, queries, functions, and files of results.

Knows files, and how to say what is wrong with them and where. Must not know what is computed.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import functions
from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.places import parse_bounds
from ..io import points as tables
from ..protocol.partition import Partition

__all__ = [
    "CORNERS",
    "check_suffix",
    "csv_text",
    "geojson_text",
    "grid_boxes",
    "parse_function",
    "read_positions",
    "read_queries",
    "write_regions",
]


CORNERS = ("x0", "y0", "x1", "y1")


def parse_function(text: str, names: Sequence[str]) -> functions.BoundedFunction:
    """The function that a text describes.

    Parameters
    ----------
    text : str
        ``squared-norm[:center]``, ``coordinate:NAME``, ``gaussian-bump:SIGMA[,center]``, ``linear:weights`` or
        ``indicator:corners``; numbers with commas between them.
    names : sequence of str
        Names of the axes.

    Examples
    --------
    >>> parse_function("coordinate:latitude", ("longitude", "latitude")).name
    'coordinate(1)'
    >>> parse_function("gaussian-bump:2", ("x", "y")).name
    'gaussian_bump(2)'
    """
    kind, _, rest = text.partition(":")
    if kind == "coordinate":
        if rest not in names:
            raise InvalidInput(f"--function {text}: there is no axis {rest!r}; the axes are {', '.join(names)}")
        return functions.coordinate(list(names).index(rest))
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        raise InvalidInput(f"--function {text}: {rest!r} must be numbers with commas between them") from None
    axes = len(names)
    if kind == "squared-norm" and len(numbers) in (0, axes):
        return functions.squared_norm(numbers or None)
    if kind == "gaussian-bump" and len(numbers) in (1, 1 + axes):
        return functions.gaussian_bump(numbers[0], numbers[1:] or None)
    if kind == "linear" and len(numbers) == axes:
        return functions.linear(numbers)
    if kind == "indicator" and len(numbers) == 2 * axes:
        return functions.indicator(Box(tuple(numbers[:axes]), tuple(numbers[axes:])))
    raise InvalidInput(
        f"--function {text}: must be squared-norm, coordinate:NAME, gaussian-bump:SIGMA, linear:W1,W2 or "
        f"indicator:X0,Y0,X1,Y1, for the axes {', '.join(names)}"
    )


def read_positions(args: argparse.Namespace) -> tuple[Floats, Box]:
    """The points of the file, and the domain that the user named."""
    columns = args.columns.split(",") if args.columns else None
    if args.bounds is None:
        raise InvalidInput(
            "--bounds is missing: name a public box, such as --bounds world, --bounds california or "
            "--bounds=-10,-10,10,10; it is never taken from the data in silence, because that would leak"
        )
    table = tables.read_points(args.file, x=args.x, y=args.y, columns=columns)
    if args.bounds == "data":
        low, high = table.points.min(axis=0), table.points.max(axis=0)
        box = Box(tuple(low), tuple(np.where(high > low, high, low + 1.0)), names=table.names)
        warnings.warn(
            f"--bounds data publishes the outermost positions, {box}, without any protection; name a public box",
            UserWarning,
            stacklevel=2,
        )
    else:
        named = parse_bounds(args.bounds)
        if named.dimensions != len(table.names):
            raise InvalidInput(
                f"--bounds {args.bounds} has {named.dimensions} dimensions, the positions in {args.file} have "
                f"{len(table.names)} ({', '.join(table.names)}); give the lower corner and then the upper corner"
            )
        box = Box(named.lower, named.upper, names=table.names)
    clipped, moved = box.clip(table.points)
    if moved and not args.clip:
        row = int(np.argmax((clipped != table.points).any(axis=1)))
        raise InvalidInput(
            f"{args.file}, {table.place(row)}: {table.points[row].tolist()} lies outside the bounds {box}, and so do "
            f"{moved - 1} more of {len(table)}; widen --bounds, leave them out, or move them to the edge with --clip"
        )
    if moved:
        warnings.warn(f"--clip moved {moved} of {len(table)} positions to the edge of {box}", UserWarning, stacklevel=2)
    return clipped, box


def read_queries(path: Path, box: Box) -> Floats:
    """Boxes float64[q, 2, d] out of a file."""
    if path.suffix.lower() in (".geojson", ".json"):
        return _rectangles(path, box)
    wanted = [f"{name}_{end}" for end in ("lower", "upper") for name in box.names]
    try:
        table = tables.read_points(path, columns=wanted)
    except InvalidInput as error:
        if box.dimensions != 2 or "has no column" not in str(error):
            raise
        table = tables.read_points(path, columns=CORNERS)
    boxes = table.points.reshape(len(table), 2, -1)
    turned = (boxes[:, 0] > boxes[:, 1]).any(axis=1)
    if turned.any():
        row = int(np.argmax(turned))
        raise InvalidInput(f"{path}, {table.place(row)}: the lower corner is above the upper one; swap them")
    return boxes


def _rectangles(path: Path, box: Box) -> Floats:
    if box.dimensions != 2:
        raise InvalidInput(f"{path}: GeoJSON has two dimensions, the domain has {box.dimensions}; use CSV")
    try:
        features = json.loads(path.read_text(encoding="utf-8"))["features"]
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}, line {error.lineno}: is no JSON ({error.msg}); mend the file") from None
    except (KeyError, TypeError):
        raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of rectangles") from None
    found = []
    for number, feature in enumerate(features):
        try:
            (ring,) = feature["geometry"]["coordinates"]
            corners = np.array(ring, dtype=np.float64)
            low, high = corners.min(axis=0), corners.max(axis=0)
            upright = corners.shape == (5, 2) and bool(((corners == low) | (corners == high)).all())
        except (KeyError, TypeError, ValueError):
            upright = False
        if not upright:
            raise InvalidInput(f"{path}, feature {number}: must be a rectangle along the axes, with five points")
        found.append((low, high))
    if not found:
        raise InvalidInput(f"{path}: has no features; there must be at least one rectangle")
    return np.array(found)


def grid_boxes(text: str, box: Box) -> Floats:
    """All cells of an even grid, the last axis fastest: float64[cells, 2, d]."""
    parts = text.lower().split("x")
    if len(parts) != box.dimensions or not all(part.isdigit() and 1 <= int(part) <= 10_000 for part in parts):
        raise InvalidInput(f"--grid must be {box.dimensions} positive numbers such as 32x32; got {text!r}")
    edges = [np.linspace(low, high, int(p) + 1) for low, high, p in zip(box.lower, box.upper, parts, strict=True)]
    if np.prod([float(len(edge) - 1) for edge in edges]) > 10_000_000:
        raise InvalidInput(f"--grid {text} has more than 10 million cells; take fewer")
    low = np.stack(np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij"), axis=-1)
    high = np.stack(np.meshgrid(*(edge[1:] for edge in edges), indexing="ij"), axis=-1)
    return np.stack([low.reshape(-1, box.dimensions), high.reshape(-1, box.dimensions)], axis=1)


def write_regions(partition: Partition, path: Path | None) -> None:
    """Write the regions as GeoJSON or CSV, whatever the name ends in; nothing without a name."""
    if path is None:
        return
    if path.suffix == ".geojson":
        partition.save_geojson(str(path))
    else:
        table = partition.to_table()
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def csv_text(table: Floats, columns: Sequence[str]) -> str:
    """Rows float64[q, c] as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(table.tolist())
    return text.getvalue()


def geojson_text(boxes: Floats, table: Floats, columns: Sequence[str]) -> str:
    """Boxes float64[q, 2, 2] as polygons with the columns after the corners as properties."""
    if boxes.shape[2] != 2:
        raise InvalidInput(f"GeoJSON needs two dimensions; the domain has {boxes.shape[2]}; write .csv")
    features = []
    for ((x0, y0), (x1, y1)), row in zip(boxes.tolist(), table[:, 4:].tolist(), strict=True):
        ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        properties = dict(zip(columns[4:], row, strict=True))
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return json.dumps({"type": "FeatureCollection", "features": features})


def check_suffix(path: Path | None, allowed: Sequence[str]) -> None:
    """Refuse a file name with another ending before any work is done."""
    if path is not None and path.suffix not in allowed:
        raise InvalidInput(f"{path}: the name must end in {' or '.join(allowed)}")
