"""How cells divide: people in parts are what sums over all numbers say, and the law is learned from any mixture."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta, betabinom, norm

from semilocal.release._law import LEVELS, MIDDLES, UNKNOWN, WIDTHS, Doubt, Law, learn

Floats = npt.NDArray[np.float64]


def certain(width: float, *middles: float, growth: float = 0.0, typical: float = 1.0) -> Law:
    """The law with this width, and with one middle for each depth: that of cells with a typical number of people."""
    chance = np.zeros((len(middles), *UNKNOWN.chance.shape[1:]))
    for depth, middle in enumerate(middles):
        chance[depth, WIDTHS.tolist().index(width), MIDDLES.tolist().index(middle)] = 1.0
    return Law(chance, np.ones(len(middles)), growth, np.full(len(middles), np.log2(typical)))


def levels(width: float, middle: float) -> tuple[Floats, Floats]:
    """Values of a and their chances: log2 a is normal, on a grid."""
    chance = np.exp(-0.5 * ((LEVELS - middle) / width) ** 2)
    return np.exp2(LEVELS), chance / chance.sum()


@pytest.mark.parametrize("away", [-2.0, 0.0, 1.5, 6.0])
@pytest.mark.parametrize(("people", "fanout"), [(300, 2), (3_000, 2), (300, 4)])
@pytest.mark.parametrize(("width", "middle"), [(0.25, -2.0), (1.5, -1.0), (3.0, 4.0)])
def test_people_in_a_part_are_what_sums_over_all_numbers_say(
    away: float, people: int, fanout: int, width: float, middle: float
) -> None:
    """Oracle: Beta-binomial numbers for every value of a, times the likelihood of the estimate."""
    error = 2.2 * people**0.5
    numbers = np.arange(people + 1)
    chance = np.zeros(people + 1)
    for a, weight in zip(*levels(width, middle), strict=True):
        chance += weight * betabinom.pmf(numbers, people, a, (fanout - 1) * a)
    chance *= norm.pdf(away * error, numbers, error)
    chance /= chance.sum()
    mean = chance @ numbers
    found = certain(width, middle).few_people(
        np.array([away * error]), np.array([error**2]), np.array([float(people)]), depth=0, fanout=fanout
    )
    assert found.mean[0] == pytest.approx(mean, rel=0.02, abs=0.02 * error)
    assert found.variance[0] ** 0.5 == pytest.approx((chance @ (numbers - mean) ** 2) ** 0.5, rel=0.03)
    assert found.common[0] == 0.0
    # A quarter of the chance lies below; numbers are whole, and the answer is not.
    below = np.cumsum(chance)[np.floor([found.surely[0] * 0.9 - 1.0, found.surely[0] * 1.1 + 1.0]).astype(int)]
    assert (below[0] if found.surely[0] > 2 else 0.0) <= 0.25 <= below[1]


@pytest.mark.parametrize("people", [3e4, 1e6, 1e9])
@pytest.mark.parametrize(("width", "middle"), [(1.5, -1.0), (0.75, 1.0)])
def test_people_in_parts_of_crowded_cells_are_what_narrow_bins_say(people: float, width: float, middle: float) -> None:
    """Oracle: shares in 14,000 bins. Planted: the middle of a bin, which may be a hundred standard errors wide."""
    estimates, noise = people * np.array([0.003, 0.02, 0.05, 0.1]), 0.92 * people
    found = certain(width, middle).few_people(estimates, np.full(4, noise), np.full(4, people), depth=0, fanout=2)
    error = (noise + people / 4) ** 0.5
    for row, estimate in enumerate(estimates):
        near = np.clip((estimate + error * np.linspace(-12, 12, 6_001)) / people, 0.0, 1.0)
        edges = np.unique(np.concatenate([[0.0], np.logspace(-12, 0, 4_001), np.linspace(0, 1, 4_001), near]))
        share = (edges[1:] + edges[:-1]) / 2
        luck = people * share * (1 - share)
        chance = sum(weight * np.diff(beta.cdf(edges, a, a)) for a, weight in zip(*levels(width, middle), strict=True))
        chance *= norm.pdf(estimate, people * share, np.sqrt(luck + noise))
        chance /= chance.sum()
        there = people * share + luck / (luck + noise) * (estimate - people * share)
        mean = chance @ there
        spread = (chance @ ((there - mean) ** 2 + luck * noise / (luck + noise))) ** 0.5
        assert found.mean[row] == pytest.approx(mean, abs=0.3 * spread)
        assert found.variance[row] ** 0.5 == pytest.approx(spread, rel=0.12)
        assert -1.2 < (found.surely[row] - mean) / spread < -0.4  # of a normal number: 0.67 below


def test_doubt_about_the_law_is_common_to_all_parts() -> None:
    """Two laws are possible. Oracle: the means under each."""
    both = Law((certain(0.25, -4.0).chance + 3.0 * certain(0.25, 0.0).chance) / 4.0, np.ones(1), 0.0, np.zeros(1))
    some = np.array([10.0, 60.0]), np.array([400.0, 900.0]), np.array([500.0, 800.0])
    low, high = (certain(0.25, middle).few_people(*some, depth=0, fanout=2) for middle in (-4.0, 0.0))
    found = both.few_people(*some, depth=0, fanout=2)
    assert found.mean == pytest.approx((low.mean + 3.0 * high.mean) / 4.0)
    assert found.variance == pytest.approx((low.variance + 3.0 * high.variance) / 4.0)
    assert found.common == pytest.approx(np.sqrt(3.0) / 4.0 * np.abs(high.mean - low.mean))
    assert (found.common > 0).all()


def test_absurd_estimates_stay_finite_and_inside_the_cell() -> None:
    estimates, noise = np.array([-1e9, 1e9, 0.0, 3.0]), np.array([1.0, 1.0, 0.0, 1e12])
    for law in (UNKNOWN, certain(3.0, -8.0)):
        found = law.few_people(estimates, noise, np.array([10.0, 10.0, 0.0, 10.0]), depth=7, fanout=2)
        assert np.isfinite(found).all()
        assert (np.array(found) >= 0).all()
        assert (found.surely <= 10).all()


@pytest.mark.parametrize("fanout", [2, 16])
def test_an_estimate_that_the_law_excludes_is_answered(fanout: int) -> None:
    """A crowded cell divides evenly by the law, and here it did not.

    Planted: a chance that is too small for a number, in place of hardly any.
    """
    law = certain(0.25, 9.0, growth=1.0, typical=1_000.0)
    for people in (1e5, 1e9):
        estimate, noise = people * np.array([0.0, 0.001, 0.02]), np.full(3, 0.92 * people)
        with np.errstate(all="raise", under="ignore"):
            found = law.few_people(estimate, noise, np.full(3, people), depth=0, fanout=fanout)
        assert (np.abs(found.mean - estimate) < 0.05 * people).all()
        assert np.isfinite(np.array(found)).all()


def test_no_more_are_surely_there_than_expected() -> None:
    """An estimate that is all but exact, of a part that is much emptier than the law says.

    Planted: a quantile of the shares that are likely, which are those of the law where the law is narrow.
    """
    for people in (20.0, 500.0, 1e9):
        estimate = people * np.array([-0.1, 0.0, 0.01, 0.1, 0.4])
        found = certain(0.25, 6.0).few_people(estimate, np.full(5, 1e-6), np.full(5, people), depth=0, fanout=2)
        assert found.mean == pytest.approx(np.maximum(estimate, 0.0), abs=0.02 * people + 0.3)
        assert (found.surely <= found.mean).all()
        assert (found.surely >= 0).all()


def test_many_parts_are_answered_like_few() -> None:
    rng = np.random.default_rng(70)
    some = rng.normal(0.0, 50.0, 5_000), rng.uniform(100.0, 900.0, 5_000), rng.uniform(200.0, 900.0, 5_000)
    law = certain(1.5, -1.0)
    whole = np.array(law.few_people(*some, depth=0, fanout=2))
    for rows in (slice(0, 10), slice(4_090, 4_100), slice(4_990, 5_000)):
        assert np.allclose(law.few_people(*(one[rows] for one in some), depth=0, fanout=2), whole[:, rows])


def test_unevenness_is_that_of_the_mixture() -> None:
    """Oracle: the chance that two people are in one child is the mean square of shares, summed over the children."""
    for fanout in (2, 4):
        found = certain(1.5, -1.0, 3.0).spread(np.array([0, 1, 9]), np.full(3, 50.0), fanout)
        for together, middle in zip(np.asarray(found.together), (-1.0, 3.0, 3.0), strict=True):
            squares = [beta.moment(2, a, (fanout - 1) * a) for a in levels(1.5, middle)[0]]
            assert together == pytest.approx(fanout * levels(1.5, middle)[1] @ squares)


@pytest.mark.parametrize("fanout", [2, 4])
def test_cells_with_more_people_divide_more_evenly_by_the_growth(fanout: int) -> None:
    """Oracle: four times the people and a growth of 1/2 make log2 a larger by 1. Fewer make it smaller."""
    law = certain(0.75, -1.0, growth=0.5, typical=100.0)
    people, one = np.array([25.0, 100.0, 400.0]), np.zeros(1, dtype=np.int64)
    for number, middle in zip(people, (-2.0, -1.0, 0.0), strict=True):
        same, some = certain(0.75, middle), np.array([number])
        assert law.spread(one, some, fanout).together == pytest.approx(same.spread(one, some, fanout).together)
        estimate = np.array([0.1 * number]), np.array([4.9 * number]), some
        found = np.array(law.few_people(*estimate, depth=0, fanout=fanout))
        assert found == pytest.approx(np.array(same.few_people(*estimate, depth=0, fanout=fanout)))
    together = np.asarray(law.spread(np.zeros(3, dtype=np.int64), people, fanout).together)
    assert (np.diff(together) < 0).all()


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


def test_cells_with_hardly_anybody_stay_inside_the_levels() -> None:
    law = certain(3.0, -8.0, 9.0, growth=1.0, typical=2.0**9)
    for depth in (0, 1, 5):
        for people in (0.0, 0.3, 1.0, 2.0**40):
            levels = law.levels(np.array([people]), depth)
            assert levels.min() >= 0
            assert levels.max() < len(LEVELS)
            together = law.spread(np.array([depth]), np.array([people]), 2).together
            assert 0.5 <= np.asarray(together)[0] <= 1.0


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


def test_depths_are_alike_as_far_as_nothing_tells_them_apart() -> None:
    """Oracle: all ways of two middles, one by one. A depth without cells is nearly like its neighbours."""
    rng = np.random.default_rng(74)
    depths, people, children, noise = run(rng, 0.75, [0.0, 1.0], 40, alike=True)
    alone = np.zeros(40, dtype=np.int64)
    each = (learn(alone, people[rows], children[rows], noise[rows]) for rows in (depths == 0, depths == 1))
    logs = [law.chance[0] for law in each]  # of one depth alone: its likelihood, up to a factor
    total, moments = 0.0, np.zeros(5)
    for step in (0.25, 0.5, 1.0):
        move = np.exp(-0.5 * ((MIDDLES - MIDDLES[:, None]) / step) ** 2)
        move /= move.sum(axis=1, keepdims=True)
        for first, second in zip(*logs, strict=True):
            both = first[:, None] * move * second / len(MIDDLES)
            a, b = np.meshgrid(MIDDLES, MIDDLES, indexing="ij")
            total += both.sum()
            moments += [(both * term).sum() for term in (a, b, a * a, b * b, a * b)]
    a, b, aa, bb, ab = moments / total
    expected = (ab - a * b) / np.sqrt((aa - a * a) * (bb - b * b))
    law = learn(depths, people, children, noise)
    assert law.alike == pytest.approx([expected, 1.0], rel=1e-6)
    assert 0.0 < expected < 0.9
    apart = learn(np.array([0, 2]), people[[0, 50]], children[[0, 50]], noise[[0, 50]])
    assert (apart.alike > 0.9).all()


def test_depths_that_have_nothing_in_common_are_each_what_their_cells_say() -> None:
    """All in one place, then evenly, and back. Planted: chances of such changes that are too small for a number."""
    depths, people, noise = np.repeat([0, 1, 2], 600), np.full(1_800, 400.0), np.zeros(1_800)
    first = np.where(depths == 1, 200.0, 400.0)
    with np.errstate(all="raise", under="ignore"):
        law = learn(depths, people, np.stack([first, people - first], axis=1), noise)
    assert law.chance.sum(axis=(1, 2)) == pytest.approx(np.ones(3))
    assert (np.diff(middle_of(law)) * [1, -1] > 8).all()
    assert np.isfinite(law.alike).all()


def test_doubts_add_up_by_how_alike_their_depths_are() -> None:
    """Oracle: the whole matrix of correlations. Planted: all depths alike, and none."""
    law = Law(np.repeat(UNKNOWN.chance, 4, axis=0), np.array([0.9, 0.5, 0.7, 1.0]), 0.0, np.zeros(4))
    numbers = np.array([[1.0, -2.0], [0.0, 3.0], [4.0, 1.0], [-1.0, 1.0], [2.0, 0.5]])
    alike = np.eye(5)
    for a in range(5):
        for b in range(a + 1, 5):
            alike[a, b] = alike[b, a] = np.prod([0.9, 0.5, 0.7, 1.0][a:b])
    doubt = Doubt(law, 2)
    for depth in range(4, -1, -1):
        doubt.add(depth, numbers[depth])
    assert doubt.variance == pytest.approx(np.einsum("aq,ab,bq->q", numbers, alike, numbers))
    assert not np.allclose(doubt.variance, numbers.sum(axis=0) ** 2)
    assert not np.allclose(doubt.variance, (numbers**2).sum(axis=0))
