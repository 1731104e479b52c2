"""Every source of rows keeps the same contract: one suite, every engine.

A source that gives the counts, the rows and the refusals below can play any task: the driver needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import BinaryTree, Box, Quadtree, SphereTree, Task
from semilocal.arrays import Floats
from semilocal.engines import open_source
from semilocal.engines.run import SourceRun
from semilocal.engines.source import Attached, Histogram, Source
from semilocal.errors import OutsideDomain
from semilocal.hierarchy.tables import from_cuts
from tests.helpers.engine_runs import PointsSource, box_of, compare, joined, people, same_rows

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # Spark's own, about versions of pandas

Opens = Callable[[Floats, Box], Source]
NAMES = [f"x{axis}" for axis in range(8)]


def table_of(points: Floats) -> Any:
    return pyarrow.table(dict(zip(NAMES, points.T, strict=False)))


def in_array(points: Floats, box: Box, folder: Path) -> Source:
    return PointsSource(points, box)


def in_table(points: Floats, box: Box, folder: Path) -> Source:
    return open_source(table_of(points), NAMES[: box.dimensions], box)


def in_parquet(points: Floats, box: Box, folder: Path) -> Source:
    """Two files, so that batches end in odd places."""
    from pyarrow import parquet

    cut = len(points) // 3
    for name, part in (("a", points[:cut]), ("b", points[cut:])):
        parquet.write_table(table_of(part), folder / f"{name}.parquet", row_group_size=1000)
    return open_source(str(folder / "*.parquet"), NAMES[: box.dimensions], box)


def in_csv(points: Floats, box: Box, folder: Path) -> Source:
    from pyarrow import csv

    csv.write_csv(table_of(points), folder / "points.csv")
    return open_source(folder / "points.csv", NAMES[: box.dimensions], box)


def in_reader(points: Floats, box: Box, folder: Path) -> Source:
    table = table_of(points)
    return open_source(lambda: table.to_reader(max_chunksize=777), NAMES[: box.dimensions], box)


def in_duckdb(points: Floats, box: Box, folder: Path) -> Source:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(config={"threads": 2})
    rows = connection.from_arrow(table_of(points))
    return open_source(rows, NAMES[: box.dimensions], box, engine="duckdb", connection=connection)


def in_spark(points: Floats, box: Box, folder: Path, spark: Any) -> Source:
    """Rows in another order."""
    from semilocal.engines.spark import SparkSource

    frame = spark.createDataFrame(table_of(points).take(np.random.default_rng(8).permutation(len(points))))
    return SparkSource(frame, NAMES[: box.dimensions], box)


SOURCES = [in_array, in_table, in_parquet, in_csv, in_reader, in_duckdb]


@pytest.fixture(name="opens", params=SOURCES, ids=lambda opens: opens.__name__)
def _opens(request: pytest.FixtureRequest, tmp_path: Path) -> Opens:
    """Opens the same positions in one of the engines."""
    return lambda points, box: request.param(points, box, tmp_path)


@pytest.fixture(name="opens_also", params=[*SOURCES, in_spark], ids=lambda opens: opens.__name__)
def _opens_also(request: pytest.FixtureRequest, tmp_path: Path) -> Opens:
    """The same with Spark, where every question costs a second: for the tests that say most."""
    named = {"spark": request.getfixturevalue("spark")} if request.param is in_spark else {}
    return lambda points, box: request.param(points, box, tmp_path, **named)


@pytest.mark.parametrize("depth", [0, 6, 12])
@pytest.mark.parametrize("kind", ["normal", "rounded"])
def test_a_histogram_has_the_hierarchys_own_cells(opens: Opens, kind: str, depth: int) -> None:
    points, box = people(3000, 2, kind=kind), box_of(2)
    tree = BinaryTree(box, 40)
    found = opens(points, box).histogram(tree, depth)
    expected = Histogram.of_sorted(depth, np.sort(tree.locate(points, depth)))
    assert found.depth == depth
    assert np.array_equal(found.cells, expected.cells)
    assert np.array_equal(found.counts, expected.counts)


def test_refining_counts_the_rows_of_the_given_cells_alone(opens_also: Opens) -> None:
    points, box = people(3000, 2, kind="rounded"), box_of(2)
    tree = Quadtree(box, 20)
    source = opens_also(points, box)
    cells = source.histogram(tree, 4).cells[::3]
    inside = np.isin(tree.locate(points, 4), cells)
    expected = Histogram.of_sorted(20, np.sort(tree.locate(points[inside], 20)))
    found = source.refine(tree, cells, 4, 20)
    assert np.array_equal(found.cells, expected.cells)
    assert np.array_equal(found.counts, expected.counts)


def test_rows_are_read_in_the_same_order_each_time(opens_also: Opens) -> None:
    points, box = people(3000, 3), box_of(3)
    points = points[np.lexsort(points.T[::-1])]  # a frame has no order but that of contents
    source = opens_also(points, box)
    assert source.count() == 3000
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(source.batches())), points)
    sample = source.sample(500)
    assert 100 <= len(sample) <= 1000
    assert np.isin(sample[:, 0], points[:, 0]).all()


@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN or infinite"), (np.inf, "NaN or infinite"), (99.0, "outside")])
def test_bad_rows_are_refused_with_their_number_before_anything_is_released(
    opens: Opens, bad: float, what: str
) -> None:
    points, box = people(3000, 2), box_of(2)
    points[[7, 2900], [0, 1]] = bad
    source = opens(points, box)
    with pytest.raises(OutsideDomain, match=rf"(?s)3,000 rows.*2.*{what}|2.*{what}.*3,000"):
        sl.counts(source, box, epsilon=1.0, trust="curator", rng=np.random.default_rng(1))


@pytest.mark.parametrize(("dimensions", "rule", "tree"), [
    (1, "cut", "binary"), (2, "cut", "binary"), (2, "all", "quad"), (3, "cut", "binary"), (8, "all", "binary"),
])  # fmt: skip
def test_the_same_seed_gives_the_same_bytes_as_in_memory(opens: Opens, dimensions: int, rule: Any, tree: Any) -> None:
    points, box = people(3000, dimensions, kind="rounded"), box_of(dimensions)
    task = Task.build(box, epsilon=2.0, delta=0.05, k=20, rule=rule, tree=tree)
    compare(points, task, opens(points, box))


@pytest.mark.parametrize(
    "tree", [SphereTree(20), from_cuts("age", [[0, 40, 90], [0, 18, 40, 65, 90]])], ids=["sphere", "cuts"]
)
def test_trees_that_are_no_boxes_give_the_same_bytes_as_in_memory(opens_also: Opens, tree: Any) -> None:
    rng, low, high = np.random.default_rng(5), np.array(tree.box.lower), np.array(tree.box.upper)
    points = low + (high - low) * rng.beta(4, 3, (3000, tree.box.dimensions))
    task = Task.build(hierarchy=tree, epsilon=2.0, delta=0.05, k=20)
    found = compare(points, task, opens_also(points, tree.box))
    assert len(found.partition) >= 2  # something was cut; three of the four leaves are found by two seeds of three
    same_rows(points, task, rows_of(found, points))


def rows_of(found: SourceRun, points: Floats) -> Attached:
    """Every row with its region, in the order of the rows, whatever form the engine gives them."""
    if type(found.source).__name__ not in ("DuckDBSource", "SparkSource"):
        return joined(found.attach())
    out = found.attach(keep=["x0"])
    table = out.toArrow() if hasattr(out, "toArrow") else out.to_arrow_table()
    assert table.column_names == ["x0", "region"]
    order = np.empty(len(points), dtype=np.int64)  # no two rows have the same x0
    order[np.argsort(points[:, 0])] = np.argsort(table["x0"].to_numpy())
    columns = {name: table[name].to_numpy()[order] for name in table.column_names}
    assert np.array_equal(columns["x0"], points[:, 0])
    return Attached(points, columns["region"])


@pytest.mark.parametrize("trust", ["curator", "two-servers", "nobody"])
def test_every_job_gives_the_same_numbers_in_every_mode_of_trust(opens_also: Opens, trust: Any) -> None:
    points, box = people(4000, 2), box_of(2)
    points = points[np.lexsort(points.T[::-1])]  # a frame has no order but that of contents
    source, f = opens_also(points, box), sl.functions.squared_norm()
    named: dict[str, Any] = {"trust": trust, "epsilon": 2.0}
    if trust == "nobody":
        named |= {"delta": 0.05, "k": 20}
    here: Any
    there: Any
    for job in (sl.mean, sl.cell_means):
        here, there = (job(rows, f, box, **named, rng=np.random.default_rng(4)) for rows in (points, source))
        assert np.array_equal(here.value, there.value)
        assert np.array_equal(here.stderr, there.stderr)
        assert here.guarantee == there.guarantee
    if trust == "nobody":
        here, there = (
            sl.values(rows, f, box, epsilon=2.0, delta=0.05, k=20, rng=np.random.default_rng(4))
            for rows in (points, source)
        )
        assert np.array_equal(here.value, there.value)
        assert np.array_equal(here.stderr, there.stderr)
    here, there = (sl.counts(rows, box, **named, rng=np.random.default_rng(4)) for rows in (points, source))
    query = [[[-1.0, -2.0], [0.3, 1.5]]]
    assert here.query(query).value.tolist() == there.query(query).value.tolist()
    assert here.simulated == there.simulated
    assert here.spent == there.spent
