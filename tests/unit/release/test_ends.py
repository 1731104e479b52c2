"""Ends of intervals of counts: those of somebody who knows a person in the box, and no absurd ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gamma, norm

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release.answers import CountAnswers, standard_errors

PLACES = np.linspace(0.0, 20.0, 200_001)  # numbers of people, in standard errors of the noise


def answer(
    value: float, clumps: float, noise: float, *, second: float | None = None, most: float = 1e9
) -> CountAnswers:
    """One answer; ``clumps`` and ``noise`` are variances."""
    plain, limit, noisy = np.array([[value if second is None else second], [most], [noise]], dtype=np.float64)
    return CountAnswers(np.array([float(value)]), np.sqrt([clumps + noise]), plain=plain, most=limit, noise=noisy)


def ends(found: CountAnswers, level: float = 0.95) -> tuple[float, float]:
    ((low, high),) = found.interval(level).tolist()
    return low, high


def as_before(value: float, variance: float) -> float:
    """Planted: the upper end that takes noise for clumps."""
    seen = variance / value
    return float(value + seen + 1.96 * np.sqrt(variance + seen**2))


@pytest.mark.parametrize("estimate", [0.0, 0.3, 1.0, 4.0])
def test_somebody_who_knows_a_person_expects_as_many_as_there_are_on_average_where_people_are(estimate: float) -> None:
    """Oracle: the squares of people over people, summed over all means that the noise allows.

    At a level near 0 the upper end is what is expected. A standard error of the noise is 1,000 people, so that whole
    ones are precise. Planted: noise as if it were clumps.
    """
    weight = norm.pdf(PLACES - estimate)
    expected = np.sum(weight * PLACES**2) / np.sum(weight * PLACES)
    _, high = ends(answer(1e3 * estimate, 0.0, 1e6), 1e-9)
    assert high == pytest.approx(1e3 * expected, abs=1.0)
    if 0.0 < estimate < 4.0:
        assert abs(1e3 * estimate + 1e3 / estimate - high) > 100.0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("shape", [0.5, 2.0, 30.0])
def test_clumps_are_a_gamma_law_whose_shape_is_one_more_for_somebody_who_knows_a_person(
    shape: float, level: float
) -> None:
    """Oracle: scipy's quantiles, within 6 % of the mean and a standard deviation. Planted: those of normal laws."""
    value, beyond = 1e6 * shape, (1.0 - level) / 2.0
    found = np.array(ends(answer(value, 1e12 * shape, 0.0, most=1e12), level)) / 1e6
    exact = np.array([gamma.ppf(beyond, shape), gamma.ppf(1.0 - beyond, shape + 1.0)])
    near = 0.06 * (shape + np.sqrt(shape))
    assert (np.abs(found - exact) < near).all()
    away = standard_errors(level)
    normal = np.array([max(shape - away * np.sqrt(shape), 0.0), shape + 1.0 + away * np.sqrt(shape + 1.0)])
    if level > 0.9 and shape < 30.0:
        assert (np.abs(normal - exact) > near).any()


@pytest.mark.parametrize("estimate", [0.0, 0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_noise_alone_leaves_no_more_outside_than_the_level_says(estimate: float, level: float) -> None:
    """For somebody who knows a person and for everybody else. Planted: the normal end, for who knows a person."""
    low, high = np.array(ends(answer(1e6 * estimate, 0.0, 1e12, most=1e12), level)) / 1e6
    for weight in (norm.pdf(PLACES - estimate) * PLACES, norm.pdf(PLACES - estimate)):
        assert np.sum(weight * ((low > PLACES) | (high < PLACES))) / np.sum(weight) <= 1.0 - level
    far, weight = np.abs(PLACES - estimate) > standard_errors(level), norm.pdf(PLACES - estimate) * PLACES
    assert np.sum(weight * far) / np.sum(weight) > 1.0 - level


def test_higher_levels_hold_lower_ones_where_two_middles_are_cut_off_on_both_sides() -> None:
    levels = np.linspace(0.5, 0.999, 400)
    for more, most in ((10_600.0, 10_800.0), (5_000.0, 5_400.0), (2_300.0, 2_500.0)):
        found = answer(more, 0.0, 1e6, second=0.0, most=most)
        low, high = np.array([ends(found, level) for level in levels]).T
        assert (np.diff(low) <= 0).all()
        assert (np.diff(high) >= 0).all()


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
    found: Any = sl.counts(points.clip(0, 1), sl.Box((0, 0), (1, 1)), epsilon=0.1, trust=trust, rng=rng)
    lower = rng.uniform((0.3, 0.3), (0.7, 0.7), (2_000, 2))
    boxes: Floats = np.stack([lower, lower + rng.uniform(0.001, 0.05, lower.shape)], axis=1)
    answers = found.query(boxes)
    most = 6.0 * float(np.sqrt(found.partition.estimates.variances.max()))
    more = np.maximum(answers.value, answers.plain)
    assert (answers.interval()[:, 1] <= more + most).all()
    public = replace(answers, noise=np.zeros(len(boxes)))
    assert (public.interval()[:, 1] > more + most).any()
