"""How cells divide: people in parts are what sums over all numbers say, and the law is learned from any mixture."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta

from semilocal.release._law import LEVELS, MIDDLES, UNKNOWN, WIDTHS, Law, learn

Floats = npt.NDArray[np.float64]


def certain(width: float, *middles: float, growth: float = 0.0, typical: float = 1.0) -> Law:
    """The law with this width, and with one middle for each depth: that of cells with a typical number of people."""
    chance = np.zeros((len(middles), *UNKNOWN.chance.shape[1:]))
    for depth, middle in enumerate(middles):
        chance[depth, WIDTHS.tolist().index(width), MIDDLES.tolist().index(middle)] = 1.0
    return Law(chance, growth, np.full(len(middles), np.log2(typical)))


def levels(width: float, middle: float) -> tuple[Floats, Floats]:
    """Values of a and their chances: log2 a is normal, on a grid."""
    chance = np.exp(-0.5 * ((LEVELS - middle) / width) ** 2)
    return np.exp2(LEVELS), chance / chance.sum()


def test_unevenness_is_that_of_the_mixture() -> None:
    """Oracle: the chance that two people are in one child is the mean square of shares, summed over the children."""
    for fanout in (2, 4):
        found = certain(1.5, -1.0, 3.0).spread(np.array([0, 1, 9]), np.full(3, 50.0), fanout)
        for together, middle in zip(np.asarray(found.together), (-1.0, 3.0, 3.0), strict=True):
            squares = [beta.moment(2, a, (fanout - 1) * a) for a in levels(1.5, middle)[0]]
            assert together == pytest.approx(fanout * levels(1.5, middle)[1] @ squares)


def test_many_cells_are_as_uneven_as_each_alone_and_take_little_memory() -> None:
    """A map may have millions of regions: some numbers for each. Planted: every level of every cell, 900 bytes."""
    rng, number = np.random.default_rng(77), 100_000
    law = certain(1.5, -1.0, 3.0, growth=0.75, typical=100.0)
    depths, people = rng.integers(0, 4, number), np.exp2(rng.uniform(-2, 20, number))
    tracemalloc.start()
    together = np.asarray(law.spread(depths, people, 4).together)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * number
    for row in range(20):
        alone = law.spread(depths[row : row + 1], people[row : row + 1], 4).together
        assert together[row] == pytest.approx(np.asarray(alone)[0])


def run(
    rng: np.random.Generator,
    width: float,
    middles: list[float],
    cells: int,
    *,
    growth: float = 0.0,
    alike: bool = False,
) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
    """Cells of each depth that divide by the law. A cell is split, and then known exactly, if its estimates are even.

    Depths, people, estimates and noise. Middles are those of cells with 2^8.5 people; ``alike``: all have as many.
    """
    depths = np.repeat(np.arange(len(middles)), cells)
    doublings = np.full(len(depths), 8.5) if alike else rng.uniform(6, 11, len(depths))
    people = np.rint(np.exp2(doublings))
    a = np.exp2(rng.normal(np.array(middles)[depths], width) + growth * (doublings - 8.5))
    first = rng.binomial(people.astype(np.int64), rng.beta(a, a)).astype(np.float64)
    noise = 4.9 * people
    estimate = first + rng.normal(0.0, np.sqrt(noise))
    split = np.minimum(estimate, people - estimate) > 20 + 2.0 * np.sqrt(noise)
    children = np.where(split, first, estimate)
    assert 0.1 < split.mean() < 0.9
    return depths, people, np.stack([children, people - children], axis=1), np.where(split, 0.0, noise)


def middle_of(law: Law) -> Floats:
    """Expected middle of each depth."""
    return np.asarray(law.chance.sum(axis=1) @ MIDDLES)


def test_the_law_is_learned_from_all_cells_although_verdicts_depend_on_noise() -> None:
    """Middles of five depths from 20 made-up runs: bias within five standard errors, or a quarter of a doubling.

    False alarm 6e-7 for each depth. Planted bugs: to learn from the regions alone, which look too uneven, and from the
    splits alone, which look too even.
    """
    rng = np.random.default_rng(71)
    truth = [-1.0, -0.5, 0.0, 0.5, 1.0]
    all_of: list[Floats] = []
    regions: list[Floats] = []
    splits: list[Floats] = []
    for _ in range(20):
        depths, people, children, noise = run(rng, 1.5, truth, 120)
        final = noise > 0
        all_of.append(middle_of(learn(depths, people, children, noise)) - truth)
        for rows, to in ((final, regions), (~final, splits)):
            to.append(middle_of(learn(depths[rows], people[rows], children[rows], noise[rows])) - truth)
    bias, error = np.mean(all_of, axis=0), np.std(all_of, axis=0) / 20**0.5
    assert (np.abs(bias) < 0.25 + 5.0 * error).all()
    assert np.mean(regions) < -0.5
    assert np.mean(splits) > 0.5


def test_how_much_more_evenly_crowded_cells_divide_is_learned() -> None:
    """20 made-up runs per growth: bias within five standard errors (false alarm 6e-7), or half a step of the grid.

    Planted bug: without growth, cells with 2^6 people are taken to be as even as those with 2^8.5.
    """
    rng, one, few = np.random.default_rng(75), np.full(1, 1, dtype=np.int64), np.array([2.0**6])
    for growth in (0.0, 0.5, 1.0):
        laws = [learn(*run(rng, 0.75, [0.0, 0.5, 1.0], 400, growth=growth)) for _ in range(20)]
        off = np.array([law.growth - growth for law in laws])
        assert abs(off.mean()) < 0.125 + 5.0 * off.std() / 20**0.5
        assert np.abs(off).max() <= 0.5
        truth = certain(0.75, 0.5, growth=growth, typical=2.0**8.5).spread(np.zeros(1, dtype=np.int64), few, 2)
        found = np.mean([law.spread(one, few, 2).clumped for law in laws])
        without = np.mean([law._replace(growth=0.0).spread(one, few, 2).clumped for law in laws])
        assert found == pytest.approx(truth.clumped[0], rel=0.15)
        if growth == 1.0:
            assert without < 0.6 * truth.clumped[0]


def test_cells_that_all_have_as_many_people_tell_nothing_about_growth() -> None:
    law = learn(*run(np.random.default_rng(76), 0.75, [0.0, 1.0], 60, alike=True))
    assert law.growth == 0.0
    assert law.typical == pytest.approx(np.log2(np.rint(2.0**8.5)))


def test_few_cells_leave_doubt_and_many_take_it_away() -> None:
    rng = np.random.default_rng(72)
    doubts = []
    for cells in (3, 30, 600):
        law = learn(*run(rng, 0.75, [0.0, 0.0, 0.0], cells))
        assert law.chance.sum(axis=(1, 2)) == pytest.approx(1.0)
        doubts.append(float(np.mean(law.chance.sum(axis=1) @ MIDDLES**2 - middle_of(law) ** 2)))
    assert doubts[0] > 3.0 * doubts[1] > 9.0 * doubts[2]


def test_a_depth_without_cells_is_like_its_neighbours() -> None:
    """Planted: the middle of what is possible, which nobody has seen."""
    rng = np.random.default_rng(73)
    depths, people, children, noise = run(rng, 0.75, [-2.0, 3.0, -2.0], 200)
    kept = depths != 1
    found = middle_of(learn(depths[kept], people[kept], children[kept], noise[kept]))
    assert found == pytest.approx(-2.0, abs=0.7)
    sizes = np.log2(people)
    around = [sizes[depths == 0].mean(), sizes[depths == 2].mean()]
    assert learn(depths[kept], people[kept], children[kept], noise[kept]).typical == pytest.approx(
        [around[0], np.mean(around), around[1]]
    )
    assert abs(found[1] - np.mean(MIDDLES)) > 1.5


def test_nothing_to_learn_from_leaves_everything_possible() -> None:
    for rows in (0, 3):
        nothing = np.full((rows, 2), np.nan)
        found = learn(np.zeros(rows, dtype=np.int64), np.ones(rows), nothing, np.ones(rows))
        assert np.array_equal(found.chance, UNKNOWN.chance)
