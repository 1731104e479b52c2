"""Ends of intervals of counts: those of somebody who knows a person in the box, and no absurd ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gamma, norm, truncnorm

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release.boxes import QUERIES_AT_ONCE, CountAnswers
from semilocal.release.intervals import Asker, CutOff, above_mean, ends_for_both, mean_above_zero, standard_errors

PLACES = np.linspace(0.0, 20.0, 200_001)  # numbers of people, in standard errors of the noise


def answer(
    value: float, clumps: float, noise: float, *, second: float | None = None, most: float = 1e9
) -> CountAnswers:
    """One answer; ``clumps`` and ``noise`` are variances."""
    ends = sorted([value, value if second is None else second])
    least, more, limit, noisy = np.array([[number] for number in (*ends, most, noise)], dtype=np.float64)
    stderr = np.sqrt([clumps + noise])
    return CountAnswers(np.array([float(value)]), stderr, fewer=least, more=more, most=limit, noise=noisy)


def cut_off(middle: float, error: float, least: float, most: float) -> CutOff:
    """One law."""
    limit, at, width = np.array([[most], [middle], [error]])
    return CutOff.between(least, limit, at, width)


def shortest(law: CutOff, level: float) -> tuple[float, float]:
    """Both ends of one law."""
    at = np.array([level])
    return float(law.lower_end(at)[0]), float(law.upper_end(at)[0])


def ends(found: CountAnswers, level: float = 0.95) -> tuple[float, float]:
    ((low, high),) = found.interval(level).tolist()
    return low, high


def as_before(value: float, variance: float) -> float:
    """Planted: the upper end that takes noise for clumps."""
    seen = variance / value
    return float(value + seen + 1.96 * np.sqrt(variance + seen**2))


@pytest.mark.parametrize(("middle", "error"), [(0.0, 1.0), (0.3, 2.0), (50.0, 7.0), (5.0, 0.0), (0.0, 0.0)])
def test_the_mean_of_a_normal_law_cut_off_at_zero(middle: float, error: float) -> None:
    (found,) = mean_above_zero(np.array([middle, 1.0]), np.array([error, 1.0]))[:1]
    assert found == pytest.approx(truncnorm.mean(-middle / error, np.inf, middle, error) if error else middle)


@pytest.mark.parametrize("estimate", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("clumps", [0.0, 0.1, 2.0])
def test_somebody_who_knows_a_person_expects_as_many_as_there_are_on_average_where_people_are(
    estimate: float, clumps: float
) -> None:
    """Oracle: the squares of people over people, summed over all means that the noise allows.

    At a level near 0 the upper end is what is expected. A standard error of the noise is 1,000 people, so that whole
    ones are precise. Planted: noise as if it were clumps.
    """
    weight = norm.pdf(PLACES - estimate)
    expected = np.sum(weight * (PLACES**2 + clumps)) / np.sum(weight * PLACES)
    _, high = ends(answer(1e3 * estimate, 1e6 * clumps, 1e6), 1e-9)
    assert high == pytest.approx(1e3 * expected, abs=1.0)
    if 0.0 < estimate < 4.0:
        assert abs(1e3 * estimate + 1e3 * (1.0 + clumps) / estimate - high) > 100.0


@pytest.mark.parametrize("estimate", [0.0, 0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_noise_alone_leaves_no_more_outside_than_the_level_says(estimate: float, level: float) -> None:
    """For somebody who knows a person and for everybody else. Planted: the normal end, for who knows a person."""
    low, high = np.array(ends(answer(1e6 * estimate, 0.0, 1e12, most=1e12), level)) / 1e6
    for weight in (norm.pdf(PLACES - estimate) * PLACES, norm.pdf(PLACES - estimate)):
        assert np.sum(weight * ((low > PLACES) | (high < PLACES))) / np.sum(weight) <= 1.0 - level
    far, weight = np.abs(PLACES - estimate) > standard_errors(level), norm.pdf(PLACES - estimate) * PLACES
    assert np.sum(weight * far) / np.sum(weight) > 1.0 - level


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("below", "above"), [(np.inf, np.inf), (0.0, np.inf), (2.0, 0.3), (0.7, 0.7), (3.0, 50.0)])
def test_shortest_intervals_hold_what_the_level_says_and_no_shorter_one_does(
    level: float, below: float, above: float
) -> None:
    """Of a normal law that is cut off. Oracle: all intervals with as much of it that start at one of 20,000 places."""
    low, high = map(abs, shortest(cut_off(0.0, 1.0, -below, above), level))
    all_of_it = norm.cdf(above) - norm.cdf(-below)
    assert (norm.cdf(high) - norm.cdf(-low)) / all_of_it == pytest.approx(level, abs=1e-12)
    assert (low <= below, high <= above) == (True, True)
    start = np.linspace(-min(below, 9.0), min(above, 9.0), 20_000)
    stop = norm.cdf(start) + level * all_of_it
    lengths = norm.ppf(stop[stop <= norm.cdf(above)]) - start[stop <= norm.cdf(above)]
    assert low + high == pytest.approx(lengths.min(), abs=1e-3)


def test_a_higher_level_reaches_farther_also_where_an_end_arrives_at_nobody() -> None:
    """Planted: all of the error above as soon as the lower end of an even interval is at nobody."""
    levels = np.linspace(0.01, 0.9999, 500)
    for below, above in ((0.4, 1.0), (1.3, np.inf), (2.6, 2.2)):
        low, high = np.array([shortest(cut_off(0.0, 1.0, -below, above), level) for level in levels]).T
        assert (np.diff(low, axis=0) <= 0).all()
        assert (np.diff(high, axis=0) >= 0).all()
    even = np.array([standard_errors(level) for level in levels])
    assert (np.diff(np.where(even < 1.3, even, norm.ppf(levels))) < 0).any()


@pytest.mark.parametrize("value", [0.0, 1e-12, 0.01, 1.0])
def test_a_nearly_empty_box_ends_a_few_standard_errors_of_its_noise_above_nobody(value: float) -> None:
    """A cut cell with nobody that has 100 people of noise: nothing may be divided by the one person that is told."""
    noise, clumped, share = 100.0**2, 0.3, 0.01
    assert ends(answer(value, 0.0, noise))[1] <= value + 3.3 * 100.0
    cut = answer(value * share, clumped * noise * share * (1 - share), share**2 * noise)
    assert ends(cut)[1] <= 4.0 * clumped * 100.0
    assert value == 0.0 or as_before(value, noise) > 10_000


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_numbers_above_zero_reach_as_far_as_their_gamma_law(level: float) -> None:
    mean = np.array([0.3, 1.0, 1.6, 7.0, 1e3])
    expected = gamma(mean**2, scale=1.0 / mean).ppf(level) - mean
    np.testing.assert_allclose(above_mean(level, mean), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("elsewhere", [1e-200, 1e-3, 0.2, 1.0, 1.6])
def test_where_all_may_live_those_who_live_elsewhere_have_a_long_tail(elsewhere: float) -> None:
    """A million people act there; of those who live elsewhere mean and standard deviation are known.

    Oracle: their gamma law. Planted: the quantile of a normal one, which leaves more of them out.
    """
    most, unsure = 1e6, 1e4
    low, high = ends(answer(most - elsewhere * unsure, unsure**2, 0.0, most=most))
    assert high == most
    if elsewhere > 0.1:
        law = gamma(elsewhere**2, scale=unsure / elsewhere)
        assert law.sf(most - low + 1.0) <= 0.05
        assert law.sf(elsewhere * unsure + norm.ppf(0.95) * unsure) > 0.05 or elsewhere < 1.0
    assert most - low <= 3.6 * unsure


def test_ends_do_not_jump_where_an_interval_arrives_at_all_who_may_live_there() -> None:
    """Planted: the gamma law only from there on, which moves the lower end by a quarter of a standard error."""
    unsure, elsewhere = 1e6, np.linspace(0.05, 6.0, 2_000)
    low = np.array([ends(answer(1e9 - one * unsure, unsure**2, 0.0, most=1e9))[0] for one in elsewhere])
    reach = (1e9 - low) / unsure - elsewhere
    assert np.abs(np.diff(reach)).max() < 0.02
    levels = np.full(2_000, 0.95)
    cut = -CutOff.between(-np.inf, elsewhere, np.zeros(2_000), np.ones(2_000)).lower_end(levels)
    planted = np.where(cut < elsewhere, cut, np.maximum(cut, above_mean(0.95, elsewhere)))
    assert np.abs(np.diff(planted)).max() > 0.1


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("most", [np.inf, 7.0])
@pytest.mark.parametrize("middle", [0.3, 1.0, 2.0, 6.0])
@pytest.mark.parametrize("farther", [0.0, 0.2, 1.0, 4.0])
def test_ends_hold_the_level_for_both_laws_and_hardly_more(
    level: float, most: float, middle: float, farther: float
) -> None:
    """Oracle: the laws of scipy. Planted: ends of each law at the level itself, which hold more."""
    laws = [(middle, 1.0), (min(middle + farther, most), np.hypot(1.0, farther))]
    one, other = (cut_off(*law, 0.0, most) for law in laws)
    (low,), (high,) = ends_for_both(level, Asker(one, one), Asker(other, other))

    def held(begin: float, end: float) -> float:
        found = [truncnorm(-at / error, (most - at) / error, at, error) for at, error in laws]
        return min(float(law.cdf(end) - law.cdf(begin)) for law in found)

    assert held(low, high) >= level - 1e-9
    assert all(low <= at <= high for at, _ in laws)
    ends_of_each = np.ravel([shortest(law, level) for law in (one, other)])
    planted = held(min(ends_of_each), max(ends_of_each))
    stopped = min(abs(end - at) for end, (at, _) in itertools.product((low, high), laws)) < 1e-9  # at a middle
    if not stopped and planted < 1.0 - 1e-9:  # which holds more, or falls slowly from everybody
        assert held(low, high) <= level + 0.1 * (planted - level) + 1e-9
    if (farther, middle, most) == (0.2, 6.0, np.inf):
        assert planted > level + 0.05 * (1.0 - level)


def test_ends_for_both_miss_no_more_than_the_level_allows() -> None:
    """Laws of random answers, with clumps and noise. Planted: steps twice as long go too far."""
    rng, number = np.random.default_rng(3), 100_000
    middle, noise = rng.exponential(2.0, number), rng.random(number) * (rng.random(number) < 0.5)
    most = np.where(rng.random(number) < 0.5, np.inf, middle + rng.exponential(3.0, number))
    value = np.where(rng.random(number) < 0.5, middle, np.minimum(middle * rng.uniform(0.5, 2.0, number), most))
    fewer = np.where(rng.random(number) < 0.5, middle, middle - rng.exponential(2.0, number))  # two middles
    found = CountAnswers(value, np.ones(number), fewer=fewer, more=middle, most=most, noise=noise)
    anybody, knowing = found._askers(np.arange(number))
    for level in (0.1, 0.5, 0.9, 0.95, 0.999):
        low, high = ends_for_both(level, anybody, knowing)
        missed = np.maximum(anybody.missed(low, high), knowing.missed(low, high))
        assert (missed <= 1.0 - level + 1e-9).all()
        # Each end as much nearer again as it is nearer than that of the level.
        levels = np.full(number, level)
        nearer = 2 * low - anybody.fewer.lower_end(levels), 2 * high - knowing.more.upper_end(levels)
        assert (np.maximum(anybody.missed(*nearer), knowing.missed(*nearer)) > 1.0 - level + 1e-4).any()


def test_laws_that_are_the_same_have_their_own_shortest_interval() -> None:
    law = cut_off(2.0, 1.0, 0.0, 9.0)
    (low,), (high,) = ends_for_both(0.95, Asker(law, law), Asker(law, law))
    assert (low, high) == pytest.approx(shortest(law, 0.95), abs=1e-12)


@pytest.mark.parametrize(
    ("value", "stderr", "mean", "most"),
    [(256.6, 13.3, 242.0, 283.0), (1578.0, 20.2, 1554.0, 1622.0), (2e6, 1e4, 1.98e6, 2e6)],
)
@pytest.mark.parametrize("level", [0.95, 0.99, 0.999])
def test_lower_ends_hold_the_gamma_law_of_those_elsewhere_also_where_the_value_is_above_the_mean(
    value: float, stderr: float, mean: float, most: float, level: float
) -> None:
    """Two are regions of California. Quantiles of the level that laws have alone missed 5.9 % of the first."""
    mean_only = replace(answer(mean, stderr**2, 0.0, most=most), value=np.array([value]))
    low, _ = ends(mean_only, level)
    assert gamma(((most - mean) / stderr) ** 2, scale=stderr**2 / (most - mean)).sf(most - low + 0.5) <= 1.0 - level


def test_higher_levels_hold_lower_ones_where_two_middles_are_cut_off_on_both_sides() -> None:
    """Planted: what both cuts leave out taken from one law, which leaves next to nothing and swings."""
    levels = np.linspace(0.5, 0.999, 400)
    for more, most in ((10_600.0, 10_800.0), (5_000.0, 5_400.0), (2_300.0, 2_500.0)):
        found = answer(more, 0.0, 1e6, second=0.0, most=most)
        low, high = np.array([ends(found, level) for level in levels]).T
        assert (np.diff(low) <= 0).all()
        assert (np.diff(high) >= 0).all()


def test_many_answers_have_the_intervals_that_each_has_alone() -> None:
    """More than are computed at once. Planted: one answer left out of every piece."""
    rng, number = np.random.default_rng(4), 2 * QUERIES_AT_ONCE + 7
    value, stderr = rng.gamma(1.0, 100.0, number), rng.gamma(1.0, 20.0, number)
    stderr[::50] = 0.0
    value[::50] = np.rint(value[::50])
    columns = value, stderr, value + 1e6 * (stderr > 0), np.zeros(number)

    def intervals(rows: Any) -> Floats:
        told, error, most, noise = (column[rows] for column in columns)
        return CountAnswers(told, error, fewer=told, more=told, most=most, noise=noise).interval()

    together = intervals(np.arange(number))
    unsure = np.flatnonzero(stderr)
    some = [*unsure[:3], *unsure[QUERIES_AT_ONCE - 2 : QUERIES_AT_ONCE + 2], *unsure[-3:], 0, 50]
    for row in some:
        assert np.array_equal(together[row], intervals(np.array([row]))[0])
    assert (together[unsure, 1] > together[unsure, 0]).all()


def test_nobody_expects_more_than_may_live_there() -> None:
    """Three expected, up to five possible, clumps of ten. Planted: a middle beyond all who may live there."""
    found = answer(3.0, 100.0, 0.0, most=5.0)
    assert ends(found) == (0.0, 5.0)
    _, knowing = found._askers(np.arange(1))
    assert knowing.more.middle.tolist() == [5.0]
    assert knowing.missed(np.zeros(1), np.full(1, 5.0)).tolist() == [0.0]


people = st.just(0.0) | st.floats(1e-60, 1e6)


@given(people, people, people, people, st.floats(-1e6, 1e6), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_ends_are_whole_people_around_the_value_between_nobody_and_everybody(
    value: float, more: float, clumps: float, noise: float, second: float, level: float, other: float
) -> None:
    found = answer(value, clumps, noise, second=second, most=value + more)
    narrow, wide = sorted((level, other))
    (low, high), (lowest, highest) = ends(found, narrow), ends(found, wide)
    for begin, end in ((low, high), (lowest, highest)):
        assert 0.0 <= begin <= value <= end <= max(np.rint(value + more), np.ceil(value))
        exact = clumps + noise == 0  # sums of fractions stay as they are
        assert all(number == np.rint(number) or (exact and number == value) for number in (begin, end))
    assert lowest <= low <= high <= highest


@given(people)
def test_exact_answers_stay_exact(value: float) -> None:
    assert ends(answer(np.rint(value), 0.0, 0.0)) == (np.rint(value), np.rint(value))


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_empty_land_of_a_noisy_map_ends_within_its_noise(trust: sl.Trust) -> None:
    """Two towns at epsilon = 0.1, and small boxes where nobody lives.

    What is told for a box is at most what its cells could hold by noise: six standard errors of the noisiest final
    cell. Planted: noise taken for clumps, as if regions were public.
    """
    rng = np.random.default_rng(12)
    points = np.concatenate([rng.normal(middle, 0.01, (5_000, 2)) for middle in (0.2, 0.85)])
    found = sl.counts(points.clip(0, 1), sl.Box((0, 0), (1, 1)), epsilon=0.1, trust=trust, rng=rng)
    lower = rng.uniform((0.3, 0.3), (0.7, 0.7), (2_000, 2))
    boxes: Floats = np.stack([lower, lower + rng.uniform(0.001, 0.05, lower.shape)], axis=1)
    answers = found.query(boxes)
    most = 6.0 * float(np.sqrt(found.partition.estimates.variances.max()))
    assert (answers.interval()[:, 1] <= answers.more + most).all()
    public = CountAnswers(
        answers.value, answers.stderr, fewer=answers.fewer, more=answers.more, most=answers.most,
        noise=np.zeros(len(boxes)),
    )  # fmt: skip
    assert (public.interval()[:, 1] > answers.more + most).any()
