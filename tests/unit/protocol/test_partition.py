"""What a partition promises: it covers the domain, places every point, and says the same in every form."""

from __future__ import annotations

import itertools
import json
import pathlib
from functools import cache
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes

from semilocal import Box, Closed, Partition, Run, Task, simulate
from semilocal.errors import InvalidInput, NoCrowdWarning, OutsideDomain

mpl.use("Agg")
Floats = npt.NDArray[np.float64]

BOX = Box((-10, -5), (10, 5), names=("longitude", "latitude"))


def shape(box: Box, size: int, seed: int) -> Floats:
    """A dense blob, a few strays and points on the edges of cells."""
    rng = np.random.default_rng(seed)
    low, high = np.array(box.lower), np.array(box.upper)
    blob = low + (high - low) * rng.normal(0.3, 0.05, (size, box.dimensions))
    strays = low + (high - low) * rng.random((size // 50, box.dimensions))
    edges = low + (high - low) * rng.integers(0, 9, (size // 50, box.dimensions)) / 8
    return box.clip(np.concatenate([blob, strays, edges])).points


@cache
def run_of(d: int, seed: int = 1, **options: Any) -> tuple[Run, Floats]:
    box = BOX if d == 2 else Box((0,) * d, (1,) * d)
    task = Task.build(box, **{"epsilon": 2.0, "delta": 0.05, "k": 20, **options})
    points = shape(box, 3000, seed)
    return simulate(points, task, rng=np.random.default_rng(seed)), points


KINDS: dict[str, dict[str, Any]] = {
    "binary trim": {},
    "quad trim": {"tree": "quad"},
    "binary all": {"rule": "all"},
    "binary each": {"rule": "each"},
    "quad each": {"rule": "each", "tree": "quad"},
    "roll call": {"max_rounds": 5},
    "laplace": {"randomizer": "discrete-laplace", "epsilon": 6.0},
}
every = pytest.mark.parametrize("kind", KINDS)


@every
@pytest.mark.parametrize("d", [1, 2, 3])
def test_regions_and_trimmed_parts_tile_the_domain(kind: str, d: int) -> None:
    """Spans of deepest cells, exact in integers: nothing is covered twice and nothing left out."""
    run, _ = run_of(d, **KINDS[kind])
    partition, tree = run.partition, run.task.hierarchy
    first, last = tree.span(np.concatenate([partition.cells, partition.trimmed_cells]))
    order = np.argsort(first)
    assert int(first[order[0]]) == 1 << tree.path_bits  # type: ignore[union-attr]
    assert int(last[order[-1]]) == (2 << tree.path_bits) - 1  # type: ignore[union-attr]
    assert (first[order[1:]] == last[order[:-1]] + np.uint64(1)).all()
    assert (np.diff(tree.span(partition.cells)[0].astype(object)) > 0).all()  # in the order of the curve
    if d == 2 and "trim" in kind:
        assert len(partition.trimmed_cells) > 0


@every
@pytest.mark.parametrize("d", [1, 2, 3])
def test_unmoved_points_are_inside_their_region_and_moved_ones_are_put_there(kind: str, d: int) -> None:
    run, points = run_of(d, **KINDS[kind])
    where = run.partition.locate(points)
    boxes = run.partition.boxes[run.regions]
    upper = np.array(run.task.box.upper)
    at_end = (points == upper) & (boxes[:, 1] == upper)
    inside = ((points >= boxes[:, 0]) & ((points < boxes[:, 1]) | at_end)).all(axis=1)
    assert (where[run.moves == 0] == run.regions[run.moves == 0]).all()
    assert (where[run.moves > 0] == -1).all()  # which region they were moved into is drawn
    assert inside[run.moves == 0].all()
    acting = run.acting(points)
    assert (acting[run.moves == 0] == points[run.moves == 0]).all()
    assert (run.partition.locate(acting) == run.regions).all()
    assert ((acting >= boxes[:, 0]) & ((acting < boxes[:, 1]) | (acting == upper))).all()


@pytest.mark.parametrize("kind", ["binary trim", "quad trim", "binary all", "roll call", "laplace"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_transcript_alone_gives_the_partition(kind: str, d: int) -> None:
    run, points = run_of(d, **KINDS[kind])
    closings = [event for event in run.events if isinstance(event, Closed)]
    again = Partition.from_closings(run.task, closings)
    for name in ("cells", "crowds", "estimates", "path_trims"):
        assert np.array_equal(getattr(again, name), getattr(run.partition, name), equal_nan=name == "estimates"), name
        assert getattr(again, name).dtype == getattr(run.partition, name).dtype
    for name in ("cells", "kept", "estimates", "responders"):
        assert np.array_equal(getattr(again.trims, name), getattr(run.partition.trims, name)), name
    assert (again.locate(points) == np.where(run.moves > 0, -1, run.regions)).all()
    assert (again.trimmed_cells == run.partition.trimmed_cells).all()


def test_closings_that_do_not_belong_or_are_not_all_there_are_refused() -> None:
    run, _ = run_of(2)
    closings = [event for event in run.events if isinstance(event, Closed)]
    with pytest.raises(InvalidInput, match="still open"):
        Partition.from_closings(run.task, closings[:-1])
    with pytest.raises(InvalidInput, match="still open"):
        Partition.from_closings(run.task, [])
    with pytest.raises(InvalidInput, match="does not belong"):
        Partition.from_closings(run.task, closings[1:])
    other, _ = run_of(2, k=21)
    with pytest.raises(InvalidInput, match="does not belong"):
        Partition.from_closings(other.task, closings)
    each, _ = run_of(2, rule="each")
    with pytest.raises(InvalidInput, match="its crowd is not public"):
        Partition.from_closings(each.task, [event for event in each.events if isinstance(event, Closed)])


def test_paths_count_their_trims_and_only_trimmed_runs_have_any() -> None:
    run, _ = run_of(2)
    partition, tree = run.partition, run.task.hierarchy
    for cell, count in zip(partition.cells.tolist(), partition.path_trims.tolist(), strict=True):
        path = {cell >> level for level in range(1, cell.bit_length())}
        assert count == len(path & set(partition.trims.cells.tolist()))
    assert partition.path_trims.max() <= run.task.max_trims
    assert (tree.depth(partition.trims.cells) == np.sort(tree.depth(partition.trims.cells))).all()  # in order of rounds
    assert len(run_of(2, rule="all")[0].partition.trims.cells) == 0


def test_share_below_k_counts_participants() -> None:
    run, points = run_of(2, rule="each")
    crowds = np.bincount(run.regions, minlength=len(run.partition))
    assert run.partition.share_below_k == pytest.approx((crowds[run.regions] < 20).sum() / len(points))
    assert run.partition.share_below_k > 0
    assert len(run.partition) == len(run.partition.cells)


def test_points_outside_have_no_region() -> None:
    run, _ = run_of(2)
    with pytest.raises(OutsideDomain, match="1 of 1 points"):
        run.partition.locate([[11.0, 0.0]])


def test_drawn_regions_of_moved_positions_are_as_in_a_run() -> None:
    """Regions of moved people in a run, against regions drawn for the same points.

    Each region's count is a sum of independent draws: |difference| < 6 standard errors, false alarm 2e-9 per region.
    Planted bug: the first kept child instead of a draw.
    """
    run, points = run_of(2)
    moved = run.moves > 0
    assert moved.sum() > 50
    rng = np.random.default_rng(8)
    drawn = [
        run.partition.locate(points[moved], words=lambda count: rng.integers(0, 2**64, count, dtype=np.uint64))
        for _ in range(200)
    ]
    counts = np.bincount(np.concatenate(drawn), minlength=len(run.partition)) / len(drawn)
    got = np.bincount(run.regions[moved], minlength=len(run.partition))
    assert (np.abs(got - counts) < 6 * np.sqrt(counts + 1)).all()
    first = np.zeros(len(run.partition))
    first[np.argmax(counts)] = moved.sum()
    assert not (np.abs(first - counts) < 6 * np.sqrt(counts + 1)).all()


def test_a_partition_with_a_hole_is_noticed() -> None:
    run, points = run_of(2)
    whole = run.partition
    holey = Partition(
        whole.task, whole.cells[1:], whole.crowds[1:], whole.estimates[1:], whole.path_trims[1:], whole.trims
    )
    with pytest.raises(InvalidInput, match="does not cover its domain"):
        holey.locate(points)


# -- ways out ------------------------------------------------------------------------------------------------------


def ring_area(ring: list[list[float]]) -> float:
    """Shoelace; positive for a ring that turns left."""
    return sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in itertools.pairwise(ring)) / 2


@pytest.mark.parametrize("kind", ["binary trim", "quad trim", "binary all", "binary each"])
def test_geojson_is_valid_and_its_areas_add_up_to_the_domain(kind: str) -> None:
    run, points = run_of(2, **KINDS[kind])
    collection = json.loads(json.dumps(run.partition.to_geojson(), allow_nan=False))
    assert collection["type"] == "FeatureCollection"
    assert "public by design" in collection["note"]
    areas = []
    for feature in collection["features"]:
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        (ring,) = feature["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        assert len(ring) == 5
        assert all(-10 <= x <= 10 and -5 <= y <= 5 for x, y in ring)
        areas.append(ring_area(ring))
    assert min(areas) > 0  # exterior rings turn left, as RFC 7946 wants
    assert sum(areas) == pytest.approx(20 * 10, rel=1e-12)
    regions = [f["properties"] for f in collection["features"] if f["properties"]["kind"] == "region"]
    trimmed = [f["properties"] for f in collection["features"] if f["properties"]["kind"] == "trimmed"]
    assert len(regions) + len(trimmed) == len(collection["features"])
    assert [int(properties["cell"]) for properties in regions] == run.partition.cells.tolist()
    assert [int(properties["cell"]) for properties in trimmed] == run.partition.trimmed_cells.tolist()
    if run.task.rule == "each":
        return
    assert sum(properties["crowd"] for properties in regions) == len(points)
    for properties, area in zip(regions, areas, strict=False):
        assert properties["density"] == pytest.approx(properties["crowd"] / area, rel=1e-9)


def test_geojson_is_written_to_a_file(tmp_path: pathlib.Path) -> None:
    run, _ = run_of(2)
    run.partition.save_geojson(str(tmp_path / "regions.geojson"))
    assert json.loads((tmp_path / "regions.geojson").read_text(encoding="utf-8")) == run.partition.to_geojson()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_table_has_one_row_per_region_with_its_bounds(d: int) -> None:
    run, points = run_of(d)
    table = run.partition.to_table()
    names = run.task.box.names
    bounds = [f"{name}_{end}" for name in names for end in ("lower", "upper")]
    assert list(table) == ["cell", "depth", "crowd", "trims", *bounds]
    assert {len(column) for column in table.values()} == {len(run.partition)}
    assert table["crowd"].sum() == len(points)
    assert (table["depth"] == [int(cell).bit_length() - 1 for cell in table["cell"]]).all()
    for axis, name in enumerate(names):
        assert (table[f"{name}_lower"] == run.partition.boxes[:, 0, axis]).all()
        assert (table[f"{name}_upper"] == run.partition.boxes[:, 1, axis]).all()


def test_plot_draws_every_region_on_the_axes_it_was_given() -> None:
    run, points = run_of(2)
    axes = run.partition.plot()
    assert isinstance(axes, Axes)
    regions = axes.collections[0]
    assert len(regions.get_paths()) == len(run.partition)
    assert len(axes.collections[1].get_paths()) == len(run.partition.trimmed_cells)
    assert axes.get_xlim() == (-10, 10)
    assert axes.get_ylim() == (-5, 5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("longitude", "latitude")
    assert any("public by design" in other.get_ylabel() for other in axes.figure.axes)
    axes.figure.canvas.draw()
    _, mine = plt.subplots()
    assert run.partition.plot(mine, points=points) is mine
    assert len(mine.lines) == 1
    plt.close("all")


def test_a_partition_of_one_empty_region_can_be_drawn() -> None:
    task = Task.build(BOX, epsilon=1.0, delta=0.05, k=1)
    with pytest.warns(NoCrowdWarning):
        run = simulate(np.empty((0, 2)), task, rng=np.random.default_rng(0))
    run.partition.plot().figure.canvas.draw()
    assert run.partition.to_geojson()["features"][0]["properties"]["density"] == 0
    plt.close("all")


@pytest.mark.parametrize("d", [1, 3])
def test_maps_need_two_dimensions(d: int) -> None:
    run, _ = run_of(d)
    with pytest.raises(InvalidInput, match=f"a map needs two dimensions; these regions have {d}"):
        run.partition.to_geojson()
    with pytest.raises(InvalidInput, match=f"a picture needs two dimensions; this partition has {d}"):
        run.partition.plot()
