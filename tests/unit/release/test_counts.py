"""Range counts: exact where the transcript is exact, consistent, fast, and honest about the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.experiments import workloads
from semilocal.geometry.index import count_points
from semilocal.protocol.promise import promise
from semilocal.release import counts
from semilocal.release._moves import Moves, _unseen
from semilocal.release._tiles import Tiles
from semilocal.release.boxes import mean_relative_error
from semilocal.simulation import synthetic
from semilocal.testing import unit_box
from tests.helpers.release_runs import crowded, run_of

Floats = npt.NDArray[np.float64]


def whole(box: sl.Box) -> Floats:
    return np.array([[box.lower, box.upper]])


def closed(boxes: Floats, box: sl.Box) -> Floats:
    """The same boxes with the upper edge of the domain inside."""
    out = boxes.copy()
    out[:, 1] = np.where(boxes[:, 1] == box.upper, np.inf, boxes[:, 1])
    return out


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"rule": "all"}, {"max_rounds": 3}, {"tree": "quad"}, {"rule": "each"}])
def test_the_whole_domain_holds_everybody_exactly(dimensions: int, options: dict[str, Any]) -> None:
    points, run = run_of(dimensions, seed=40, **options)
    result = counts(run)
    answer = result.query(whole(run.task.box))
    assert result.total == len(points)
    assert answer.value[0] == pytest.approx(len(points), abs=1e-6)
    assert answer.stderr[0] == 0
    assert answer.interval()[0] == pytest.approx([len(points), len(points)], abs=1e-6)


def test_after_dropouts_the_whole_domain_holds_who_is_left() -> None:
    rng = np.random.default_rng(41)
    points = crowded(4_000, 2, rng)
    run = sl.simulate(points, sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20), rng=rng, dropout=0.03)
    left = np.count_nonzero(run.regions != -1)
    assert left < len(points)
    assert counts(run).query(whole(run.task.box)).value[0] == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_regions_are_exact_where_nobody_was_moved(dimensions: int) -> None:
    rng = np.random.default_rng(42)
    points = rng.random((4_000, dimensions))
    run = sl.simulate(points, sl.Task.build(unit_box(dimensions), epsilon=2.0, delta=0.05, k=20, rule="all"), rng=rng)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    truth = count_points(points, closed(boxes, run.task.box))
    assert len(boxes) > 10
    assert answers.value == pytest.approx(truth, abs=1e-6)
    assert (answers.stderr == 0).all()
    assert not answers.uncertain


def test_regions_that_nobody_can_have_been_moved_into_stay_exact() -> None:
    points, run = run_of(2, seed=43, size=6_000)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    truth = count_points(points, closed(boxes, run.task.box))
    exact = answers.stderr == 0
    assert answers.uncertain
    assert 0 < exact.sum() < len(exact)
    assert answers.value[exact] == pytest.approx(truth[exact], abs=1e-6)
    assert (answers.value <= run.partition.crowds + 1e-9).all()  # people are taken out of regions, never put in


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_regions_and_trimmed_parts_add_up_to_everybody(dimensions: int) -> None:
    points, run = run_of(dimensions, seed=44)
    trimmed = run.task.hierarchy.boxes(run.partition.trimmed_cells)
    assert len(trimmed)
    answers = counts(run).query(np.concatenate([run.partition.boxes, trimmed]))
    assert answers.value.sum() == pytest.approx(len(points), abs=1e-6)
    moved = answers.moved.value
    assert moved.sum() == pytest.approx(0, abs=1e-6)  # whoever was moved into a region is missing elsewhere
    assert np.abs(moved).max() > 1
    assert (answers.value >= -1e-9).all()


def test_the_error_of_any_box_is_what_the_halves_of_regions_add() -> None:
    """Oracle: with s and t the shares of the halves of a region that a box covers, V (s - t)² for the division and
    people x s (1 - s) for how people lie in each half, summed in plain loops."""
    rng = np.random.default_rng(45)
    points = rng.random((1_500, 2))
    run = sl.simulate(points, sl.Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=20, rule="all"), rng=rng)
    partition, hierarchy = run.partition, run.task.hierarchy
    result = counts(run)
    lower = rng.random((40, 2)) * 0.8
    queries = np.stack([lower, np.minimum(lower + rng.random((40, 2)), 1.0)], axis=1)
    children = hierarchy.boxes(hierarchy.children(partition.cells)).reshape(-1, 2, 2, 2)
    people = result.query(children.reshape(-1, 2, 2)).value.reshape(-1, 2)
    assert people.sum(axis=1) == pytest.approx(partition.crowds)
    noise = run.task.randomizer.variance(0.5)
    answers = result.query(queries)
    for query, value, stderr in zip(queries, answers.value, answers.stderr, strict=True):
        expected, variance = 0.0, 0.0
        for halves, inside, crowd in zip(children, people, partition.crowds, strict=True):
            shares = []
            for half in halves:
                side = np.maximum(np.minimum(half[1], query[1]) - np.maximum(half[0], query[0]), 0.0)
                shares.append(float(np.prod(side / (half[1] - half[0]))))
            shrunk = crowd**2 / (1 / 0.25**2 + crowd / noise)
            expected += float(inside @ np.array(shares))
            variance += shrunk * (shares[0] - shares[1]) ** 2
            variance += float(sum(n * s * (1 - s) for n, s in zip(inside, shares, strict=True)))
        assert value == pytest.approx(expected, rel=1e-9)
        assert stderr == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_a_query_that_holds_a_whole_trimmed_cell_does_not_feel_its_moves() -> None:
    points, run = run_of(2, seed=46)
    hierarchy, trims = run.task.hierarchy, run.partition.trims
    first = trims.cells[np.argmin(hierarchy.depth(trims.cells))][None]  # nobody was moved into it from outside
    answer = counts(run).query(hierarchy.boxes(first))
    truth = count_points(points, closed(hierarchy.boxes(first), run.task.box))
    assert answer.stderr[0] == 0
    assert answer.value[0] == pytest.approx(truth[0], abs=1e-6)


def test_the_division_of_a_region_follows_the_last_rounds_estimates() -> None:
    _, run = run_of(2, seed=47, rule="all")
    children = run.task.hierarchy.boxes(run.task.hierarchy.children(run.partition.cells))
    first, second = counts(run).query(children).value.reshape(-1, 2).T
    estimates = run.partition.estimates
    clear = np.abs(estimates[:, 0] - estimates[:, 1]) > 0.1 * run.partition.crowds
    assert clear.any()
    assert np.array_equal((first > second)[clear], (estimates[:, 0] > estimates[:, 1])[clear])
    plain = np.abs(estimates[:, 0] - estimates[:, 1])
    assert (np.abs(first - second) <= plain + 1e-9)[clear].all()  # shrunk towards an even division


def test_density_adds_up_and_agrees_with_queries() -> None:
    points, run = run_of(2, seed=48)
    result = counts(run)
    density = result.density((16, 8))
    assert density.shape == (16, 8)
    assert density.sum() == pytest.approx(len(points), abs=1e-6)
    x, y = np.linspace(0, 1, 17), np.linspace(0, 1, 9)
    boxes = np.array([[[x[i], y[j]], [x[i + 1], y[j + 1]]] for i in range(16) for j in range(8)])
    assert density.ravel() == pytest.approx(result.query(boxes).value, abs=1e-6)


def test_intervals_stay_between_nobody_and_everybody() -> None:
    points, run = run_of(2, seed=49)
    rng = np.random.default_rng(49)
    lower = rng.random((200, 2)) * 0.9
    ends = counts(run).query(np.stack([lower, lower + 0.1], axis=1)).interval(0.999)
    assert (ends >= 0).all()
    assert (ends <= len(points)).all()
    assert (ends[:, 0] <= ends[:, 1]).all()


def test_an_interval_covers_both_nobody_moved_and_many() -> None:
    """A region next to an empty part keeps its crowd inside the interval; the crowd is where the interval ends."""
    points, run = run_of(2, seed=43, size=6_000)
    answers = counts(run).query(run.partition.boxes)
    ends = answers.interval()
    crowds = run.partition.crowds
    assert (ends[:, 1] <= crowds + 1e-9).all()  # people can only have been moved in
    assert np.isclose(ends[:, 1], crowds).any()
    trimmed = run.task.hierarchy.boxes(run.partition.trimmed_cells)
    parts = counts(run).query(trimmed)
    assert (parts.interval()[:, 0] == 0).any()
    assert (parts.interval()[:, 1] > 0).all()
    assert len(points) == answers.total


@pytest.mark.parametrize("options", [{}, {"tree": "quad"}])
def test_people_of_a_part_went_where_the_model_says(options: dict[str, Any]) -> None:
    """Every real participant of a trimmed part arrives, at once, at one of the places that take a share of it.

    Planted bug: a model that knows no moves after moves.
    """
    rng = np.random.default_rng(55)
    points = synthetic.clusters(5_000, rng)
    run = sl.simulate(points, sl.Task.build(unit_box(2), epsilon=3.0, delta=0.05, k=20, **options), rng=rng)
    partition = run.partition
    tiles = Tiles.of(partition)
    moves = Moves.of(partition, tiles)
    assert len(moves.parts.cells) > 3
    assert [share.sum() for share in moves.shares] == pytest.approx([1.0] * len(moves.shares))
    codes, steps = partition.trace(run.task.hierarchy.codes(points))
    first = run.task.hierarchy.span(tiles.cells)[0]
    at = np.full(len(points), -1)
    went: set[tuple[int, int]] = set()
    for who, part in steps:
        went |= {(int(a), int(b)) for a, b in zip(at[who], part + len(tiles.cells), strict=True) if a >= 0}
        at[who] = part
    moved = np.flatnonzero(at >= 0)
    tile = np.searchsorted(first, codes[moved], side="right") - 1
    went |= {(int(a), int(b)) for a, b in zip(at[moved], tile, strict=True)}
    modelled = {(part, int(place)) for part, places in enumerate(moves.places) for place in places}
    assert went <= modelled
    assert not went <= {(part, place) for part, place in modelled if place < len(tiles.cells)}


def test_net_moves_are_what_places_and_shares_add_up_to() -> None:
    """Oracle: plain loops over all parts and places, for boxes of any kind."""
    _, run = run_of(2, seed=56, size=3_000)
    tiles = Tiles.of(run.partition)
    moves = Moves.of(run.partition, tiles)
    places = np.concatenate([tiles.boxes, moves.parts.boxes])
    rng = np.random.default_rng(56)
    lower = rng.random((30, 2)) * 0.9
    queries = np.concatenate([run.partition.boxes, np.stack([lower, lower + rng.random((30, 2))], axis=1)])

    def covered(query: Floats, box: Floats) -> float:
        side = np.maximum(np.minimum(query[1], box[1]) - np.maximum(query[0], box[0]), 0.0)
        return float(np.prod(side / (box[1] - box[0])))

    found = moves.across(queries)
    for row, query in enumerate(queries):
        value = variance = inwards = outwards = 0.0
        for part, (number, noise) in enumerate(zip(moves.parts.estimates, moves.parts.noise, strict=True)):
            arrives = sum(
                share * covered(query, places[place])
                for share, place in zip(moves.shares[part], moves.places[part], strict=True)
            )
            starts = covered(query, moves.parts.boxes[part])
            people = max(number, 0.0)
            value += (arrives - starts) * number
            variance += (arrives - starts) ** 2 * noise + starts * (1 - starts) * people
            variance += arrives * (1 - arrives) * (people + tiles.clumping * max(number**2 - noise, 0.0))
            inwards += max(arrives - starts, 0.0) * moves.parts.unseen[part]
            outwards += max(starts - arrives, 0.0) * moves.parts.unseen[part]
        assert found.value[row] == pytest.approx(value, abs=1e-6)
        assert found.stderr[row] ** 2 == pytest.approx(variance, abs=1e-4, rel=1e-6)
        assert found.unseen_in[row] == pytest.approx(inwards, abs=1e-6)
        assert found.unseen_out[row] == pytest.approx(outwards, abs=1e-6)


def test_what_small_estimates_hide_is_the_most_likely_mean_under_the_limit() -> None:
    """Oracle: the likelihood of a draw below a limit, on a fine grid of means; cut off at 1.5."""
    room = np.array([3.0, 2.0, 1.5, 1.0, 0.7, 0.1, 0.0])
    shifts = np.linspace(0, 1.5, 15_001)
    from scipy.stats import norm

    for one, found in zip(room, _unseen(room), strict=True):
        likelihood = norm.logpdf(-shifts) - norm.logcdf(one - shifts)
        assert found == pytest.approx(shifts[np.argmax(likelihood)], abs=2e-3)


def test_clumping_is_read_off_the_run() -> None:
    """People in pairs of far points clump; evenly spread people do not. Few regions: the usual value."""
    rng = np.random.default_rng(57)
    task = sl.Task.build(unit_box(2), epsilon=3.0, delta=0.05, k=20, rule="all")
    even = rng.random((6_000, 2))
    clumped = np.repeat(rng.random((30, 2)), 200, axis=0) + rng.normal(0, 1e-4, (6_000, 2))
    found = [
        Tiles.of(sl.simulate(points.clip(0, 1), task, rng=rng).partition).clumping
        for points in (even, clumped, even[:30])
    ]
    assert found[0] < 0.1
    assert found[1] > 0.3
    assert 0.1 < found[2] < 0.45


def test_the_guarantee_states_both_losses_adjacency_delta_and_what_is_public() -> None:
    _, run = run_of(2, seed=50, epsilon=0.5)
    said = counts(run).guarantee
    most = int(run.partition.path_trims.max())
    assert said == promise(run.task, trims=most, counted="run", simulated=True)
    assert said.moved == pytest.approx(0.5 * (1 + most))
    assert "public by design" in said.text()
    assert "curator" in said.text()  # one program held all positions
    _, exposed = run_of(2, seed=50, rule="each")
    assert "NOT kept" in counts(exposed).guarantee.text()


def test_counts_cost_nothing_beyond_the_partition() -> None:
    _, run = run_of(2, seed=51)
    assert counts(run).spent == sl.Ledger.of(run.task).settle(run.partition)
    spent = sl.Ledger.of(run.task).spend("mean", 1.0)
    assert counts(run, ledger=spent).spent == spent.settle(run.partition)


@pytest.mark.parametrize(
    "wrong", [[[0, 0], [1, 1]], [[[0, 0, 0], [1, 1, 1]]], [[[0.5, 0.5], [0.1, 0.9]]], [[[np.nan, 0], [1, 1]]], "box"]
)
def test_what_is_no_box_is_refused(wrong: Any) -> None:
    _, run = run_of(2, seed=52)
    with pytest.raises(InvalidInput):
        counts(run).query(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "target"), [(1.0, 0.35), (2.0, 0.20), (3.0, 0.15)])
def test_clustered_range_queries_reach_their_targets(epsilon: float, target: float) -> None:
    """Mean relative error, N = 20,000, k = 20, delta = 0.05, accounting core, 60 runs with a fixed seed."""
    rng = np.random.default_rng(54)
    errors = []
    for _ in range(60):
        points = synthetic.clusters(20_000, rng)
        queries = workloads.uniform_queries(100, rng)
        result = sl.counts(points, synthetic.UNIT_SQUARE, epsilon=epsilon, delta=0.05, k=20, rng=rng)
        truth = count_points(points, queries)
        floor = workloads.uniform_floor(len(points))
        errors.append(mean_relative_error(result.query(queries).value, truth, floor=floor))
    assert np.mean(errors) <= target
