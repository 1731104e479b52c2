"""What a confidence level is, and what is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gamma, norm

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.release.answers import CountAnswers, check_level, standard_errors

BOX, F = sl.Box((0, 0), (1, 1)), sl.functions.coordinate(0)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_a_normal_number_lies_that_often_within_so_many_standard_errors(level: float) -> None:
    width = standard_errors(level)
    assert norm.cdf(width) - norm.cdf(-width) == pytest.approx(level)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan, None, "a", True, [0.9], 0.5j, np.complex128(0.5)])
def test_what_is_no_level_is_refused(level: Any) -> None:
    with pytest.raises(InvalidInput, match="level must be a number strictly between 0 and 1"):
        standard_errors(level)
    if level != 1.0 or level is True:
        with pytest.raises(InvalidInput, match="level must be a number above 0 and at most 1"):
            check_level(level, certain=True)


def test_levels_of_numpy_are_taken() -> None:
    float32: Any = np.float32(0.5)
    assert standard_errors(float32) == standard_errors(np.float64(0.5)) == standard_errors(0.5)
    check_level(1, certain=True)


@pytest.mark.parametrize("level", [None, "a", [0.9]])
@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_every_answer_refuses_it(trust: Any, level: Any) -> None:
    points, box, f = np.random.default_rng(1).random((500, 2)), sl.Box((0, 0), (1, 1)), sl.functions.coordinate(0)
    options: Any = {"epsilon": 4.0, "trust": trust, "rng": np.random.default_rng(2)}
    counts = sl.counts(points, box, **options)
    answers: list[Any] = [
        counts, counts.query([[[0, 0], [0.5, 0.5]]]), sl.mean(points, f, box, **options),
        sl.cell_means(points, f, box, **options), sl.points(points, box, **options),
    ]  # fmt: skip
    for answer in answers:
        with pytest.raises(InvalidInput, match="level must be a number"):
            answer.interval(level)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_an_interval_that_says_next_to_nothing_says_so_and_what_would_help(trust: sl.Trust) -> None:
    """In the table, for counts and means. Planted bug: it is said of intervals that tell something."""
    points = np.random.default_rng(1).random((300, 2))
    few: dict[str, Any] = {"epsilon": 0.05, "trust": trust, "rng": np.random.default_rng(2)}
    with pytest.warns(sl.errors.WeakWarning) as warned:
        weak = sl.counts(points, BOX, **few).query([[[0.2, 0.2], [0.3, 0.3]], [[0, 0], [1, 1]]])
    assert {each.filename for each in warned} == {__file__}, "it names the caller's line"
    words = (
        "1 of 2 intervals says next to nothing: from nobody to twice the answer or more. More people, a larger epsilon"
    )
    assert f"{words}{', two servers' if trust == 'nobody' else ''} or a larger area would help." in repr(weak)
    mean = sl.mean(points[:40], sl.functions.coordinate(0), BOX, **few | {"epsilon": 0.01})
    assert "The interval says next to nothing: it is most of the range. More people" in repr(mean)
    assert "next to nothing" in weak._repr_html_()
    many = np.random.default_rng(1).random((20_000, 2))
    strong: dict[str, Any] = {"epsilon": 2.0, "trust": trust, "rng": np.random.default_rng(2)}
    for found in (sl.counts(many, BOX, **strong).query([[[0, 0], [0.5, 0.5]]]), sl.mean(many, F, BOX, **strong)):
        assert found.caution() == ""
        assert "next to nothing" not in repr(found)


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
