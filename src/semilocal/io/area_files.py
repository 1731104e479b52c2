"""Polygons in files: GeoJSON, GeoParquet, GeoPackage and whatever else pyogrio reads.

Geometries come back as shapely objects, unchecked, with all other columns beside them. Knows formats and where they
write their reference system.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, MissingExtra
from ..geometry.box import Box
from ..geometry.crs import check_crs
from .files import read_text

__all__ = ["AREA_FILES", "Properties", "boxes_around", "features_of", "is_geoparquet", "read_area_file"]

Properties = Mapping[str, list[Any]]  # one entry per area
Found = tuple[Any, Properties]  # shapes object[q]


def read_area_file(path: Path, box: Box) -> Found:
    """Geometries of a .gpkg, .fgb, .shp or GeoParquet file, and the other columns; its CRS must fit the domain."""
    return AREA_FILES[path.suffix.lower()](path, box)


def features_of(path: Path) -> list[Mapping[str, Any]]:
    """The features of a GeoJSON file.

    Raises
    ------
    InvalidInput
        If it is none, has none, or names another CRS than longitude and latitude.
    """
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
        raise InvalidInput(
            f"{path}: has the CRS {named!r}; GeoJSON has longitude and latitude (EPSG:4326); convert it, or write a "
            ".gpkg, which may have another"
        )
    return features


def is_geoparquet(path: Path) -> bool:
    """Whether a Parquet file says where its geometries are."""
    return b"geo" in (_parquet(path).schema_arrow.metadata or {})


def _parquet(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "parquet") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"{path}: is not a Parquet file ({str(error).splitlines()[0]}); check the file") from None


def _read_geoparquet(path: Path, box: Box) -> Found:
    try:
        import shapely
    except ImportError:
        raise MissingExtra("shapely", "maps") from None
    file = _parquet(path)
    metadata = json.loads(file.schema_arrow.metadata[b"geo"])
    name = metadata["primary_column"]
    column = metadata["columns"][name]
    if column.get("encoding") != "WKB":
        raise InvalidInput(f"{path}: column {name!r} is encoded as {column.get('encoding')!r}; write it as WKB")
    # The format says: no entry means longitude and latitude, null means unknown.
    crs = column.get("crs", {"type": "GeographicCRS", "name": "OGC:CRS84"})
    check_crs(None if crs is None else _ProjJson.of(crs), box, what=f"{path}: the polygons")
    table = file.read()
    shapes = shapely.from_wkb(table.column(name).to_numpy(), on_invalid="raise")
    return shapes, _plain({other: table.column(other).to_pylist() for other in table.column_names if other != name})


def _read_with_pyogrio(path: Path, box: Box) -> Found:
    try:
        import geopandas
    except ImportError:
        raise MissingExtra("geopandas", "maps") from None
    try:
        frame = geopandas.read_file(path, engine="pyogrio")
    except Exception as error:  # pyogrio's errors have no common base that is public
        raise InvalidInput(f"{path}: cannot be read ({str(error).splitlines()[0]}); check the file") from None
    if not isinstance(frame, geopandas.GeoDataFrame):
        raise InvalidInput(f"{path}: has no geometries; there must be at least one polygon")
    check_crs(frame.crs, box, what=f"{path}: the polygons")
    others = frame.drop(columns=frame.geometry.name)
    return np.asarray(frame.geometry.values, dtype=object), _plain({str(n): others[n].tolist() for n in others})


AREA_FILES: Mapping[str, Callable[[Path, Box], Found]] = MappingProxyType(
    dict.fromkeys((".gpkg", ".fgb", ".shp"), _read_with_pyogrio) | {".parquet": _read_geoparquet}
)


@dataclass(frozen=True)
class _ProjJson:
    """As much of a CRS in PROJJSON as must be known."""

    name: str
    is_geographic: bool
    code: int | None

    @staticmethod
    def of(document: Any) -> _ProjJson:
        metadata = document if isinstance(document, dict) else {}
        code = metadata.get("id") or {}
        return _ProjJson(
            str(metadata.get("name", "unknown")), "Geographic" in str(metadata.get("type")),
            code.get("code") if code.get("authority") == "EPSG" else None,
        )  # fmt: skip

    def to_epsg(self) -> int | None:
        """The number in EPSG's list, if it is there."""
        return self.code


def _plain(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [_plain_value(value) for value in column] for name, column in columns.items()}


def _plain_value(value: Any) -> Any:
    """What JSON and CSV can say; dates and the like as text, missing numbers as nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def boxes_around(shapes: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    """The smallest box around each: float64[q, 2, 2]."""
    import shapely

    return np.asarray(shapely.bounds(shapes)).reshape(-1, 2, 2)
