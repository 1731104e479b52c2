"""Range counts: exact where the transcript is exact, consistent, fast, and honest about the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.experiments import workloads
from semilocal.geometry.index import count_points
from semilocal.protocol.mark import Mark
from semilocal.protocol.messages import Closed
from semilocal.protocol.partition import Partition
from semilocal.protocol.promise import promise
from semilocal.release import counts
from semilocal.release._inside import alike, overlap
from semilocal.release._tree import NONE, Tree
from semilocal.release._visitors import population
from semilocal.release._walk import Walk
from semilocal.release.boxes import CountAnswers, mean_relative_error
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
    result = counts(run, public_data=run.task.rule == "each")
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


def test_regions_without_a_trim_on_their_path_are_exact_and_others_say_they_are_not() -> None:
    rng = np.random.default_rng(43)
    points = synthetic.clusters(6_000, rng)
    run = sl.simulate(points, sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20), rng=rng)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    exact = run.partition.path_trims == 0
    assert answers.uncertain
    assert 0 < exact.sum() < len(exact)
    assert np.array_equal(answers.stderr == 0, exact)
    assert answers.value[exact] == pytest.approx(count_points(points, closed(boxes, run.task.box))[exact])
    assert (answers.value <= run.partition.crowds + 1e-9).all()  # people are taken out of regions, never put in


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_regions_and_trimmed_parts_add_up_to_everybody(dimensions: int) -> None:
    points, run = run_of(dimensions, seed=44)
    trimmed = run.task.hierarchy.boxes(run.partition.trimmed_cells)
    assert len(trimmed)
    answers = counts(run).query(np.concatenate([run.partition.boxes, trimmed]))
    assert answers.value.sum() == pytest.approx(len(points), abs=1e-6)
    assert (answers.value[len(run.partition) :] > 0).any()
    assert (answers.value >= -1e-9).all()


def walk_of(partition: Partition) -> Walk:
    tree = Tree.of(partition)
    return Walk.of(tree, population(tree))


def oracle(walk: Walk, query: Floats, cell: int = 0) -> tuple[float, float, Floats, float, float]:
    """People, variance, doubts (common for each depth, unsure), share of a visitor of a cell that counts inside."""
    tree, found, inside = walk.tree, walk.found, walk.inside
    together, nothing = float(np.asarray(inside.spread.together)[cell]), np.zeros(len(tree.levels))
    box = tree.boxes[cell]

    def clumps(people: float, noise: float, part: float) -> float:
        fanout, smaller = tree.children.shape[1], min(part, 1 - part)
        cascade = max(smaller ** (1 - math.log(together, fanout)) - smaller**2, 0.0)
        places = (fanout * together - 1) / (fanout - 1) * part * (1 - part)
        return float(max(people**2 + noise - people, 0.0) * min(cascade, places))

    def share(lower: Floats, upper: Floats, slopes: Floats) -> float:
        out = 1.0
        for axis in range(len(lower)):
            ends = np.clip([lower[axis], upper[axis]], *box[:, axis])
            first, last = (ends - box[0, axis]) / (box[1, axis] - box[0, axis])
            steep, straight = slopes[axis], max(last - first, 0.0) * (1.0 + slopes[axis] * (1.0 - first - last) / 2.0)
            curve = (np.exp(-steep * first) - np.exp(-steep * max(first, last))) / (1.0 - np.exp(-steep or 1.0))
            out *= straight if abs(steep) < 1e-5 else curve
        return float(out)

    flat = np.zeros(box.shape[1])
    if tree.is_part[cell]:
        taken, people = share(query[0], query[1], inside.slopes[cell]), found.people[cell]
        variance = people * taken * (1 - taken) + clumps(people, found.noise[cell], taken)
        return people * taken, variance, nothing, 0.0, taken
    if tree.is_region[cell]:
        shares, slopes = [], inside.slopes[cell]
        for lower, upper in inside.boxes[cell]:
            part = share(np.maximum(query[0], lower), np.minimum(query[1], upper), slopes)
            shares.append(part / share(lower, upper, slopes))
        people, fanout = inside.people[cell], len(shares)
        variance = sum((one - np.mean(shares)) ** 2 for one in shares) * fanout / (fanout - 1) * inside.noise[cell]
        variance += sum(n * s * (1 - s) for n, s in zip(people, shares, strict=True))
        doubt = inside.noise[cell] + found.doubt[cell] / fanout**2
        apart = [clumps(n, doubt, s) ** 0.5 for n, s in zip(people, shares, strict=True)]
        variance += (1 - alike(fanout)) * sum(one**2 for one in apart) + alike(fanout) * sum(apart) ** 2
        return float(people @ shares), variance, nothing, 0.0, share(query[0], query[1], flat)
    results = [oracle(walk, query, int(child)) for child in tree.children[cell]]
    kept = tree.kept[cell]
    landing = np.array([result[4] for result in results])
    land = float(landing[kept].mean())
    value, variance, unsure = (float(sum(result[index] for result in results)) for index in (0, 1, 3))
    common = np.sum([result[2] for result in results], axis=0)
    variance += found.visitors[cell] * float(np.mean(landing[kept] ** 2) - land**2)
    counted = land
    for child, stays, there in zip(tree.children[cell], kept, landing, strict=True):
        if not stays:
            variance += (there - land) ** 2 * found.noise[child]
            common[tree.depths[cell]] += (there - land) * found.common[child]
            unsure += (there - land) * found.unsure[child]
            counted += (there - land) * found.mistaken[child]
    return value, variance, common, unsure, counted


@pytest.mark.parametrize("options", [{}, {"tree": "quad"}, {"rule": "all"}, {"max_rounds": 4}])
def test_answers_are_what_plain_recursion_gives(options: dict[str, Any]) -> None:
    """Oracle: every cell of the tree, one query at a time."""
    _, run = run_of(2, seed=45, size=1_500, **options)
    walk = walk_of(run.partition)
    rng = np.random.default_rng(45)
    lower = rng.random((25, 2)) * 0.8 - 0.1
    some = run.partition.boxes[::7]
    queries = np.concatenate([some, np.stack([lower, lower + rng.random((25, 2)) * 0.6], axis=1)])
    found, law = walk.query(queries), walk.found.law
    depths = np.arange(len(walk.tree.levels))
    steps = np.array([[np.prod(law.alike[law.row(np.arange(a, b))]) for b in depths] for a in depths])
    together = np.triu(steps) + np.triu(steps, 1).T  # of two depths: all the steps between them
    for row, query in enumerate(queries):
        value, variance, common, unsure, _ = oracle(walk, query)
        assert found.value[row] == pytest.approx(max(value - unsure, 0.0), abs=1e-6)
        assert found.fewer[row] == found.more[row] == pytest.approx(value, abs=1e-6)
        assert found.variance[row] == pytest.approx(variance + common @ together @ common, rel=1e-6, abs=1e-6)


def test_a_tree_has_every_participant_once_on_every_level() -> None:
    points, run = run_of(2, seed=56)
    tree = Tree.of(run.partition)
    assert tree.acting[0] == len(points)
    for level in tree.levels:
        assert np.array_equal(tree.acting[level], tree.acting[tree.children[level]].sum(axis=1))
    parts = tree.cells[tree.is_part]
    assert set(parts.tolist()) == set(run.partition.trimmed_cells.tolist())
    assert set(tree.cells[tree.is_region].tolist()) == set(run.partition.cells.tolist())
    assert (tree.children[tree.is_region | tree.is_part] == NONE).all()


def test_an_exact_answer_that_is_off_by_a_rounding_error_has_the_number_of_people_in_its_interval() -> None:
    """Parts of a sum are fractions of people. Planted: the sum itself as both ends, which misses the number."""
    value, none = np.array([2045 + 5e-13, 2045 - 5e-13]), np.zeros(2)
    low, high = CountAnswers(value, none, fewer=value, more=value, most=np.full(2, 20_000.0), noise=none).interval().T
    assert ((low <= 2045) & (high >= 2045) & (high - low < 1e-9)).all()
    assert not (value == 2045).any()


def test_an_interval_holds_people_around_the_value_as_well_as_around_the_number_that_is_expected() -> None:
    """People of trimmed parts live near those who were kept, where the value counts them.

    Planted: ends that reach from the mean and from the value as far as if one of them were meant, which hold more.
    """
    expected, stderr, most = np.full(3, 1000.0), np.full(3, 10.0), np.full(3, np.inf)
    value = np.array([1000.0, 1030.0, 990.0])
    found = CountAnswers(value, stderr, fewer=expected, more=expected, most=most, noise=np.zeros(3))
    low, high = found.interval().T
    for middle in (1000.0, 1030.0):
        held, planted = (
            float(np.diff(norm.cdf(np.array(ends), middle, 10.0))[0])
            for ends in ((low[1] - 0.5, high[1] + 0.5), (low[0] - 0.5, high[0] + 30.5))
        )
        assert 0.95 <= held < 0.96 < planted  # half a person more on each side: ends are whole people
    assert high[1] > high[0] + 25.0
    assert (high[2], low[2]) == (high[0], low[0])  # a smaller value takes nothing away
    assert high[0] == pytest.approx(1000 + 1.96 * 10, abs=1.0)


def test_a_slope_takes_the_share_that_its_density_has() -> None:
    """Oracle: the mean of an exponential density over a fine grid."""
    rng = np.random.default_rng(58)
    box, slopes = np.array([[0.0, 2.0], [1.0, 6.0]]), np.array([2.7, -0.4])
    grid = np.stack(np.meshgrid(*[(np.arange(1000) + 0.5) / 1000] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(-grid @ slopes)
    points = box[0] + grid * (box[1] - box[0])
    for _ in range(5):
        corners = np.sort(box[0] + rng.random((2, 2)) * (box[1] - box[0]), axis=0)
        inside = ((points >= corners[0]) & (points < corners[1])).all(axis=1)
        expected = density[inside].sum() / density.sum()
        assert overlap(corners[:1], corners[1:], box[None], slopes[None])[0] == pytest.approx(expected, abs=5e-3)
    assert overlap(box[:1] - 1, box[1:] + 1, box[None], slopes[None])[0] == 1.0


def test_slopes_tell_where_in_a_region_people_are_if_density_is_smooth() -> None:
    """Shares of the halves across the axis that the last round asked for: squared errors against an even division.

    Planted: an even density, where slopes can tell nothing and must not harm.
    """
    rng = np.random.default_rng(59)
    task = sl.Task.build(unit_box(2), epsilon=3.0, delta=0.05, k=20)
    smooth, even = rng.normal(0.5, 0.12, (20_000, 2)).clip(0, 1), rng.random((20_000, 2))
    ratios = []
    for points in (smooth, even):
        walk = walk_of(sl.simulate(points, task, rng=rng).partition)
        regions = np.flatnonzero(walk.tree.is_region)
        boxes = walk.tree.boxes[regions]
        axis = (task.hierarchy.depth(walk.tree.cells[regions]) + 1) % 2
        halves = boxes.copy()
        rows = np.arange(len(regions))
        halves[rows, 1, axis] = boxes.mean(axis=1)[rows, axis]
        everybody, there = count_points(points, boxes), count_points(points, halves)
        expected = overlap(halves[:, 0], halves[:, 1], boxes, walk.inside.slopes[regions])
        chance = np.sum(everybody) / 4  # what even the true shares leave
        error = np.sum((there - everybody * expected) ** 2) - chance
        ratios.append(error / (np.sum((there - everybody / 2) ** 2) - chance if points is smooth else chance))
    assert ratios[0] < 0.5
    assert abs(ratios[1]) < 0.3


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


def test_an_interval_holds_its_value_and_ends_where_the_crowd_does() -> None:
    _, run = run_of(2, seed=43, size=6_000)
    result = counts(run)
    rng = np.random.default_rng(43)
    lower = rng.random((300, 2)) * 0.9
    boxes = np.concatenate([run.partition.boxes, np.stack([lower, lower + rng.random((300, 2)) * 0.2], axis=1)])
    answers = result.answer(boxes)
    for level in (0.01, 0.5, 0.95, 0.9999):
        low, high = answers.interval(level).T
        assert ((low <= answers.value) & (answers.value <= high)).all()
    crowds = run.partition.crowds
    assert (high[: len(crowds)] <= crowds).all()  # people can only have been moved into a region
    parts = result.query(run.task.hierarchy.boxes(run.partition.trimmed_cells)).interval()
    assert (parts[:, 0] == 0).any()
    assert (parts[:, 1] > 0).all()


def test_a_partition_is_enough() -> None:
    """What a transcript gives has the same answers as the run that made it."""
    _, run = run_of(2, seed=57)
    closings = [event for event in run.events if isinstance(event, Closed)]
    public = Partition.from_closings(run.task, closings)
    boxes = [[[0.1, 0.2], [0.3, 0.9]], [[0.0, 0.0], [0.4, 0.4]]]
    ours, theirs = counts(run).query(boxes), counts(public).query(boxes)
    assert np.array_equal(ours.value, theirs.value)
    assert np.array_equal(ours.interval(), theirs.interval())
    assert counts(run).simulated
    assert not counts(public).simulated


def test_the_guarantee_states_both_losses_adjacency_delta_and_what_is_public() -> None:
    _, run = run_of(2, seed=50, epsilon=0.5)
    said = counts(run).guarantee
    most = int(run.partition.path_trims.max())
    assert said == promise(run.task, trims=most, counted="run", mark=Mark(seeded=True))
    assert said.moved == pytest.approx(0.5 * (1 + most))
    assert "public by design" in said.text()
    assert "curator" in said.text()  # one program held all positions
    _, exposed = run_of(2, seed=50, rule="each")
    assert "NOT kept" in counts(exposed, public_data=True).guarantee.text()


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
        result = sl.counts(points, synthetic.UNIT_SQUARE, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=rng)
        truth = count_points(points, queries)
        floor = workloads.uniform_floor(len(points))
        errors.append(mean_relative_error(result.query(queries).value, truth, floor=floor))
    assert np.mean(errors) <= target
