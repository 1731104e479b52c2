"""Regions leave as tables of every library, with the same rows, and come back from files as they were."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput, MissingExtra
from semilocal.io.regions import regions_json
from semilocal.pooled.estimate import PooledPartition
from semilocal.tabular import known

DEGREES = sl.Box((-10, 40), (10, 60), names=("lon", "lat"))
TURNED = sl.Box((40, -10), (60, 10), names=("lat", "lon"))


@cache
def counted(box: sl.Box, trust: Any = "curator") -> Any:
    rng = np.random.default_rng(1)
    points = rng.beta(2, 5, (3_000, box.dimensions)) * np.subtract(box.upper, box.lower) + box.lower
    named: Any = {"delta": 0.05, "k": 20} if trust == "nobody" else {}
    return sl.counts(points, box, epsilon=2.0, trust=trust, rng=rng, **named)


@pytest.mark.parametrize("trust", ["curator", "nobody"])
def test_every_library_gets_the_same_table(trust: str) -> None:
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    found = counted(DEGREES, trust)
    table = {name: column.tolist() for name, column in found.to_table().items()}
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert found.to_pandas().to_dict("list") == table
    assert found.to_polars().to_dict(as_series=False) == table
    assert found.to_arrow().to_pydict() == table
    assert found.partition.to_arrow().to_pydict() == table
    for other in (polars.DataFrame(found).to_dict(as_series=False), arrow.table(found).to_pydict()):
        assert other == table  # through __arrow_c_stream__


@pytest.mark.parametrize(("box", "crs"), [(DEGREES, 4326), (TURNED, 4326)])
def test_a_geodataframe_has_rectangles_and_the_reference_system_of_the_domain(box: sl.Box, crs: int) -> None:
    pytest.importorskip("geopandas")
    found = counted(box)
    frame = found.to_geodataframe()
    assert frame.crs.to_epsg() == crs
    places = found.boxes[:, :, ::-1] if box is TURNED else found.boxes
    assert np.array_equal(frame.geometry.bounds.to_numpy(), places.reshape(-1, 4))
    answers = found.query(frame)  # what comes out goes in
    assert np.allclose(answers.value, found.crowds)
    assert counted(sl.Box((0, 0), (1, 1))).to_geodataframe().crs is None


@pytest.mark.parametrize("box", [DEGREES, TURNED, sl.Box((0, 0), (1, 1))])
def test_geopandas_reads_the_geoparquet_that_was_written(tmp_path: Path, box: sl.Box) -> None:
    geopandas = pytest.importorskip("geopandas")
    found, path = counted(box), tmp_path / "regions.parquet"
    found.to_geoparquet(path)
    read, expected = geopandas.read_parquet(path), found.to_geodataframe()
    same = expected.geometry.set_crs(read.crs, allow_override=True).normalize()
    assert read.geometry.normalize().geom_equals_exact(same, 0.0).all()
    assert read["cell"].tolist() == found.partition.cells.tolist()
    assert read["crowd"].tolist() == known(found.crowds, found.partition.stderr).tolist()
    if expected.crs is None:
        assert read.crs is None
    else:
        assert read.crs.to_epsg() == expected.crs.to_epsg() or read.crs.to_string() == "OGC:CRS84"
    assert all(read.geometry.exterior.is_ccw)


@pytest.mark.slow
def test_a_region_of_a_large_map_takes_less_than_15_bytes_of_geoparquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(2)
    middles = rng.uniform((-9, 41), (9, 59), (40, 2))
    points = np.clip(middles[rng.integers(0, 40, 180_000)] + rng.normal(0, 0.8, (180_000, 2)), *_ends(DEGREES))
    found = sl.counts(points, DEGREES, epsilon=3.0, trust="curator", rng=rng)
    found.to_geoparquet(tmp_path / "a.parquet")
    per_region = (tmp_path / "a.parquet").stat().st_size / len(found.partition)
    assert len(found.partition) > 10_000
    assert per_region < 15.0


def _ends(box: sl.Box) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return box.lower, box.upper


@pytest.mark.parametrize("trust", ["curator", "nobody"])
def test_geojson_says_what_the_table_says(trust: str, tmp_path: Path) -> None:
    found = counted(DEGREES, trust)
    document = found.to_geojson()
    assert document == found.__geo_interface__ == json.loads(regions_json(found.partition))
    found.save_geojson(tmp_path / "a.geojson")
    assert msgspec.json.decode((tmp_path / "a.geojson").read_bytes()) == document
    rows = document["features"]
    names = found.to_table()["region" if trust == "nobody" else "cell"]
    assert [row["properties"]["region"] for row in rows] == [str(name) for name in names.tolist()]
    crowds = found.partition.crowds
    if isinstance(found.partition, PooledPartition):
        crowds = known(crowds, found.partition.stderr)
    assert [row["properties"]["crowd"] for row in rows] == crowds.tolist()
    for row, box in zip(rows, found.partition.boxes, strict=True):
        ring = np.array(row["geometry"]["coordinates"][0])
        assert np.array_equal(ring.min(axis=0), box[0])
        assert np.array_equal(ring.max(axis=0), box[1])
        assert np.array_equal(ring[0], ring[-1])


def test_longitude_comes_first_whatever_the_order_of_the_axes() -> None:
    rings = [feature["geometry"]["coordinates"][0] for feature in counted(TURNED).to_geojson()["features"]]
    west, south = np.array(rings).reshape(-1, 2).min(axis=0)
    assert (west, south) == (-10, 40)


def test_maps_need_two_dimensions(tmp_path: Path) -> None:
    line = counted(sl.Box((0,), (1,)))
    for way in (line.to_geojson, line.to_geodataframe, lambda: line.to_geoparquet(tmp_path / "a.parquet")):
        with pytest.raises(InvalidInput, match="needs two dimensions"):
            way()
    assert len(line.to_table()["x0_lower"]) == len(line.partition)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("semilocal.errors.import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install polars"):
        counted(DEGREES).to_polars()


def test_means_of_cells_are_columns_too() -> None:
    points = np.random.default_rng(3).beta(2, 5, (3_000, 2))
    height = sl.functions.coordinate(1)
    found = sl.cell_means(points, height, sl.Box((0, 0), (1, 1)), epsilon=2.0, trust="curator")
    assert found.to_table()["mean"].tolist() == found.value.tolist()


@pytest.mark.slow
def test_cells_of_the_sphere_leave_with_their_outlines(tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    rng = np.random.default_rng(4)
    points = np.stack([rng.uniform(-180, 180, 3_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 3_000)))], axis=1)
    found = sl.counts(points, hierarchy=sl.SphereTree(20), epsilon=2.0, trust="curator", rng=rng)
    frame = found.to_geodataframe()
    assert len(frame) == len(found.partition) == len(found.to_geojson()["features"])
    found.to_geoparquet(tmp_path / "a.parquet")
    read = geopandas.read_parquet(tmp_path / "a.parquet")
    assert np.array_equal(read.geometry.bounds.to_numpy(), frame.geometry.bounds.to_numpy())
