"""Regions and answers as GeoJSON and CSV, and which file gets which format.

Knows these formats and the columns of a partition. Writes nothing but what is public about it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.units import areas, latitude_first
from ..hierarchy.base import Polygons
from ..pooled.estimate import PooledPartition
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import Mark
from ..tabular import known, rounded
from .files import replacing, write_text
from .tables import geoparquet, map_boxes, marked

__all__ = [
    "SEED", "AnyPartition", "box_geometries", "csv_text", "feature_collection", "region_geometries",
    "regions_geojson", "regions_geoparquet", "regions_json", "ring", "seed_column", "write_geojson",
    "write_regions",
]  # fmt: skip

AnyPartition = Partition | PooledPartition
_AT_ONCE = 1 << 12  # regions whose outlines are made together
SEED = "simulation_seed"  # the column of files whose noise can be repeated


def seed_column(mark: Mark | None, rows: int) -> dict[str, list[int]]:
    """A column that says that noise was seeded and so protects nobody; no column if the seed is not known.

    Examples
    --------
    >>> seed_column(Mark(seeded=True, seed=7), 2), seed_column(None, 2)
    ({'simulation_seed': [7, 7]}, {})
    """
    return {} if mark is None or mark.seed is None else {SEED: [mark.seed] * rows}


def ring(box: Floats) -> list[list[float]]:
    """Corners of a box float64[2, 2] as a closed ring, counter-clockwise."""
    (x0, y0), (x1, y1) = box.tolist()
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]


class _Feature(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="Feature"):
    geometry: Any
    properties: Any


def regions_json(partition: AnyPartition) -> bytes:
    """GeoJSON of the regions; longitude first, other axes in their order.

    The mark of a simulation is a member of the collection, and its seed, if it is known, a property of every feature.
    """
    tree, mark, crowds = partition.task.hierarchy, partition.mark, partition.crowds
    sizes = partition.areas if not tree.cells_are_boxes else areas_in_units(partition)
    errors = partition.stderr if isinstance(partition, PooledPartition) else np.sqrt(crowds)
    densities = known(crowds / sizes, errors / sizes).tolist()
    note: dict[str, str] = {}
    columns: dict[str, Sequence[Any]] = {**seed_column(mark, len(crowds))}
    if isinstance(partition, PooledPartition):
        cells = [str(cell) for cell in partition.cells.tolist()]
        found, own = known(crowds, errors).tolist(), known(errors, errors).tolist()
        columns = {"region": cells, "crowd": found, "density": densities, "stderr": own, **columns}
    else:
        walls, note = np.diff(partition.walls.first).tolist(), {"note": UNPROTECTED}
        columns = {"region": partition.names, "crowd": crowds.tolist(), "density": densities, "walls": walls, **columns}
    kind = "cell" if isinstance(partition, PooledPartition) else "region"
    rows = ({"kind": kind, **dict(zip(columns, row, strict=True))} for row in zip(*columns.values(), strict=True))
    return feature_collection(region_geometries(partition), rows, mark, **note)


def areas_in_units(partition: AnyPartition) -> Floats:
    """Areas in units of the axes, whatever they are: float64[m]. Cells of box trees halve them."""
    tree = partition.task.hierarchy
    lower, upper = partition.intervals
    first, cells = tree.interval_cells(lower, upper)
    return np.asarray(np.add.reduceat(areas(tree.boxes(cells), geographic=False), first[:-1]))


def region_geometries(partition: AnyPartition) -> Iterator[dict[str, Any]]:
    """The outline of every region as a GeoJSON geometry, x (longitude) first.

    A region of boxes is one polygon with its holes; on the sphere each of its cells is a part.
    """
    tree = partition.task.hierarchy
    map_boxes(partition.boxes, tree.box)  # refuses other than two dimensions
    turned, (lower, upper) = latitude_first(tree.box), partition.intervals
    for start in range(0, len(lower), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        for rings in tree.interval_polygons(lower[part], upper[part]):
            yield _geometry(_turned(rings) if turned else rings, boxes=tree.cells_are_boxes)


def _turned(rings: Polygons) -> Polygons:
    """The same with the axes the other way round, walked around in the same sense."""
    return [[[y, x] for x, y in reversed(ring)] for ring in rings]


def regions_geojson(partition: AnyPartition) -> dict[str, Any]:
    """The same as a dictionary."""
    document: dict[str, Any] = msgspec.json.decode(regions_json(partition))
    return document


def _geometry(rings: Polygons, *, boxes: bool) -> dict[str, Any]:
    if boxes or len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def box_geometries(boxes: Floats) -> list[dict[str, Any]]:
    """Boxes float64[m, 2, 2] as GeoJSON polygons, counter-clockwise."""
    if boxes.shape[2] != 2:
        raise InvalidInput(f"GeoJSON needs two dimensions; these boxes have {boxes.shape[2]}; write .csv")
    return [{"type": "Polygon", "coordinates": [ring(box)]} for box in boxes]


def feature_collection(
    geometries: Iterable[Any], properties: Iterable[Mapping[str, Any]], mark: Mark | None = None, **members: str
) -> bytes:
    """GeoJSON of geometries with their properties, the mark of a simulation and further members."""
    # One after the other: lists of a million points would keep the collector of garbage busy.
    lines = map(msgspec.json.Encoder().encode, map(_Feature, geometries, properties))
    features = msgspec.Raw(b"[" + b",".join(lines) + b"]")
    return msgspec.json.encode({"type": "FeatureCollection", "features": features, **marked(mark), **members})


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns of equal length as CSV with a header line; whole numbers are written without a point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_without_point, column) for column in columns.values()), strict=True))
    return text.getvalue()


def _without_point(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def regions_geoparquet(partition: AnyPartition) -> bytes:
    """The regions as a GeoParquet file; with a column for the seed of noise that can be repeated."""
    return geoparquet(_table(partition), partition)


def _table(partition: AnyPartition) -> dict[str, npt.NDArray[Any]]:
    seeds = seed_column(partition.mark, len(partition))
    return {**rounded(partition.to_table()), **{name: np.array(column) for name, column in seeds.items()}}


def write_geojson(partition: AnyPartition, path: str | Path) -> None:
    """Write the regions as GeoJSON."""
    with replacing(Path(path)) as stream:
        stream.write(regions_json(partition))


def write_regions(partition: AnyPartition, path: Path) -> None:
    """Write the regions as GeoJSON, GeoParquet or CSV, by the ending of the name, with the mark of a simulation."""
    if path.suffix.lower() == ".csv":
        write_text(path, csv_text({name: column.tolist() for name, column in _table(partition).items()}))
    else:
        with replacing(path) as stream:
            stream.write((regions_geoparquet if path.suffix.lower() == ".parquet" else regions_json)(partition))
