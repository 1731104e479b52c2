"""Values and means are unbiased where participants act from, honest about their error, and refuse to guess a range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import functions
from semilocal.errors import BudgetExceeded, InvalidInput
from semilocal.protocol.partition import Partition, Trims
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values.mechanisms import best
from semilocal.release import _shift, collected_mean, mean, values
from semilocal.release._shift import shift_of
from semilocal.release._tree import NONE, Tree
from semilocal.release._visitors import population
from semilocal.release._walk import Walk
from semilocal.simulation.values import play_values
from semilocal.testing import secrets_of, unit_box
from tests.helpers.release_runs import crowded, run_of

SIGMAS = 5.0  # a normal variable is farther out with probability 6e-7


def test_moved_participants_act_from_inside_their_region_and_others_from_their_own_position() -> None:
    points, run = run_of(2, seed=1)
    moved = run.moves > 0
    acting = run.acting(points)
    assert np.array_equal(acting[~moved], points[~moved])
    boxes = run.partition.boxes[run.regions]
    assert ((acting >= boxes[:, 0]) & (acting <= boxes[:, 1])).all()
    assert np.array_equal(run.partition.locate(acting), run.regions)
    assert (acting[moved] != points[moved]).any(axis=1).all()


def test_who_was_moved_is_learned_once_for_all_means_of_a_run() -> None:
    points, run = run_of(2, seed=4)
    _shift._moved.cache_clear()
    for axis in (0, 1, 0):
        mean(run, points, functions.coordinate(axis), epsilon=1.0, rng=np.random.default_rng(axis))
    assert _shift._moved.cache_info().misses == 1


def test_the_mean_of_the_values_is_the_mean() -> None:
    points, run = run_of(2, seed=2)
    f = functions.coordinate(1)
    single = values(run, points, f, epsilon=1.0, rng=np.random.default_rng(3))
    together = mean(run, points, f, epsilon=1.0, rng=np.random.default_rng(3))
    assert together.acting == pytest.approx(single.value.mean(), rel=1e-12)
    assert single.spent.epsilon == together.spent.epsilon


def test_a_constant_function_needs_no_noise() -> None:
    points, run = run_of(2, seed=4)
    result = mean(run, points, functions.linear([0.0, 0.0], intercept=3.0), epsilon=0.5, rng=np.random.default_rng(1))
    assert result.value == 3.0
    assert result.stderr == 0.0
    assert result.interval() == (3.0, 3.0)
    assert not result.biased


def test_a_function_constant_on_some_regions_only() -> None:
    """An indicator of a whole region: no noise there and elsewhere, so the mean is the exact share."""
    points, run = run_of(2, seed=5)
    low, high = run.partition.boxes[0]
    inside = functions.indicator(sl.Box(tuple(low), tuple(np.nextafter(high, -np.inf))))
    result = values(run, points, inside, epsilon=1.0, rng=np.random.default_rng(1))
    alone = run.regions != 0
    untouched = alone & (result.stderr == 0)
    assert untouched.any()
    assert set(result.value[untouched]) == {0.0}


def test_lost_participants_release_nothing() -> None:
    rng = np.random.default_rng(6)
    points = crowded(4_000, 2, rng)
    task = sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20)
    run = sl.simulate(points, task, rng=rng, dropout=0.05)
    lost = run.regions == -1
    assert 0 < lost.sum() < len(points)
    f = functions.coordinate(0)
    result = values(run, points, f, epsilon=1.0, rng=rng)
    assert np.array_equal(np.isnan(result.value), lost)
    assert np.array_equal(np.isnan(result.stderr), lost)
    total = mean(run, points, f, epsilon=8.0, rng=rng)
    assert total.participants == np.count_nonzero(~lost)
    assert abs(total.acting - run.acting(points)[~lost, 0].mean()) < SIGMAS * total.stderr  # false alarm 6e-7


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_moving_people_shifts_the_mean_by_less_than_the_bias_bound(dimensions: int) -> None:
    f = functions.squared_norm()
    for seed in range(5):
        points, run = run_of(dimensions, seed=30 + seed)
        result = mean(run, points, f, epsilon=2.0, rng=np.random.default_rng(seed))
        shift = abs(float(f(run.acting(points)).mean() - f(points).mean()))
        assert result.biased
        assert 0 < shift <= result.bias_bound
        (low, high), (first, last) = result.interval(widen=False), result.interval()
        assert first < low < result.acting < high < last
        assert first < result.value < last


def test_the_shift_is_what_the_people_of_trimmed_parts_would_have_said_otherwise() -> None:
    """One half of a line holds a few people; they were moved into the other half. f is the coordinate.

    Oracle: their number times the distance of the middles. Planted bug: a shift of the wrong sign.
    """
    task = sl.Task.build(sl.Box((0.0,), (1.0,)), epsilon=2.0, delta=0.05, k=20)
    trims = Trims(
        np.array([1], dtype=np.uint64), np.array([[True, False]]), np.array([[900.0, 100.0]]), np.array([1000])
    )
    partition = Partition(
        task, np.array([2], dtype=np.uint64), np.array([1000]), np.full((1, 2), np.nan), np.array([1]), trims
    )
    moved = shift_of(partition, functions.coordinate(0))
    tree = Tree.of(partition)
    found = population(tree)
    (part,) = np.flatnonzero(tree.is_part)
    people, surely = found.people[part], found.people[part] - found.unsure[part]
    assert 0 < surely < people < 150
    assert moved.expected == pytest.approx(people * 0.5, rel=0.05)  # from 0.25 to 0.75, as the probes see it
    assert moved.likely == pytest.approx(surely * 0.5, rel=0.05)
    assert moved.variance > 0


@pytest.mark.parametrize("options", [{}, {"tree": "quad"}])
def test_the_shift_is_what_counts_of_regions_and_trimmed_parts_say(options: dict[str, Any]) -> None:
    """Several TRIMs on a path. Oracle: the people counted in every region and part, less those who act from there.

    Planted: where later estimates have visitors, in place of where they were sent.
    """
    _, run = run_of(2, seed=38, size=20_000, **options)
    tree = Tree.of(run.partition)
    found = population(tree)
    ends = np.flatnonzero(tree.children[:, 0] == NONE)
    f = functions.coordinate(1)
    places = f(_shift._places(run.task.hierarchy, tree.cells[ends])).reshape(len(ends), -1).mean(axis=1)
    counted = Walk.of(tree, found).query(tree.boxes[ends])
    acted = float(np.where(tree.is_region[ends], tree.acting[ends], 0.0) @ places)
    assert run.partition.path_trims.max() > 2
    assert (counted.value > 0).all()
    moved = shift_of(run.partition, f)
    assert moved.expected == pytest.approx(float(counted.fewer @ places) - acted)
    assert moved.likely == pytest.approx(float(counted.value @ places) - acted)
    plain = Walk.of(tree, found._replace(mistaken=np.zeros(len(tree.cells)))).query(tree.boxes[ends])
    assert moved.likely != pytest.approx(float(plain.value @ places) - acted, rel=0.01)


def test_the_mean_of_a_simulation_is_that_of_the_closing_its_devices_would_make() -> None:
    points, run = run_of(2, seed=36)
    release = Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0])
    plan = Plan(run.task.id, (release,))
    secrets = secrets_of(len(points))
    (played,) = play_values(run, points, plan, secrets=secrets)
    found = collected_mean(run.partition, played.closed, release)
    given = played.given
    assert release.mechanism is not None
    assert found.acting == pytest.approx(np.mean(given.low + given.width * release.mechanism.decode(given.outputs)))
    assert found.participants == len(points)
    assert found.regions.responders.tolist() == run.partition.crowds.tolist()
    ours = mean(run, points, functions.coordinate(0), epsilon=2.0, rng=np.random.default_rng(1))
    assert found.shift == ours.shift
    assert found.stderr == pytest.approx(ours.stderr, rel=0.05)
    assert found.spent == ours.spent
    assert found.simulated, "its map is a simulation's"
    public = replace(run.partition, mark=None)
    assert not collected_mean(public, played.closed, release).simulated


def test_where_nobody_can_be_moved_there_is_no_bias() -> None:
    points, run = run_of(2, seed=7, rule="all")
    result = mean(run, points, functions.coordinate(0), epsilon=1.0, rng=np.random.default_rng(1))
    assert result.bias_bound == 0
    assert not result.biased
    assert result.interval() == result.interval(widen=True)


def test_a_plain_callable_is_refused_with_an_example_of_what_to_pass() -> None:
    points, run = run_of(2, seed=8)
    for release in (mean, values):
        with pytest.raises(InvalidInput, match=r"never guessed from the data.*functions\.squared_norm\(\)"):
            release(run, points, lambda x: x[:, 0], epsilon=1.0, rng=np.random.default_rng(1))


def test_wrong_input_is_refused_with_what_is_allowed() -> None:
    points, run = run_of(2, seed=9)
    f, rng = functions.coordinate(0), np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="in their order; got 10"):
        mean(run, points[:10], f, epsilon=1.0, rng=rng)
    with pytest.raises(InvalidInput, match="the mechanism costs epsilon = 2"):
        mean(run, points, f, epsilon=1.0, rng=rng, mechanism=best(2.0))
    with pytest.raises(InvalidInput, match="epsilon of one value"):
        mean(run, points, f, epsilon=0.0, rng=rng)
    with pytest.raises(InvalidInput, match="outside the domain"):
        mean(run, points + 1.0, f, epsilon=1.0, rng=rng)
    result = mean(run, points, f, epsilon=1.0, rng=rng)
    for level in (0.0, 1.0, 95):
        with pytest.raises(InvalidInput, match="level"):
            result.interval(level)


def test_a_ledger_refuses_before_anything_is_released() -> None:
    points, run = run_of(2, seed=9)
    spent = sl.Ledger.of(run.task).settle(run.partition)
    ledger = sl.Ledger(spent.entries, cap=spent.epsilon_worst)
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    with pytest.raises(BudgetExceeded):
        mean(run, points, functions.coordinate(0), epsilon=0.1, rng=rng, ledger=ledger)
    assert rng.bit_generator.state == before


def test_intervals_grow_with_the_level_and_follow_the_normal_law() -> None:
    points, run = run_of(2, seed=9)
    result = values(run, points, functions.coordinate(0), epsilon=1.0, rng=np.random.default_rng(1))
    narrow, wide = result.interval(0.5), result.interval(0.95)
    assert (wide[:, 1] - wide[:, 0] >= narrow[:, 1] - narrow[:, 0]).all()
    assert wide[:, 1] - result.value == pytest.approx(1.959963984540054 * result.stderr)


@pytest.mark.parametrize("widen", [True, False])
def test_of_a_dozen_people_the_mean_and_its_interval_stay_in_the_range_of_the_function(widen: bool) -> None:
    rng = np.random.default_rng(3)
    points = rng.uniform(0.0, 0.05, (12, 1))  # next to an edge, where noise leads out half of the time
    task = sl.Task.build(unit_box(1), epsilon=0.5, delta=0.05, k=2)
    beyond = 0
    for _ in range(40):
        run = sl.simulate(points, task, rng=rng)
        found = mean(run, points, functions.coordinate(0), epsilon=0.5, rng=rng)
        low, high = found.interval(0.95, widen=widen)
        assert 0.0 <= low < high <= 1.0  # an interval, also where the noisy mean lies beyond the edge
        assert 0.0 <= found.value <= 1.0
        if widen:
            assert low <= found.value <= high
        beyond += not 0.0 <= found.acting <= 1.0
    assert beyond > 0  # else nothing was tried
