"""What maps show: every frame covers the domain once, and the reasons say what the rule did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import Box, Task, simulate
from semilocal.geometry.earth import areas, aspect, is_map
from semilocal.geometry.places import named_box
from semilocal.hierarchy import ROOT, SphereTree
from semilocal.hierarchy.tables import from_labels
from semilocal.io.map_rows import MOST_LABELS, OPEN, REGION, TRIMMED, domain_json, frame, partition_rows, round_rows
from semilocal.io.verdicts import child_spread, part_names, stop_reasons
from semilocal.pooled.task import PooledTask
from semilocal.protocol.rule import PlayedRound, decide, frontier_at
from semilocal.release.pooled_counts import pooled_counts, run_pooled
from semilocal.simulation.run import Run
from semilocal.testing import cluster, unit_box


def played_run(rule: str, tree: str = "binary", *, dimensions: int = 2, size: int = 4000) -> Run:
    task = Task.build(unit_box(dimensions), epsilon=2.0, delta=1e-3, k=20, rule=rule, tree=tree)  # type: ignore[arg-type]
    return simulate(cluster(size, dimensions), task, rng=np.random.default_rng(3))


@pytest.mark.parametrize("tree", ["binary", "quad"])
@pytest.mark.parametrize("rule", ["all", "trim", "each"])
def test_every_frame_covers_the_domain_once_and_the_last_one_has_the_partition(rule: str, tree: str) -> None:
    run = played_run(rule, tree)
    rounds = [round_rows(run.task, played) for played in run.rounds]
    for number in range(1, len(rounds) + 1):
        shown = frame(rounds, number)
        assert areas(shown.boxes, geographic=False).sum() == pytest.approx(1.0)
        assert len(set(shown.cells.tolist())) == len(shown)
    regions = shown.state == REGION
    assert set(shown.cells[regions].tolist()) == set(run.partition.cells.tolist())
    assert not np.any(shown.state == OPEN)
    if rule != "each":
        assert shown.crowd[regions].sum() == run.partition.crowds.sum()
        assert set(shown.cells[shown.state == TRIMMED].tolist()) == set(run.partition.trimmed_cells.tolist())


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
def test_everything_that_is_not_open_has_a_reason_and_the_reason_names_k(rule: str) -> None:
    run = played_run(rule)
    for played in run.rounds:
        rows = round_rows(run.task, played)
        for state, reason in zip(rows.state.tolist(), rows.reason, strict=True):
            assert (reason == "") == (state == OPEN)
            if reason and played.tally.shape[1]:
                assert f"k = {run.task.k}" in reason
                assert reason.startswith(("Not split", "Left behind") if state == REGION else "Trimmed")


def test_the_needed_estimate_is_the_one_that_the_rule_measures_against() -> None:
    """For all tallies of a cell: a child goes on exactly if its estimate reaches what the words call needed."""
    for liars in (0, 3):
        task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.05, k=20, rule="each", tolerate_liars=liars)
        for responders in (10, 60, 200):
            left = np.arange(responders + 1)
            cells = np.arange(256, 257 + responders, dtype=np.uint64)  # of depth 8: one for every tally
            frontier = frontier_at(cells)
            sums, size = np.stack([left, responders - left], axis=1), np.full(len(cells), responders)
            ruling = decide(task, frontier, size, sums)
            needed = child_spread(task, PlayedRound(9, frontier, size, sums, ruling)).needed
            assert np.array_equal(ruling.kept, ruling.estimates >= needed - 1e-9)
            assert ruling.kept.any() == (responders > 20 + liars)


def test_a_region_that_the_resolution_stops_says_so() -> None:
    task = Task.build(unit_box(), epsilon=4.0, delta=1e-3, k=5, resolution=0.2)
    run = simulate(cluster(4000), task, rng=np.random.default_rng(3))
    reasons = [reason for played in run.rounds for reason in round_rows(task, played).reason]
    sides = np.diff(run.partition.boxes, axis=1)
    assert any("below the task's resolution, 0.2" in reason for reason in reasons)
    assert sides.min() >= 0.2


def test_a_region_that_visitors_stop_says_so() -> None:
    task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.05, k=20)

    def reason(visitors: float, tally: list[int], doubt: float = 0.0) -> str:
        frontier = frontier_at([ROOT], visitors=visitors, doubt=doubt)
        size, sums = np.array([sum(tally)]), np.array([tally])
        played = PlayedRound(1, frontier, size, sums, decide(task, frontier, size, sums))
        (text,) = stop_reasons(task, played, np.array([0]), child_spread(task, played))
        return text

    assert "a crowd of 627 (more than k = 20, because at most 50 % may be visitors" in reason(600.0, [500, 500])
    assert "a crowd of 690 (more than k = 20, because at most 50 % may be visitors" in reason(600.0, [500, 500], 2000.0)
    assert "too few to prove a crowd of 2,485 (more than k = 20" in reason(2400.0, [500, 500])
    for trim in (reason(720.0, [665, 335]), reason(400.0, [665, 335], 4000.0)):
        assert "It was not trimmed: then more than 50 % of the people in what is kept could be visitors" in trim
    assert "visitors" not in reason(0.0, [10, 9])


def test_intervals_hold_the_estimate_and_stay_within_what_is_possible() -> None:
    run = played_run("trim")
    for played in run.rounds[:5]:
        spread = child_spread(run.task, played)
        inside = np.clip(played.ruling.estimates, 0, played.responders[:, None])
        assert np.all((spread.low <= inside + 1e-9) & (inside <= spread.high + 1e-9))
        assert np.all((spread.low >= 0) & (spread.high <= played.responders[:, None]))


def test_parts_are_named_by_where_they_are() -> None:
    root = np.array([ROOT, ROOT], dtype=np.uint64)
    globe = Task.build(named_box("california"), epsilon=1.0, delta=1e-3, k=20).hierarchy
    assert part_names(globe, root, np.array([0, 1])) == ["west half", "east half"]
    halves = globe.child(root, np.array([0, 0]))
    assert part_names(globe, halves, np.array([0, 1])) == ["south half", "north half"]
    plain = Task.build(unit_box(), epsilon=1.0, delta=1e-3, k=20, tree="quad").hierarchy
    assert part_names(plain, root, np.array([0, 3])) == [
        "quarter of lower x0, lower x1",
        "quarter of upper x0, upper x1",
    ]


def test_one_dimension_is_a_strip_and_three_are_no_map() -> None:
    run = played_run("trim", dimensions=1, size=500)
    columns = round_rows(run.task, run.rounds[0]).to_json(run.task.hierarchy)
    assert set(columns["y0"]) == {0.0}
    assert set(columns["y1"]) == {1.0}
    assert min(columns["x0"]) == 0.0


def test_columns_are_ready_for_json_and_as_long_as_the_rows() -> None:
    run = played_run("trim")
    rows = round_rows(run.task, run.rounds[3])
    columns: dict[str, Any] = rows.to_json(run.task.hierarchy)
    assert {len(column) for column in columns.values()} == {len(rows)}
    assert all(type(value) in (int, float, str) for column in columns.values() for value in column)


def test_cells_that_are_no_boxes_come_with_their_outlines_and_labels_come_along() -> None:
    globe = SphereTree(6)
    task = Task.build(hierarchy=globe, epsilon=4.0, delta=1e-2, k=5)
    everywhere = np.random.default_rng(3).uniform([-180, -80], [180, 80], (100, 2))
    rows = partition_rows(simulate(everywhere, task, rng=np.random.default_rng(4)).partition)
    columns = rows.to_json(globe)
    assert len(columns["rings"]) == len(rows)
    for outline, box in zip(columns["rings"], rows.boxes, strict=True):
        for ring in outline:
            corners = np.reshape(ring, (-1, 2))
            assert corners[0].tolist() == corners[-1].tolist()
            assert ((corners >= box[0] - 1e-5) & (corners <= box[1] + 1e-5)).all()
    assert "label" not in columns
    places = np.random.default_rng(5).uniform([-180, -90], [180, 90], (20, 2))
    small = SphereTree(24).locate(places, 24)
    exact, drawn = SphereTree(24).polygons(small), SphereTree(24).outlines(small)
    for rings, straight in zip(exact, drawn, strict=True):
        assert len(rings) == len(straight)
        for ring, simple in zip(rings, straight, strict=True):
            steps = np.linspace(0, len(simple) - 1, len(ring))
            drawn_at = np.stack([np.interp(steps, np.arange(len(simple)), axis) for axis in np.transpose(simple)])
            assert np.abs(drawn_at.T - ring).max() < np.ptp(ring, axis=0).max() / 200 + 1e-9
    assert min(len(rings[0]) for rings in drawn) == 5
    icd = from_labels("ICD", [("IX", "I21"), ("IX", "I25"), ("X", "J18")])
    coded = simulate(
        [[0.5]] * 60, Task.build(hierarchy=icd, epsilon=4.0, delta=1e-2, k=5), rng=np.random.default_rng(1)
    )
    labelled = partition_rows(coded.partition).to_json(icd)
    assert set(labelled["label"]) <= {label for row in icd.labels for label in row}
    assert "I21" in labelled["label"]
    assert "rings" not in labelled
    plain = played_run("trim", size=200)
    assert "rings" not in partition_rows(plain.partition).to_json(plain.task.hierarchy)


def test_leaves_of_a_table_are_regions_that_end_with_the_task() -> None:
    """The last round is a roll call of cells that have no parts; warnings are errors here."""
    tree = from_labels("code", [("heart", "I20"), ("heart", "I21"), ("lung", "J18"), ("lung", "J44")])
    points = tree.positions(np.random.default_rng(1).choice(["I20", "I21", "J18", "J44"], 900))
    run = simulate(points, Task.build(hierarchy=tree, epsilon=4.0, delta=1e-3, k=8), rng=np.random.default_rng(1))
    last = round_rows(run.task, run.rounds[-1])
    assert len(last.cells) == len(run.partition) == 4
    assert set(last.reason) == {"Not split: the task ends here, after 2 rounds."}


def test_a_finished_partition_is_a_frame_in_every_mode_of_trust() -> None:
    run = played_run("trim")
    rows = partition_rows(run.partition)
    assert np.array_equal(rows.crowd[rows.state == REGION], run.partition.crowds)
    assert areas(rows.boxes, geographic=False).sum() == pytest.approx(1.0)
    pooled = run_pooled(
        PooledTask.build(unit_box(), epsilon=1.0, trust="curator"), cluster(2000), rng=np.random.default_rng(1)
    )
    cells = partition_rows(pooled_counts(pooled).partition)
    assert np.all((cells.low <= cells.crowd) & (cells.crowd <= cells.high))
    assert np.any(cells.low < cells.high)


def test_areas_on_the_globe_are_square_kilometres() -> None:
    box = named_box("world")
    assert is_map(box)
    assert areas(np.array([[[0.0, 0.0], [1.0, 1.0]]]), geographic=True)[0] == pytest.approx(12_364, rel=1e-3)
    assert not is_map(unit_box())
    assert not is_map(Box((0, 0), (1, 100), names=("lon", "lat")))
    assert aspect(Box((0, 59), (1, 61), names=("lon", "lat"))) == pytest.approx(2.0)
    assert domain_json(box)["unit"] == "km²"
    assert set(domain_json(named_box("california"))["places"]) == {"san-francisco"}
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
