"""Thresholds are exact: against rational arithmetic, against scipy, and against answers that are really drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

from semilocal.errors import InvalidInput
from semilocal.protocol import thresholds as module
from semilocal.protocol.thresholds import SLACK, level, needed, passing, tail, threshold, thresholds
from semilocal.randomizer import RandomizedResponse

Tail = Callable[[int, int, int, float, int], float]
SMALL = [(a, m, k) for a in (1, 2, 5, 9, 14) for m in (0, 1, 2, 5, 8, 14) for k in (1, 2, 4, 9, 20) if m <= a]
LARGER = [(60, 40, 20), (90, 30, 7), (44, 44, 20), (70, 25, 60), (300, 20, 20)]
EPSILONS = (0.1, 1.0, 4.0)


@cache
def exact_tails(askable: int, asked: int, k: int, epsilon: float) -> tuple[Fraction, ...]:
    """P(T >= t) for t = 0 … asked + 1 in integers, from the definition: every h, every answer."""
    true, other = RandomizedResponse(epsilon, 2).weights
    inside = min(k - 1, askable)
    law = [0] * (asked + 1)
    for h in range(min(inside, asked) + 1):
        coefficients = [math.comb(inside, h) * math.comb(askable - inside, asked - h)]
        for person in range(asked):
            yes, no = (true, other) if person < h else (other, true)
            longer = zip([*coefficients, 0], [0, *coefficients], strict=True)
            coefficients = [no * same + yes * one_less for same, one_less in longer]
        law = [total + more for total, more in zip(law, coefficients, strict=True)]
    whole = math.comb(askable, asked) << (64 * asked)
    return tuple(Fraction(sum(law[t:]), whole) for t in range(asked + 2))


def scipy_tail(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """P(T >= t) in floats, for sizes that are too large for integers."""
    p, q = RandomizedResponse(epsilon, 2).probabilities
    inside = min(k - 1, askable)
    h = np.arange(min(inside, asked) + 1)
    chance = stats.hypergeom.pmf(h, askable, inside, asked)
    total = 0.0
    for drawn, weight in zip(h[chance > 1e-30], chance[chance > 1e-30], strict=True):
        yes = np.arange(drawn + 1)
        total += weight * float(stats.binom.pmf(yes, drawn, p) @ stats.binom.sf(t - yes - 1, asked - drawn, q))
    return total


def assert_exact(tail: Tail, cases: list[tuple[int, int, int]]) -> None:
    """Never below the truth, and above it by less than 1e-12 of it (and 2e-60)."""
    for (askable, asked, k), epsilon in product(cases, EPSILONS):
        for t, truth in enumerate(exact_tails(askable, asked, k, epsilon)):
            got = Fraction(tail(askable, asked, k, epsilon, t))
            assert truth <= got, (askable, asked, k, epsilon, t)
            assert got <= truth * (1 + Fraction(1, 10**12)) + Fraction(2, 10**60), (askable, asked, k, epsilon, t)


def test_tails_are_exact_and_never_below_the_truth() -> None:
    assert_exact(tail, SMALL + LARGER)


def drawn_with_replacement(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """A planted bug: binomial instead of hypergeometric."""
    p, q = RandomizedResponse(epsilon, 2).probabilities
    share = min(k - 1, askable) / askable
    return float(stats.binom.sf(t - 1, asked, share * p + (1 - share) * q)) * (1 + 1e-13)


def one_person_more(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """A planted bug: k people on the side instead of k - 1."""
    return tail(askable, asked, k + 1, epsilon, t)


def one_person_less(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """A planted bug: k - 2 people on the side."""
    return tail(askable, asked, max(k - 1, 1), epsilon, t)


def above_instead_of_from(askable: int, asked: int, k: int, epsilon: float, t: int) -> float:
    """A planted bug: P(T > t)."""
    return tail(askable, asked, k, epsilon, t + 1)


@pytest.mark.parametrize("planted", [drawn_with_replacement, one_person_more, one_person_less, above_instead_of_from])
def test_a_planted_wrong_law_is_caught(planted: Tail) -> None:
    with pytest.raises(AssertionError):
        assert_exact(planted, LARGER)


def test_without_the_proven_bound_some_tails_are_below_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UNIT", 0.0)
    with pytest.raises(AssertionError):
        assert_exact(tail, LARGER)


@pytest.mark.parametrize("bound", [0.3, 0.025, 1e-6, 5e-9, 1e-21])
def test_a_threshold_is_the_smallest_count_that_is_rare_enough(bound: float) -> None:
    for (askable, asked, k), epsilon in product(SMALL + LARGER, EPSILONS):
        truth = exact_tails(askable, asked, k, epsilon)
        t = threshold(askable, asked, k, epsilon, bound)
        assert truth[t] <= Fraction(bound)
        assert t == 0 or truth[t - 1] > Fraction(bound) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("askable", "asked", "k", "epsilon", "bound"),
    [
        (1000, 400, 20, 1.0, 1e-8),
        (20_000, 3000, 100, 0.5, 1e-6),
        (10**6, 10**5, 20, 1.0, 1e-12),
        (10**5, 10**5, 20, 0.25, 1e-12),
        (5000, 3000, 2000, 1.0, 1e-9),
        (900, 700, 5000, 2.0, 1e-9),
    ],
)
def test_large_tails_agree_with_scipy(askable: int, asked: int, k: int, epsilon: float, bound: float) -> None:
    t = threshold(askable, asked, k, epsilon, bound)
    for count in (t - 1, t, t + 5):
        truth = scipy_tail(askable, asked, k, epsilon, count)
        assert tail(askable, asked, k, epsilon, count) == pytest.approx(truth, rel=1e-8)
    assert scipy_tail(askable, asked, k, epsilon, t) <= bound < scipy_tail(askable, asked, k, epsilon, t - 1)


def test_the_largest_crowd_has_a_threshold() -> None:
    crowd, people = 1 << 20, 3 * 10**6
    p, q = RandomizedResponse(1.0, 2).probabilities
    t = threshold(people, people, crowd, 1.0, 1e-12)  # everybody is asked: two binomials
    middle = int(crowd * p)
    yes = np.arange(middle - 6000, middle + 6000)
    truth = float(stats.binom.pmf(yes, crowd - 1, p) @ stats.binom.sf(t - yes - 1, people - crowd + 1, q))
    assert tail(people, people, crowd, 1.0, t) == pytest.approx(truth, rel=1e-7)
    t = threshold(people, people // 2, crowd, 1.0, 1e-12)
    mean = people / 2 * q + (crowd - 1) / 2 * (p - q)
    assert 6.5 < (t - mean) / math.sqrt(people / 2 * p * q) < 7.5  # 1e-12 lies 7.03 deviations above the mean


def test_the_law_for_large_crowds_is_that_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(900, 400, 300), (300, 300, 120), (100, 80, 300), (500, 90, 300)]
    counts = {case: range(case[1] // 4, case[1], 7) for case in cases}
    usual = {case: [tail(*case, 1.0, t) for t in counts[case]] for case in cases}
    monkeypatch.setattr(module, "_WIDE", 2)
    for case in cases:
        # What is left out there may come back as 2e-60, twice.
        assert [tail(*case, 1.0, t) for t in counts[case]] == pytest.approx(usual[case], rel=1e-11, abs=4e-60)


def test_no_size_loses_its_tail_to_underflow() -> None:
    for asked, epsilon in product((10, 1000, 10**5), (0.001, 1.0, 40.0)):
        found = [threshold(10**5, asked, 20, epsilon, bound) for bound in (1e-3, 1e-21, 1e-50)]
        assert found == sorted(found)
        for t, bound in zip(found, (1e-3, 1e-21, 1e-50), strict=True):
            assert tail(10**5, asked, 20, epsilon, t) <= bound < tail(10**5, asked, 20, epsilon, t - 1)


def test_thresholds_are_those_of_one_by_one() -> None:
    rng = np.random.default_rng(3)
    people = rng.integers(20, 400, 500)
    asked = rng.integers(8, people + 1)
    bounds = np.array([level(1e-6, w) for w in range(12)])[rng.integers(0, 12, 500)]
    many = thresholds(people, asked, 20, 1.25, bounds)
    module._known.cache_clear()
    rows = zip(people.tolist(), asked.tolist(), bounds.tolist(), strict=True)
    alone = [threshold(a, m, 20, 1.25, bound) for a, m, bound in rows]
    assert many.tolist() == alone
    assert many.dtype == np.int64
    again = thresholds(people, asked, 20, 1.25, bounds)
    assert (again == many).all()


def test_an_exact_program_and_this_one_accept_each_others_thresholds() -> None:
    """At a tie the two may differ by one; the device's tolerance covers it."""
    for (askable, asked, k), epsilon in product(LARGER, EPSILONS):
        for t, truth in enumerate(exact_tails(askable, asked, k, epsilon)):
            if 1e-25 < truth < 0.9:
                tie = math.nextafter(float(truth), 1.0)
                assert tail(askable, asked, k, epsilon, t) <= (1 + SLACK) * tie
                assert threshold(askable, asked, k, epsilon, tie) in (t, t + 1)


