"""Who lives where: every cell that was asked about tells how it divides, and nobody is counted twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release import counts
from semilocal.release._law import WHOLE, Expected, Law
from semilocal.release._tree import NONE, Tree
from semilocal.release._visitors import divided, population
from semilocal.release._walk import Walk
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of


@pytest.mark.parametrize("options", [{}, {"tree": "quad"}])
def test_all_cells_tell_how_they_divide_whatever_the_verdict(options: dict[str, Any]) -> None:
    """Splits by the exact numbers of their children, TRIMs and regions by estimates; where nobody was moved to."""
    _, run = run_of(2, seed=61, **options)
    tree, partition = Tree.of(run.partition), run.partition
    found = population(tree)
    some = divided(tree, found)
    inner, alone = tree.children[:, 0] != NONE, found.visitors == 0
    asked = tree.is_region.copy()
    asked[tree.is_region] = ~np.isnan(partition.estimates[tree.regions[tree.is_region]]).any(axis=1)
    assert np.array_equal(some.cells, np.flatnonzero((inner | asked) & (tree.acting > 0)))
    assert np.allclose(some.estimates.sum(axis=1), some.people)
    for cell, people, estimates, noise in zip(*some, strict=True):
        if not alone[cell]:
            assert people < tree.acting[cell]
        elif tree.is_region[cell]:
            assert np.allclose(estimates, partition.estimates[tree.regions[cell]])
            assert noise == pytest.approx(people * run.task.randomizer.variance(1 / len(estimates)))
        elif tree.trims[cell] != NONE:
            assert np.allclose(estimates, partition.trims.estimates[tree.trims[cell]])
            assert noise == pytest.approx(people * run.task.randomizer.variance(run.task.tau))
        else:
            assert np.allclose(estimates, tree.acting[tree.children[cell]])
            assert noise == 0
    trimmed = tree.trims != NONE
    assert all(kind[some.cells].any() for kind in (tree.is_region, trimmed & alone, inner & ~trimmed))


def test_people_and_visitors_are_all_who_act_from_a_region() -> None:
    _, run = run_of(2, seed=62)
    tree = Tree.of(run.partition)
    found = population(tree)
    parts, regions = tree.is_part, tree.is_region
    assert found.people[0] == pytest.approx(tree.acting[0])
    assert (found.people >= 0).all()
    assert found.visitors[regions].sum() == pytest.approx(found.people[parts].sum())
    assert (found.people[regions] <= tree.acting[regions] + 1e-9).all()
    for doubt in (found.noise, found.common):
        assert (doubt[parts] > 0).all()
        assert (doubt[~parts] == 0).all()


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_later_estimates_take_visitors_for_people_who_live_there(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oracle: every estimate is moved a little up and down, and people are expected again.

    A visitor is in the trimmed half of a cell with a chance of one half. Planted: estimates are taken as they are; and
    an estimate with hardly any noise is taken to tell fractions of people.
    """
    _, run = run_of(2, seed=65, size=20_000, epsilon=epsilon)
    tree, few_people = Tree.of(run.partition), Law.few_people
    slopes: list[float] = []

    def watched(law: Law, estimate: Floats, noise: Floats, most: Floats, *, depth: int, fanout: int) -> Expected:
        step = 0.1 * np.sqrt(noise + WHOLE)
        up, down = (
            few_people(law, moved, noise, most, depth=depth, fanout=fanout).mean
            for moved in (estimate + step, estimate - step)
        )
        slopes.extend((up - down) / (2.0 * step))
        return few_people(law, estimate, noise, most, depth=depth, fanout=fanout)

    monkeypatch.setattr(Law, "few_people", watched)
    found = population(tree)
    parts = tree.is_part
    expected = np.array(slopes[-np.count_nonzero(parts) :])  # of the last pass
    assert len(expected) > 5
    assert np.sort(found.mistaken[parts]) == pytest.approx(np.sort(0.5 * expected), rel=0.03, abs=0.005)
    assert epsilon > 2.0 or found.mistaken[parts].max() > 2.0 * found.mistaken[parts].min()
    assert (found.mistaken[~parts] == 0).all()


@pytest.mark.parametrize("epsilon", [2.0, 5.0, 20.0, 40.0])
@pytest.mark.parametrize("options", [{}, {"tree": "quad"}, {"k": 2, "max_visitors": 1.0}])
def test_a_visitor_is_taken_for_one_person_at_most(epsilon: float, options: dict[str, Any]) -> None:
    """Otherwise those who stayed would be fewer than nobody: values would be negative, and totals would be lost."""
    for seed in (0, 5):
        points, run = run_of(1, seed=seed, size=2_500, epsilon=epsilon, **options)
        tree = Tree.of(run.partition)
        found = population(tree)
        together = np.where(tree.exists & ~tree.kept, found.mistaken[tree.children], 0.0).sum(axis=1)
        assert 0 < together.max() < 1 + 1e-9
        ends = tree.children[:, 0] == NONE
        value = Walk.of(tree, found).query(tree.boxes[ends]).value
        assert value.sum() == pytest.approx(len(points))
        assert (value <= np.where(tree.is_region, tree.acting, np.inf)[ends] + 1e-9).all()


def test_a_trimmed_cell_that_everybody_left_later_takes_nobody_for_another() -> None:
    """Nobody is left who could have been moved: nothing is known, and nothing is divided by its variance of 0."""
    rng = np.random.default_rng(57)
    points = np.concatenate([0.5 * rng.random((2_000, 1)), 0.5 + 0.02 * rng.random((60, 1))])
    task = sl.Task.build(unit_box(1), epsilon=4.0, delta=0.05, k=5)
    run = sl.simulate(points, task, rng=rng, dropout=0.8)
    trimmed = Tree.of(run.partition)
    assert (trimmed.acting[trimmed.trims != NONE] == 0).any()
    answers = counts(run).query([[[0.0], [1.0]], [[0.0], [0.3]], [[0.3], [0.6]]])
    assert np.isfinite(answers.stderr).all()
