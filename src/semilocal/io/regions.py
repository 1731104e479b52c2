"""Regions and answers as GeoJSON and CSV.

Knows the two formats and the columns of a partition. Writes nothing but what is public about it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.earth import areas
from ..hierarchy.base import Cells, Hierarchy, Polygons
from ..pooled.partition import PooledPartition
from ..protocol.partition import UNPROTECTED, Partition
from .files import write_text

__all__ = [
    "AnyPartition",
    "box_geometries",
    "boxes_geojson",
    "csv_text",
    "regions_geojson",
    "ring",
    "write_geojson",
    "write_regions",
]

AnyPartition = Partition | PooledPartition


def ring(box: Floats) -> list[list[float]]:
    """Corners of a box float64[2, 2] as a closed ring, counter-clockwise."""
    (x0, y0), (x1, y1) = box.tolist()
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]


def regions_geojson(partition: AnyPartition) -> dict[str, Any]:
    """A FeatureCollection of the regions and of the trimmed parts; axis 0 is written as longitude, axis 1 as latitude.

    Raises
    ------
    InvalidInput
        Unless there are two dimensions.
    """
    hierarchy = partition.task.hierarchy
    sizes = areas(partition.boxes, geographic=False) if hierarchy.cells_are_boxes else hierarchy.areas(partition.cells)
    if isinstance(partition, PooledPartition):
        columns = (partition.crowds, partition.stderr, sizes)
        cells = zip(partition.cells, *(column.tolist() for column in columns), strict=True)
        return _cells_geojson(
            hierarchy,
            partition.cells,
            (
                {"kind": "cell", "cell": str(cell), "crowd": crowd, "stderr": error, "density": crowd / area}
                for cell, crowd, error, area in cells
            ),
        )
    properties: list[dict[str, Any]] = [
        {"kind": "region", "cell": str(cell), "crowd": int(crowd), "density": float(crowd / area)}
        for cell, crowd, area in zip(partition.cells, partition.crowds, sizes, strict=True)
    ]
    trimmed = partition.trimmed_cells
    properties += [{"kind": "trimmed", "cell": str(cell)} for cell in trimmed]
    everything = np.concatenate([partition.cells, trimmed])
    return {**_cells_geojson(hierarchy, everything, properties), "note": UNPROTECTED}


def _cells_geojson(hierarchy: Hierarchy, cells: Cells, properties: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Cells as polygons with their properties; those of several parts, as across the date line, as multipolygons."""
    if hierarchy.cells_are_boxes or hierarchy.box.dimensions != 2:
        return boxes_geojson(hierarchy.boxes(cells), properties)
    features = [
        {"type": "Feature", "geometry": _geometry(rings), "properties": dict(named)}
        for rings, named in zip(hierarchy.polygons(cells), properties, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


def _geometry(rings: Polygons) -> dict[str, Any]:
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def box_geometries(boxes: Floats) -> list[dict[str, Any]]:
    """Boxes float64[m, 2, 2] as GeoJSON polygons."""
    if boxes.shape[2] != 2:
        raise InvalidInput(f"GeoJSON needs two dimensions; these boxes have {boxes.shape[2]}; write .csv")
    x, y = boxes[:, (0, 1, 1, 0, 0), 0], boxes[:, (0, 0, 1, 1, 0), 1]
    return [{"type": "Polygon", "coordinates": [ring]} for ring in np.stack([x, y], axis=2).tolist()]


def boxes_geojson(boxes: Floats, properties: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Boxes float64[m, 2, 2] as polygons with their properties."""
    if boxes.shape[2] != 2:
        raise InvalidInput(f"GeoJSON needs two dimensions; these boxes have {boxes.shape[2]}; write .csv")
    features = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring(box)]}, "properties": dict(named)}
        for box, named in zip(boxes, properties, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns of equal length as CSV with a header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def write_geojson(partition: AnyPartition, path: str | Path) -> None:
    """Write the regions as GeoJSON."""
    write_text(Path(path), json.dumps(regions_geojson(partition)))


def write_regions(partition: AnyPartition, path: Path) -> None:
    """Write the regions as GeoJSON or CSV, by the ending of the name."""
    if path.suffix.lower() == ".csv":
        write_text(path, csv_text({name: column.tolist() for name, column in partition.to_table().items()}))
    else:
        write_geojson(partition, path)