def test_levels_add_up_to_less_than_delta() -> None:
    for delta in (0.05, 1e-6, 1e-15):
        assert sum(Fraction(level(delta, w)) for w in range(2000)) <= Fraction(delta)
    assert level(0.06, 1) == pytest.approx(0.01)


def plain_needed(askable: int, k: int, epsilon: float, bound: float, share: float, chance: float) -> int:
    """The definition, one step after the other."""
    limit, size = int(module._rounded(np.array([askable]))[0]), 8
    while size < limit:
        if passing(threshold(limit, size, k, epsilon, bound), size, epsilon, share) >= chance:
            return size
        size = int(size * 1.15) + 1
    return askable


def test_as_many_are_asked_as_the_test_needs() -> None:
    rng = np.random.default_rng(2)
    people = np.concatenate([np.arange(30), rng.integers(30, 400, 60), [400, 409, 410, 1234, 20_000, 1_999_999]])
    bounds = np.array([level(1e-3, w) for w in range(4)])[rng.integers(0, 4, len(people))]
    for epsilon in (0.5, 1.0, 2.0):
        many = needed(people, 20, epsilon, bounds)
        rows = list(zip(people.tolist(), bounds.tolist(), strict=True))
        assert many.tolist() == [plain_needed(a, 20, epsilon, b, 0.35, 0.85) for a, b in rows]
        module._known.cache_clear()
        assert many.tolist() == [int(needed([a], 20, epsilon, [b])[0]) for a, b in rows]
        assert (many <= people).all()
    (other,), (usual,) = needed([5000], 20, 1.0, [1e-3], share=0.5, chance=0.3), needed([5000], 20, 1.0, [1e-3])
    assert other == plain_needed(5000, 20, 1.0, 1e-3, 0.5, 0.3) < usual


