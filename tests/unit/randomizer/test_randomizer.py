"""What the randomizers promise: epsilon by counting every word of entropy, exact estimates, and crowd tests that hold.

Epsilon is proven, not sampled: for every child we count how many of the 2**64 words give each answer (the answer is
monotone in the word, so its boundaries are found by bisection on the real function) and compare the integer counts.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import fft, special, stats

from semilocal import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.errors import InvalidInput

WORDS = 2**64
FIXED_POINT = 2**20
Integers = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]

RANDOM = np.sort(np.random.default_rng(0).integers(0, WORDS, 1_000, dtype=np.uint64))

# -- counting words ------------------------------------------------------------------------------------------------


def first_words(rank: Callable[[Uints], Integers], ranks: int) -> list[int]:
    """First word whose rank is at least 1, 2, … ranks - 1, by bisection; the rank must not fall with the word."""
    low, high = np.zeros(ranks - 1, dtype=np.uint64), np.full(ranks - 1, WORDS - 1, dtype=np.uint64)
    wanted = np.arange(1, ranks)
    assert rank(high).min() == ranks - 1
    for _ in range(64):
        middle = low + (high - low) // np.uint64(2)
        enough = rank(middle) >= wanted
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + np.uint64(1), high))
    return [int(word) for word in high]


def count_words(rank: Callable[[Uints], Integers], ranks: int) -> list[int]:
    """How many of all words have each rank, exactly; checks that the rank does not fall, at and between boundaries."""
    starts = first_words(rank, ranks)
    around = np.array([word + shift for word in starts for shift in (-1, 0)], dtype=np.uint64)
    assert rank(around).tolist() == [r for i in range(1, ranks) for r in (i - 1, i)]
    assert (np.diff(rank(RANDOM)) >= 0).all()
    return [b - a for a, b in itertools.pairwise([0, *starts, WORDS])]


def response_counts(randomizer: RandomizedResponse, child: int) -> list[int]:
    """Words that give each answer when the true child is ``child``."""
    order = [child, *(c for c in range(randomizer.fanout) if c != child)]  # answers in the order of words
    place = np.argsort(order)

    def rank(words: Uints) -> Integers:
        return np.asarray(place[randomizer.answers(np.full(len(words), child), words[:, None])])

    counts = dict(zip(order, count_words(rank, randomizer.fanout), strict=True))
    return [counts[answer] for answer in range(randomizer.fanout)]


@cache
def laplace_counts(randomizer: DiscreteLaplace) -> tuple[list[int], list[int]]:
    """Words that give each value of the alphabet to an entry, when the entry is 0 and when it is 1."""
    values = randomizer.alphabet[0]
    size = len(values)

    def entry(words: Uints, child: int) -> Integers:
        both = np.stack([words, np.zeros_like(words)], axis=1)
        return np.asarray(DiscreteLaplace(randomizer.epsilon, 2).answers(np.full(len(words), child), both)[:, 0])

    zero = count_words(lambda words: entry(words, 1) - values[0], size)
    one = count_words(lambda words: values[-1] - entry(words, 0), size)
    return zero, one[::-1]


def worst_ratio_is_within(counts: Sequence[Sequence[int]], epsilon: Decimal) -> bool:
    """Whether no answer is more than e^epsilon times likelier under one input than under another. Exact."""
    with decimal.localcontext() as context:
        context.prec = 80
        limit = epsilon.exp()
        for column in zip(*counts, strict=True):
            if min(column) == 0 or Decimal(max(column)) > Decimal(min(column)) * limit:
                return False
    return True


def log_ratio(counts: Sequence[Sequence[int]]) -> float:
    return max(math.log(max(column)) - math.log(min(column)) for column in zip(*counts, strict=True))


EPSILONS = (0.001, 0.01, 0.1, 0.5, 1.0, math.log(3), 2.0, 4.0, 8.0, 12.0, 20.0, 40.0)
FANOUTS = (2, 3, 4, 5, 8, 16, 64, 256)


@pytest.mark.parametrize("fanout", FANOUTS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_keeps_its_epsilon_exactly(epsilon: float, fanout: int) -> None:
    randomizer = RandomizedResponse(epsilon, fanout)
    children = range(fanout) if fanout <= 8 else (0, 1, fanout // 2, fanout - 1)
    counts = [response_counts(randomizer, child) for child in children]
    assert all(sum(row) == WORDS for row in counts)
    true, other = randomizer.weights
    for child, row in zip(children, counts, strict=True):
        assert row == [true if answer == child else other for answer in range(fanout)]
    assert worst_ratio_is_within(counts, Decimal(epsilon))
    assert true > other
    if epsilon <= 20:
        assert log_ratio(counts) > epsilon - 1e-8  # no more noise than the promise needs


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_weights_rounded_the_other_way_would_be_caught(epsilon: float) -> None:
    """The planted bug: floors in place of ceilings. At least one fanout must break the promise, by the same check."""
    caught = 0
    for fanout in FANOUTS:
        with decimal.localcontext() as context:
            context.prec = 80
            other = int((WORDS / (Decimal(epsilon).exp() + fanout - 1)).to_integral_value(decimal.ROUND_FLOOR))
        true = WORDS - (fanout - 1) * other
        counts = [[true if answer == child else other for answer in range(fanout)] for child in range(fanout)]
        caught += not worst_ratio_is_within(counts, Decimal(epsilon))
        assert other + 1 == RandomizedResponse(epsilon, fanout).weights[1]
    assert caught == len(FANOUTS)


LAPLACE_EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0, 3.7, 8.0, 12.0, 40.0)


@pytest.mark.parametrize("epsilon", LAPLACE_EPSILONS)
def test_every_entry_of_discrete_laplace_costs_half_of_epsilon_exactly(epsilon: float) -> None:
    randomizer = DiscreteLaplace(epsilon, 2)
    zero, one = laplace_counts(randomizer)
    assert sum(zero) == sum(one) == WORDS
    assert one == zero[::-1]  # value y of a one is value 1 - y of a zero
    assert tuple(zero) == randomizer.alphabet[1]
    assert worst_ratio_is_within([zero, one], Decimal(epsilon) / 2)
    assert log_ratio([zero, one]) > epsilon / 2 - 1e-4


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 12.0])
def test_the_whole_one_hot_vector_of_discrete_laplace_costs_epsilon_exactly(epsilon: float) -> None:
    zero, one = laplace_counts(DiscreteLaplace(epsilon, 2))
    # Entries of children that are the true one in neither case have the same factor on both sides and cancel.
    first = [a * b for a, b in itertools.product(one, zero)]
    second = [a * b for a, b in itertools.product(zero, one)]
    assert sum(first) == WORDS**2
    assert worst_ratio_is_within([first, second], Decimal(epsilon))
    assert log_ratio([first, second]) > epsilon * 0.999
    assert not worst_ratio_is_within([first, second], Decimal(epsilon) * Decimal("0.999"))


def test_laplace_weights_rounded_the_other_way_would_be_caught() -> None:
    """The planted bug: one word too many on the likelier side of each pair, one too few on the other."""
    for epsilon in (1.0, 4.0):
        zero, _ = laplace_counts(DiscreteLaplace(epsilon, 2))
        half = len(zero) // 2
        bent = [weight + 1 for weight in zero[:half]] + [weight - 1 for weight in zero[half:]]
        assert sum(bent) == WORDS
        assert not worst_ratio_is_within([bent, bent[::-1]], Decimal(epsilon) / 2)


# -- the paper's Laplace -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 2.0])
def test_the_paper_s_report_costs_two_over_scale_and_not_one(scale: float) -> None:
    """The event "entry a is at least 1 and entry b at most 0", by the exact count of words that lead to it."""
    randomizer = PaperLaplace(scale, 2)
    assert randomizer.epsilon == 2 / scale

    def chance(child: int) -> Fraction:
        def entry(words: Uints, place: int) -> Integers:
            both = np.full((len(words), 2), 2**63, dtype=np.uint64)
            both[:, place] = words
            return np.asarray(randomizer.answers(np.full(len(words), child), both)[:, place])

        (high,) = first_words(lambda words: (entry(words, 0) >= FIXED_POINT).astype(np.int64), 2)
        (low,) = first_words(lambda words: (entry(words, 1) > 0).astype(np.int64), 2)
        return Fraction(WORDS - high, WORDS) * Fraction(low, WORDS)

    ratio = float(chance(0) / chance(1))
    assert ratio == pytest.approx(math.exp(2 / scale), rel=1e-4)
    assert ratio > 1.5 * math.exp(1 / scale)  # a claim of 1 / scale is refuted
    assert float(chance(0)) == pytest.approx(0.25, rel=1e-4)


# -- one way to answer ---------------------------------------------------------------------------------------------

EVERY = [
    RandomizedResponse(1.0, 2),
    RandomizedResponse(0.3, 5),
    RandomizedResponse(3.0, 256),
    DiscreteLaplace(1.0, 2),
    DiscreteLaplace(2.5, 8),
    PaperLaplace(1.0, 2),
    PaperLaplace(0.4, 4, "paper"),
]
Any3 = RandomizedResponse | DiscreteLaplace | PaperLaplace
every = pytest.mark.parametrize("randomizer", EVERY, ids=lambda r: f"{type(r).__name__}-{r.fanout}")


@every
def test_a_device_a_simulation_and_a_batch_give_the_same_report_for_the_same_words(randomizer: Any3) -> None:
    children = np.random.default_rng(1).integers(0, randomizer.fanout, 300)
    words = np.random.default_rng(2).integers(0, WORDS, (300, randomizer.words), dtype=np.uint64)
    batch = randomizer.answers(children, words)
    assert (randomizer.respond_many(children, np.random.default_rng(2)) == batch).all()
    for child, row, report in zip(children.tolist(), words, batch.tolist(), strict=True):
        single = randomizer.respond(child, row.astype(">u8").tobytes())
        assert single == (tuple(report) if isinstance(report, list) else report)
        randomizer.check_answer(single)
    assert batch.dtype == np.int64


@every
def test_wrong_entropy_and_wrong_children_are_refused(randomizer: Any3) -> None:
    with pytest.raises(InvalidInput, match=f"entropy must be {8 * randomizer.words} bytes"):
        randomizer.respond(0, bytes(8 * randomizer.words - 1))
    for child in (-1, randomizer.fanout):
        with pytest.raises(InvalidInput, match=f"child must be 0 to {randomizer.fanout - 1}; got {child}"):
            randomizer.respond(child, bytes(8 * randomizer.words))


# -- crowd tests of the Laplace randomizers ------------------------------------------------------------------------


def laplace_tail(margin: float, size: int, scale: float) -> float:
    """P(sum of ``size`` Laplace terms >= margin), margin > 0, as a sum of positive terms.

    The sum is G - H of two Gamma(size) variables. G is the last of ``size`` arrivals of a Poisson process, so
    P(G > H + t) = sum over m of P(Poisson(t) = m) P(fewer than size - m arrivals within H), and the latter is negative
    binomial with p = 1/2.
    """
    t = margin / scale
    m = np.arange(max(0, int(t - 40 * math.sqrt(t) - 400)), min(size, int(t + 40 * math.sqrt(t) + 400)))
    return float(stats.poisson.pmf(m, t) @ special.betainc(size, size - m, 0.5))


def test_the_laplace_oracle_is_right_for_one_and_two_terms() -> None:
    for t in (0.1, 1.0, 7.0, 30.0):
        assert laplace_tail(t, 1, 1.0) == pytest.approx(math.exp(-t) / 2, rel=1e-12)
        assert laplace_tail(t, 2, 1.0) == pytest.approx(math.exp(-t) * (2 + t) / 4, rel=1e-12)
        assert laplace_tail(2 * t, 2, 2.0) == laplace_tail(t, 2, 1.0)


def laplace_sizes(k: int) -> list[int]:
    return sorted({n for n in (k, 50, 1000, 10**6) if n >= k})


@pytest.mark.parametrize("k", [1, 20, 1000])
@pytest.mark.parametrize("scale", [0.2, 1.0, 20.0])
def test_the_chernoff_margin_of_the_paper_s_laplace_holds(scale: float, k: int) -> None:
    randomizer = PaperLaplace(scale, 2)
    sizes = laplace_sizes(k)
    for delta in (0.05, 1e-3, 1e-6, 1e-9):
        for n, threshold in zip(sizes, randomizer.threshold(sizes, k=k, delta=delta).tolist(), strict=True):
            margin = threshold / FIXED_POINT - (k - 1)
            # Every report is rounded by at most half a step of the grid; count all of it against us.
            assert laplace_tail(margin - n / FIXED_POINT / 2, n, scale) <= delta
            assert laplace_tail(margin * 0.9, n, scale) > delta * 1e-2 or n < 50  # not absurdly large
            assert randomizer.margin_of([n], delta=delta)[0] <= margin


def test_the_printed_margin_fails_for_small_delta_and_a_million_responders() -> None:
    randomizer = PaperLaplace(1.0, 4, "paper")
    n, k, delta = 10**6, 20, 1e-6
    margin = float(randomizer.margin_of([n], delta=delta)[0])
    budget = math.log(1 / delta)
    assert margin == pytest.approx(math.sqrt(2 * n * budget) + 6 * budget)
    (threshold,) = randomizer.threshold([n], k=k, delta=delta).tolist()
    assert threshold == math.ceil((k + margin) * FIXED_POINT)
    failure = laplace_tail(threshold / FIXED_POINT - (k - 1), n, 1.0)
    assert failure == pytest.approx(8e-5, rel=0.1)
    assert failure > 50 * delta
    assert laplace_tail(float(PaperLaplace(1.0, 4).margin_of([n], delta=delta)[0]), n, 1.0) <= delta


def discrete_tail(randomizer: DiscreteLaplace, threshold: int, size: int, ones: int) -> float:
    """P(sum of ``size`` entries, ``ones`` of them 1, >= threshold), by an exponentially tilted Fourier transform.

    Tilting moves the peak of the sum to the threshold, where the tail's mass is, so that the transform's rounding
    (relative to the peak) is relative to the tail. Good for eight digits at a million terms.
    """
    values, weights = randomizer.alphabet
    chances = np.array([float(Fraction(weight, WORDS)) for weight in weights])
    kinds = [(values.astype(float), size - ones), (1.0 - values, ones)]

    def mean(tilt: float) -> float:
        total = 0.0
        for value, number in kinds:
            weight = chances * np.exp(tilt * value)
            total += number * float(weight @ value / weight.sum())
        return total

    low, high = 0.0, randomizer.epsilon / 2
    while mean(high) < threshold and high < 100:
        high *= 1.5
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < threshold else (low, middle)
    tilt, log_scale, spread = low, 0.0, 0.0
    for value, number in kinds:
        weight = chances * np.exp(tilt * value)
        total = weight.sum()
        log_scale += number * math.log(total)
        weight /= total
        spread += number * float(weight @ value**2 - (weight @ value) ** 2)
    reach = min(int(40 * math.sqrt(spread)) + 200, size * int(values[-1]) + 2)
    length = fft.next_fast_len(2 * max(reach, 2 * len(values)), real=True)
    transform = np.ones(length // 2 + 1, dtype=complex)
    for value, number in kinds:
        mass = np.zeros(length)
        weight = chances * np.exp(tilt * value)
        np.add.at(mass, value.astype(int) % length, weight / weight.sum())
        transform *= fft.rfft(mass) ** number
    sums = fft.irfft(transform, length)
    offsets = np.arange(length // 2)  # of the sum above the threshold
    here = np.maximum(sums[(threshold + offsets) % length], 0.0)
    return float(here @ np.exp(-tilt * offsets)) * math.exp(log_scale - tilt * threshold)


def test_the_discrete_oracle_is_right_for_few_terms() -> None:
    for epsilon, size, ones in ((1.0, 1, 0), (1.0, 3, 1), (4.0, 4, 4), (12.0, 5, 2)):
        randomizer = DiscreteLaplace(epsilon, 2)
        values, weights = randomizer.alphabet
        chances = np.array([weight / WORDS for weight in weights])
        mass, first = np.ones(1), 0
        for i in range(size):
            mass = np.convolve(mass, chances if i >= ones else chances[::-1])
            first += int(values[0]) if i >= ones else 1 - int(values[-1])
        for threshold in (ones + 1, ones + 5, ones + 20):
            wanted = mass[threshold - first :].sum()
            assert discrete_tail(randomizer, threshold, size, ones) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("k", [1, 20, 1000])
@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1.0, 4.0, 12.0])
def test_the_crowd_test_of_discrete_laplace_holds(epsilon: float, k: int) -> None:
    randomizer = DiscreteLaplace(epsilon, 2)
    sizes = laplace_sizes(k)
    for delta in (0.05, 1e-6, 1e-9):
        for n, threshold in zip(sizes, randomizer.threshold(sizes, k=k, delta=delta).tolist(), strict=True):
            for ones in {0, k - 1} if n < 10**6 else {k - 1}:
                assert discrete_tail(randomizer, threshold, n, ones) <= delta, (n, delta, ones)
            assert threshold > k - 1


def test_a_laplace_margin_that_is_too_small_would_be_caught() -> None:
    """The planted bug: a margin a fifth too small."""
    for n in (1000, 10**6):
        margin = float(PaperLaplace(1.0, 2).margin_of([n], delta=1e-6)[0])
        assert laplace_tail(0.8 * margin, n, 1.0) > 1e-6
        (threshold,) = DiscreteLaplace(1.0, 2).threshold([n], k=20, delta=1e-6).tolist()
        assert discrete_tail(DiscreteLaplace(1.0, 2), 19 + int(0.8 * (threshold - 19)), n, 19) > 1e-6


# -- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RandomizedResponse, DiscreteLaplace])
@pytest.mark.parametrize("epsilon", [0, -1, 41, math.nan, math.inf, "1", True, None])
def test_an_impossible_epsilon_is_refused(kind: Any, epsilon: Any) -> None:
    with pytest.raises(InvalidInput, match=r"epsilon must be a number from 0\.001 to 40"):
        kind(epsilon, 2)


@pytest.mark.parametrize("kind", [RandomizedResponse, DiscreteLaplace, PaperLaplace])
@pytest.mark.parametrize("fanout", [0, 1, 257, 2.0, True, None])
def test_an_impossible_fanout_is_refused(kind: Any, fanout: Any) -> None:
    with pytest.raises(InvalidInput, match="fanout must be an integer from 2 to 256"):
        kind(1.0, fanout)


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "1", True, 0.01, 1e9])
def test_an_impossible_scale_is_refused(scale: Any) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        PaperLaplace(scale, 2)
    with pytest.raises(InvalidInput, match="margin must be 'chernoff' or 'paper'; got 'bernstein'"):
        PaperLaplace(1.0, 2, "bernstein")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("randomizer", "answers"),
    [
        (RandomizedResponse(1.0, 4), [-1, 4, 1.0, True, None, (1,), "1"]),
        (DiscreteLaplace(1.0, 2), [0, (0,), (0, 0, 0), (0, 10**6), (0, -(10**6)), (0, 0.0), (0, True), [0, 0]]),
        (PaperLaplace(1.0, 2), [0, (0,), (0, 2**40), (0, 0.5)]),
    ],
)
def test_answers_that_nobody_can_have_given_are_refused(randomizer: Any3, answers: list[Any]) -> None:
    for answer in answers:
        with pytest.raises(InvalidInput, match="answer"):
            randomizer.check_answer(answer)


def test_only_float_noise_is_for_simulation_only() -> None:
    assert [type(r).__name__ for r in EVERY if r.simulation_only] == ["PaperLaplace", "PaperLaplace"]
