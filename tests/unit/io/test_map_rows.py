"""What maps show: every frame covers the domain once, with its people and the pieces inside regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import Box, Task, simulate
from semilocal.geometry.places import named_box
from semilocal.geometry.units import areas, aspect, is_map
from semilocal.hierarchy import SphereTree
from semilocal.hierarchy.tables import from_labels
from semilocal.io.map_rows import MOST_LABELS, OPEN, REGION, Rows, domain_json, partition_rows, split_rows
from semilocal.pooled.task import PooledTask
from semilocal.release.counts import pooled_counts, run_pooled
from semilocal.simulation.simulate import Run
from semilocal.testing import cluster, unit_box


def played_run(rule: str = "cut", tree: str = "binary", *, dimensions: int = 2, size: int = 4000) -> Run:
    task = Task.build(unit_box(dimensions), epsilon=2.0, delta=1e-3, k=20, rule=rule, tree=tree)  # type: ignore[arg-type]
    return simulate(cluster(size, dimensions), task, rng=np.random.default_rng(3))


@pytest.mark.parametrize("tree", ["binary", "quad"])
@pytest.mark.parametrize("rule", ["all", "cut"])
def test_every_frame_covers_the_domain_once_and_the_last_one_is_the_partition(rule: str, tree: str) -> None:
    run = played_run(rule, tree)
    rounds = split_rows(run.partition, run.splits)
    ended: list[Rows] = []
    for rows in rounds:
        shown = Rows.join([*ended, rows])  # what the page puts together
        ended.append(rows.take(np.flatnonzero(rows.state != OPEN)))
        assert shown.area.sum() == pytest.approx(1.0)
        assert shown.crowd.sum() == 4000
        assert len(set(shown.lower.tolist())) == len(shown)
    assert not np.any(shown.state == OPEN)
    assert sorted(shown.lower.tolist()) == run.partition.lower.tolist()
    assert len(rounds) == max(len(np.unique(run.splits.rounds)), 1)


@pytest.mark.parametrize("rule", ["all", "cut"])
def test_the_pieces_of_a_region_share_its_area_and_its_people(rule: str) -> None:
    run = played_run(rule)
    rows = partition_rows(run.partition)
    walls = np.diff(run.partition.walls.first)
    assert [len(pieces) for pieces in rows.pieces] == np.where(walls, walls + 1, 0).tolist()
    assert np.any(walls)
    drawn = rows.to_json(run.task.hierarchy)["pieces"]
    for row in np.flatnonzero(walls).tolist():
        assert sum(piece.people for piece in rows.pieces[row]) == pytest.approx(rows.crowd[row])
        assert sum(piece["area"] for piece in drawn[row]) == pytest.approx(rows.area[row], rel=1e-3)
        codes = [code for piece in rows.pieces[row] for code in piece[:2]]
        assert codes == sorted(codes)
        assert (codes[0], codes[-1]) == (rows.lower[row], rows.upper[row])


def test_one_dimension_is_a_strip() -> None:
    run = played_run(dimensions=1, size=500)
    columns = partition_rows(run.partition).to_json(run.task.hierarchy)
    assert set(columns["y0"]) == {0.0}
    assert set(columns["y1"]) == {1.0}
    assert min(columns["x0"]) == 0.0
    drawn = [piece["rings"][0] for pieces in columns["pieces"] for piece in pieces]
    assert drawn
    assert all(min(ring[1::2]) == 0.0 and max(ring[1::2]) == 1.0 for ring in drawn)


def test_columns_are_ready_for_json_and_as_long_as_the_rows() -> None:
    run = played_run()
    rows = split_rows(run.partition, run.splits)[3]
    columns: dict[str, Any] = rows.to_json(run.task.hierarchy)
    assert {len(column) for column in columns.values()} == {len(rows)}
    plain = [column for name, column in columns.items() if name not in ("rings", "pieces")]
    assert all(type(value) in (int, float, str) for column in plain for value in column)


def test_the_sphere_has_outlines_and_labels_come_along() -> None:
    globe = SphereTree(6)
    task = Task.build(hierarchy=globe, epsilon=4.0, delta=1e-2, k=5, resolution=0)
    everywhere = np.random.default_rng(3).uniform([-180, -80], [180, 80], (300, 2))
    rows = partition_rows(simulate(everywhere, task, rng=np.random.default_rng(4)).partition)
    columns = rows.to_json(globe)
    assert len(columns["rings"]) == len(rows) > 1
    assert "label" not in columns
    assert all(piece["rings"] for pieces in columns["pieces"] for piece in pieces)
    icd = from_labels("ICD", [("IX", "I21"), ("IX", "I25"), ("X", "J18")])
    coded = simulate(
        icd.positions(["I21"] * 100 + ["J18"] * 100), Task.build(hierarchy=icd, epsilon=4.0, delta=1e-2, k=5),
        rng=np.random.default_rng(1),
    )  # fmt: skip
    labelled = partition_rows(coded.partition).to_json(icd)
    assert labelled["label"] == icd.interval_names(coded.partition.lower, coded.partition.upper)
    assert "rings" not in labelled


def test_a_finished_partition_is_a_frame_in_every_mode_of_trust() -> None:
    run = played_run()
    rows = partition_rows(run.partition)
    assert np.array_equal(rows.crowd, run.partition.crowds)
    assert np.all(rows.state == REGION)
    pooled = run_pooled(
        PooledTask.build(unit_box(), epsilon=1.0, trust="curator"), cluster(2000), rng=np.random.default_rng(1)
    )
    cells = partition_rows(pooled_counts(pooled).partition)
    assert np.all(cells.half > 0)
    assert not np.any(rows.half)
    assert cells.area.sum() == pytest.approx(1.0)


def test_areas_on_the_globe_are_square_kilometres() -> None:
    box = named_box("world")
    assert is_map(box)
    assert areas(np.array([[[0.0, 0.0], [1.0, 1.0]]]), geographic=True)[0] == pytest.approx(12_364, rel=1e-3)
    assert not is_map(unit_box())
    assert aspect(Box((0, 59), (1, 61), names=("lon", "lat"))) == pytest.approx(2.0)
    assert domain_json(box)["unit"] == "km²"
    assert set(domain_json(named_box("california"))["places"]) == {"san-francisco", "los-angeles"}
    assert "california" in domain_json(box)["places"]
    assert "world" not in domain_json(box)["places"]
    assert not domain_json(box)["labelled"]


def test_labels_of_a_tree_are_places_to_ask_about() -> None:
    tree = from_labels("code", [("heart", "I20"), ("heart", "I21"), ("lung", "J18")])
    domain = domain_json(tree.box, tree)
    assert domain["labelled"]
    assert domain["places"]["heart"] == [0.0, 0.0, 2.0, 1.0]
    assert domain["places"]["J18"] == [2.0, 0.0, 3.0, 1.0]
    assert list(domain["places"]) == tree.all_labels
    many = from_labels("code", [(f"part {number // 200}", f"code {number}") for number in range(MOST_LABELS)])
    assert domain_json(many.box, many)["places"] == {}  # too many for a list