def test_nothing_is_asked_for_nobody() -> None:
    assert threshold(0, 0, 20, 1.0, 0.1) == 1
    assert thresholds([], [], 20, 1.0, []).tolist() == []
    assert needed([], 20, 1.0, []).tolist() == []


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: threshold(10, 11, 20, 1.0, 0.1), "asked must be from 0 to askable; got 11 of 10"),
        (lambda: threshold(10, -1, 20, 1.0, 0.1), "asked must be from 0 to askable"),
        (lambda: threshold(10, 5, 0, 1.0, 0.1), "k must be"),
        (lambda: threshold(10, 5, 20, 0.0, 0.1), "epsilon"),
        (lambda: threshold(10, 5, 20, 1.0, 0.0), "a level must be"),
        (lambda: threshold(10, 5, 20, 1.0, 1.0), "a level must be"),
        (lambda: threshold(10, 5, 20, 1.0, math.nan), "levels"),
        (lambda: thresholds([10, 20], [5], 20, 1.0, [0.1, 0.1]), "asked must be integers of shape"),
        (lambda: thresholds([10.5], [5], 20, 1.0, [0.1]), "askable must be integers"),
        (lambda: tail(10, 11, 20, 1.0, 3), "asked must be"),
        (lambda: tail(10, 5, 20, 1.0, 2.5), "t must be an integer"),  # type: ignore[arg-type]
        (lambda: level(0.0, 1), "delta must be"),
        (lambda: level(0.1, -1), "failed must be"),
        (lambda: needed([-1], 20, 1.0, [0.1]), "asked must be"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        call()
