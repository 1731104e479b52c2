"""Regions and answers as GeoJSON, CSV and GeoParquet, and as tables of pandas, polars, Arrow and geopandas.

Knows these formats, boxes and the columns of a partition. Writes nothing but what is public about it.
"""

from __future__ import annotations

import csv
import gc
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, optional
from ..geometry.box import Box
from ..geometry.units import areas, crs_of, latitude_first
from ..pooled.estimate import PooledPartition
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import MARK_NAME, Mark
from ..tabular import known, rounded
from .files import replacing, write_text

AnyPartition = Partition | PooledPartition
Columns = Mapping[str, npt.NDArray[Any]]
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
            if turned:  # walked around in the same sense
                rings = [[[y, x] for x, y in reversed(ring)] for ring in rings]
            if tree.cells_are_boxes or len(rings) == 1:
                yield {"type": "Polygon", "coordinates": rings}
            else:
                yield {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def regions_geojson(partition: AnyPartition) -> dict[str, Any]:
    """The same as a dictionary."""
    # A million outlines are ten million lists: to look for garbage in them took three times as long as to make them.
    collecting = gc.isenabled()
    gc.disable()
    try:
        document: dict[str, Any] = msgspec.json.decode(regions_json(partition))
    finally:
        if collecting:
            gc.enable()
    return document


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


# -- tables of other libraries ---------------------------------------------------------------------------------------


def to_pandas(columns: Columns, mark: Mark | None) -> Any:
    """A pandas.DataFrame."""
    return _attributed(optional("pandas").DataFrame(dict(columns)), mark)


def to_polars(columns: Columns) -> Any:
    """A polars.DataFrame."""
    return optional("polars").DataFrame(dict(columns))


def to_arrow(columns: Columns, mark: Mark | None) -> Any:
    """A pyarrow.Table."""
    return optional("pyarrow", "parquet").table(dict(columns), metadata=marked(mark))


def marked(mark: Mark | None) -> dict[str, str]:
    """What a format that has metadata says about a simulation; nothing if there is none.

    Examples
    --------
    >>> marked(Mark(seeded=True, seed=7)), marked(None)
    ({'simulation': 'SIMULATION: the noise has seed 7 and protects nobody'}, {})
    """
    return {} if mark is None else {MARK_NAME: mark.words}


def to_geodataframe(columns: Columns, drawn: AnyPartition) -> Any:
    """A geopandas.GeoDataFrame with the outlines of a map's regions and the CRS of the domain, if it has one."""
    geopandas, crs = optional("geopandas", "maps"), crs_of(drawn.task.box)
    return _attributed(geopandas.GeoDataFrame(dict(columns), geometry=_outlines(drawn), crs=crs), drawn.mark)


def _attributed(frame: Any, mark: Mark | None) -> Any:
    frame.attrs.update(marked(mark))
    return frame


def write_geoparquet(columns: Columns, drawn: AnyPartition, path: str | PathLike[str]) -> None:
    """Write :func:`geoparquet` to a file, in one step."""
    content = geoparquet(columns, drawn)
    with replacing(Path(path)) as stream:
        stream.write(content)


def geoparquet(columns: Columns, drawn: AnyPartition) -> bytes:
    """The outlines of a map's regions, and columns, as a GeoParquet 1.1 file.

    Bounds are in the geometry and nowhere else. Estimates have the digits that are known.
    """
    arrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    hierarchy, box = drawn.task.hierarchy, drawn.task.box
    places, crs = map_boxes(drawn.boxes, box), crs_of(box)
    around = [*places[:, 0].min(axis=0).tolist(), *places[:, 1].max(axis=0).tolist()]
    kinds = ["Polygon"] if hierarchy.cells_are_boxes else ["Polygon", "MultiPolygon"]
    described = {"encoding": "WKB", "geometry_types": kinds, "bbox": around, **({"crs": None} if crs is None else {})}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": described}}
    bounds = {f"{name}_{side}" for name in box.names for side in ("lower", "upper")}
    kept = rounded({name: column for name, column in columns.items() if name not in bounds})
    table = {**kept, "geometry": optional("shapely", "maps").to_wkb(_outlines(drawn))}
    codes = [name for name, column in kept.items() if column.dtype.kind == "u"]
    stream = io.BytesIO()
    parquet.write_table(
        arrow.table(table, metadata={"geo": json.dumps(geo), **marked(drawn.mark)}), stream,
        compression="zstd", compression_level=19, use_dictionary=[name for name in kept if name not in codes],
        column_encoding=dict.fromkeys(codes, "BYTE_STREAM_SPLIT") | {"geometry": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip
    return stream.getvalue()


def map_boxes(boxes: Floats, box: Box) -> Floats:
    """Boxes float64[m, 2, 2] with x (longitude) first; refused unless there are two dimensions."""
    if boxes.shape[2] != 2:
        raise InvalidInput(f"a map needs two dimensions; these regions have {boxes.shape[2]}; use a table or .csv")
    return boxes[:, :, ::-1] if latitude_first(box) else boxes


def _outlines(drawn: AnyPartition) -> Any:
    """Shapely geometries of regions, x (longitude) first: object[m]."""
    shapely, tree = optional("shapely", "maps"), drawn.task.hierarchy
    places = map_boxes(drawn.boxes, tree.box)
    if tree.cells_are_boxes and drawn.are_cells:
        return shapely.box(*places.reshape(-1, 4).T)
    turn = slice(None, None, -1) if latitude_first(tree.box) else slice(None)
    out = np.empty(len(places), dtype=object)
    for row, rings in enumerate(tree.interval_polygons(*drawn.intervals)):
        parts = [np.asarray(ring)[:, turn] for ring in rings]
        if tree.cells_are_boxes or len(parts) == 1:
            out[row] = shapely.Polygon(parts[0], parts[1:])
        else:
            out[row] = shapely.MultiPolygon([shapely.Polygon(part) for part in parts])
    return out
