"""The key that DuckDB computes is the hierarchy's own, at every edge; Spark's is compared in the engines' contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal.arrays import Floats, Integers
from semilocal.engines import expressions
from semilocal.engines.expressions import DUCKDB, coarser, key
from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.hierarchy.dyadic import BoxTree
from tests.helpers.edges import BOXES, deepest_trees, edge_points, true_keys, whole_levels_of

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


def computed(connection: Any, tree: BoxTree, points: Floats, bits: int) -> Integers:
    names = [f'axis "{axis}"' for axis in range(tree.box.dimensions)]
    table = connection.from_arrow(pyarrow.table(dict(zip(names, points.T, strict=True))))
    found: Integers = table.project(f"{key(tree, names, bits, DUCKDB)} AS key").fetchnumpy()["key"]
    return found


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_the_key_in_sql_is_the_hierarchys_own_at_every_edge(connection: Any, box: Box) -> None:
    rng = np.random.default_rng(3)
    for tree in deepest_trees(box):
        for bits in whole_levels_of(tree):
            points = edge_points(tree, bits, rng)
            wrong = np.flatnonzero(computed(connection, tree, points, bits) != true_keys(tree, points, bits))
            assert wrong.tolist() == [], (tree, bits, points[wrong])


def test_a_key_without_the_exact_form_is_seen(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_doubt", lambda low, high, bits: 0.0)
    tree = deepest_trees(Box((0.1, -0.3), (0.7, 1e6)))[0]
    points = edge_points(tree, 40, np.random.default_rng(3))
    assert (computed(connection, tree, points, 40) != true_keys(tree, points, 40)).any()


def test_rows_without_a_place_in_the_box_have_the_key_minus_one(connection: Any, tmp_path: Any) -> None:
    tree = deepest_trees(Box((-1,), (1,)))[0]
    inside = [-1.0, -0.0, 1.0]
    outside = [np.nan, np.inf, -np.inf, np.nextafter(1.0, 2.0), np.nextafter(-1.0, -2.0), 1e300, None]
    table = pyarrow.table({"x": pyarrow.array([*inside, *outside], pyarrow.float64())})
    found = connection.from_arrow(table).project(f"{key(tree, ['x'], 20, DUCKDB)} AS key").fetchnumpy()["key"]
    assert found[3:].tolist() == [-1] * len(outside)
    assert (found[:3] >= 0).all()
    coarse = connection.from_arrow(table).project(f"{key(tree, ['x'], 20, DUCKDB)} AS key")
    assert coarse.project(f"{coarser(tree, 'key', 20, 7)} AS key").fetchnumpy()["key"][3:].tolist() == [-1] * 7


def test_nan_is_found_where_the_statistics_of_a_file_do_not_know_of_it(connection: Any, tmp_path: Any) -> None:
    from pyarrow import parquet

    path = tmp_path / "nan.parquet"
    parquet.write_table(pyarrow.table({"x": [0.25, float("nan"), 0.5]}), path)
    tree = deepest_trees(Box((0,), (1,)))[0]
    rows = connection.read_parquet(str(path)).project(f"{key(tree, ['x'], 20, DUCKDB)} AS key")
    assert sorted(rows.fetchnumpy()["key"].tolist()) == [-1, 1 << 18, 1 << 19]


def test_one_column_per_axis_is_needed() -> None:
    with pytest.raises(InvalidInput, match="the box has 2 axes; got 1 columns"):
        key(deepest_trees(BOXES[1])[0], ["x"], 4, DUCKDB)
