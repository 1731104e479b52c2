"""Regions as tables of other libraries: pandas, polars, Arrow, geopandas, GeoParquet.

Knows columns and boxes. Knows no participants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, MissingExtra
from ..geometry.box import Box
from ..geometry.units import crs_of, latitude_first
from ..pooled.estimate import PooledPartition
from ..protocol.partition import Partition
from ..protocol.promise import MARK_NAME, Mark
from ..tabular import rounded
from .files import replacing

__all__ = [
    "Columns", "geoparquet", "map_boxes", "marked", "to_arrow", "to_geodataframe", "to_pandas", "to_polars",
    "write_geoparquet",
]  # fmt: skip

Columns = Mapping[str, npt.NDArray[Any]]


def to_pandas(columns: Columns, mark: Mark | None) -> Any:
    """A pandas.DataFrame."""
    return _attributed(_library("pandas").DataFrame(dict(columns)), mark)


def to_polars(columns: Columns) -> Any:
    """A polars.DataFrame."""
    return _library("polars").DataFrame(dict(columns))


def to_arrow(columns: Columns, mark: Mark | None) -> Any:
    """A pyarrow.Table."""
    return _library("pyarrow", "parquet").table(dict(columns), metadata=marked(mark))


def marked(mark: Mark | None) -> dict[str, str]:
    """What a format that has metadata says about a simulation; nothing if there is none.

    Examples
    --------
    >>> marked(Mark(seeded=True, seed=7)), marked(None)
    ({'simulation': 'SIMULATION: the noise has seed 7 and protects nobody'}, {})
    """
    return {} if mark is None else {MARK_NAME: mark.words}


def to_geodataframe(columns: Columns, drawn: Partition | PooledPartition) -> Any:
    """A geopandas.GeoDataFrame with the outlines of a map's regions and the CRS of the domain, if it has one."""
    geopandas, crs = _library("geopandas", "maps"), crs_of(drawn.task.box)
    return _attributed(geopandas.GeoDataFrame(dict(columns), geometry=_outlines(drawn), crs=crs), drawn.mark)


def _attributed(frame: Any, mark: Mark | None) -> Any:
    frame.attrs.update(marked(mark))
    return frame


def write_geoparquet(columns: Columns, drawn: Partition | PooledPartition, path: str | PathLike[str]) -> None:
    """Write :func:`geoparquet` to a file, in one step."""
    content = geoparquet(columns, drawn)
    with replacing(Path(path)) as stream:
        stream.write(content)


def geoparquet(columns: Columns, drawn: Partition | PooledPartition) -> bytes:
    """The outlines of a map's regions, and columns, as a GeoParquet 1.1 file.

    Bounds are in the geometry and nowhere else. Estimates have the digits that are known.
    """
    arrow, parquet = _library("pyarrow", "parquet"), _library("pyarrow.parquet", "parquet")
    hierarchy, box = drawn.task.hierarchy, drawn.task.box
    places, crs = map_boxes(drawn.boxes, box), crs_of(box)
    around = [*places[:, 0].min(axis=0).tolist(), *places[:, 1].max(axis=0).tolist()]
    kinds = ["Polygon"] if hierarchy.cells_are_boxes else ["Polygon", "MultiPolygon"]
    described = {"encoding": "WKB", "geometry_types": kinds, "bbox": around, **({"crs": None} if crs is None else {})}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": described}}
    bounds = {f"{name}_{side}" for name in box.names for side in ("lower", "upper")}
    kept = rounded({name: column for name, column in columns.items() if name not in bounds})
    table = {**kept, "geometry": _library("shapely", "maps").to_wkb(_outlines(drawn))}
    codes = [name for name, column in kept.items() if column.dtype.kind == "u"]
    stream = BytesIO()
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


def _outlines(drawn: Partition | PooledPartition) -> Any:
    """Shapely geometries of regions, x (longitude) first: object[m]."""
    shapely, tree = _library("shapely", "maps"), drawn.task.hierarchy
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


def _library(name: str, extra: str = "") -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name.split(".")[0], extra) from None
