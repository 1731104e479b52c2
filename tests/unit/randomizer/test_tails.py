"""What the thresholds promise: the exact tail is at most delta, and one step lower it is more than delta.

Three oracles, none of them the module's code: fractions for small sizes, sums of positive terms with scipy.stats for a
wide grid, and 60-digit decimals where floats themselves are in doubt.
"""

from __future__ import annotations

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from semilocal import RandomizedResponse
from semilocal.randomizer.base import two_binomial_threshold

GUARD = 2e-6  # the module leaves 1e-6 of delta for rounding; a threshold may be one too large for that
Floats = npt.NDArray[np.float64]

# -- oracles -------------------------------------------------------------------------------------------------------


def fraction_tails(size: int, members: int, p_in: float, p_out: float) -> list[Fraction]:
    """P(S >= c) for c = 0 … size + 1, exactly."""
    mass = [Fraction(1)]
    for i in range(size):
        p = Fraction(p_in if i < members else p_out)
        mass = [
            (mass[c] if c < len(mass) else 0) * (1 - p) + (mass[c - 1] if c else 0) * p for c in range(len(mass) + 1)
        ]
    return [sum(mass[c:], Fraction(0)) for c in range(size + 2)]


def float_tail(
    counts: npt.ArrayLike, sizes: npt.ArrayLike, members: int, p_in: float, p_out: float
) -> npt.NDArray[np.float64]:
    """P(S >= count) for each count and size, as a sum of positive terms."""
    inside = np.arange(members + 1)
    outside = stats.binom.sf(np.asarray(counts)[..., None] - inside - 1, np.asarray(sizes)[..., None] - members, p_out)
    return np.asarray(outside @ stats.binom.pmf(inside, members, p_in))


def log_factorial(n: int) -> Decimal:
    if n < 5000:
        return Decimal(math.factorial(n)).ln()
    x, pi = Decimal(n), Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
    bernoulli = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6)]
    rest = sum(Decimal(a) / b / (2 * i * (2 * i - 1) * x ** (2 * i - 1)) for i, (a, b) in enumerate(bernoulli, 1))
    return x * x.ln() - x + (2 * pi * x).ln() / 2 + rest


def decimal_masses(first: int, size: int, p: float, least: Decimal) -> list[Decimal]:
    """P(Y = first), P(Y = first + 1), … until past the mean they fall below ``least``."""
    q = 1 - Decimal(p)
    log = log_factorial(size) - log_factorial(first) - log_factorial(size - first)
    mass = (log + first * Decimal(p).ln() + (size - first) * q.ln()).exp()
    out = []
    for y in range(first, size + 1):
        out.append(mass)
        if mass < least and y > size * p:
            break
        mass = mass * (size - y) / (y + 1) * Decimal(p) / q
    return out


def decimal_tail(count: int, size: int, members: int, p_in: float, p_out: float) -> Decimal:
    """P(S >= count) with 60 digits, up to 1e-40."""
    with decimal.localcontext() as context:
        context.prec, context.Emin = 60, decimal.MIN_EMIN
        least = Decimal("1e-45")
        inner = max(0, math.floor(members * p_in - 20 * math.sqrt(members) - 5))
        inside = decimal_masses(inner, members, p_in, least)
        first = max(0, count - inner - len(inside) + 1)
        tail = list(itertools.accumulate(reversed(decimal_masses(first, size - members, p_out, least))))[::-1]
        total = Decimal(0)
        for x, mass in enumerate(inside, inner):
            index = max(count - x, first) - first
            if index < len(tail):
                total += mass * tail[index]
        return total


def test_the_oracles_agree() -> None:
    for count, size, members, p_in, p_out in [(20, 40, 10, 0.75, 0.25), (9, 12, 0, 0.5, 0.3), (30, 30, 30, 0.9, 0.1)]:
        exact = fraction_tails(size, members, p_in, p_out)[count]
        assert float_tail(count, size, members, p_in, p_out) == pytest.approx(float(exact), rel=1e-12)
        with decimal.localcontext() as context:
            context.prec = 60
            error = decimal_tail(count, size, members, p_in, p_out) - Decimal(exact.numerator) / exact.denominator
        assert abs(error) < Decimal("1e-38")


# -- thresholds ----------------------------------------------------------------------------------------------------

CHANCES = [RandomizedResponse(epsilon, fanout).probabilities for epsilon in (0.1, 1.0, 4.0) for fanout in (2, 4)]


@pytest.mark.parametrize(("p_in", "p_out"), CHANCES)
def test_thresholds_of_small_cells_are_those_of_exact_fractions(p_in: float, p_out: float) -> None:
    sizes = np.arange(1, 26, 6)
    pairs = [(n, k) for n in (1, 2, 3, 7, 12, 20) for k in {1, 2, n // 2 + 1, n} if k <= n]
    tails = {(n, k): fraction_tails(n, k - 1, p_in, p_out) for n, k in pairs}
    for delta in (0.3, 0.05, 1e-3, 1e-6, 1e-9):
        for (n, k), tail in tails.items():
            (got,) = two_binomial_threshold([n], k - 1, p_in, p_out, delta=delta)
            wanted = next(c for c in range(n + 2) if tail[c] <= Fraction(delta) * (1 - Fraction(1, 10**6)))
            assert got == wanted, (n, k, delta)
        batch = two_binomial_threshold(sizes, 0, p_in, p_out, delta=delta)
        assert batch.tolist() == [two_binomial_threshold([n], 0, p_in, p_out, delta=delta)[0] for n in sizes]


def sizes_of(k: int) -> list[int]:
    return sorted({n for n in (k, k + 1, k + 7, 2 * k, 10 * k, 300, 3000, 10**5, 10**6) if n >= k})


@pytest.mark.parametrize("fanout", [2, 4, 8])
@pytest.mark.parametrize("k", [1, 2, 5, 20, 100, 1000])
def test_the_failure_probability_is_at_most_delta_and_no_lower_threshold_would_do(k: int, fanout: int) -> None:
    sizes = sizes_of(k)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 12.0):
        randomizer = RandomizedResponse(epsilon, fanout)
        p, p0 = randomizer.probabilities
        for delta in (0.05, 1e-3, 1e-6, 1e-9):
            thresholds = randomizer.threshold(sizes, k=k, delta=delta)
            where = (sizes, k, epsilon, fanout, delta, thresholds)
            assert (float_tail(thresholds, sizes, k - 1, p, p0) <= delta).all(), where
            assert (float_tail(thresholds - 1, sizes, k - 1, p, p0) > delta * (1 - GUARD)).all(), where


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "fanout", "delta"),
    [
        (10**6, 20, 1.0, 2, 1e-9),
        (10**6, 1000, 0.1, 4, 1e-9),
        (10**6, 20, 12.0, 2, 1e-9),
        (10**8, 20, 1.0, 2, 1e-9),
        (10**6 + 3100, 10**6, 0.1, 2, 1e-6),  # the mass of the few others underflows at the window's lower end
        (5000, 4000, 1.0, 2, 1e-15),
    ],
)
def test_thresholds_hold_where_floats_are_in_doubt(n: int, k: int, epsilon: float, fanout: int, delta: float) -> None:
    randomizer = RandomizedResponse(epsilon, fanout)
    (c,) = randomizer.threshold([n], k=k, delta=delta).tolist()
    at = decimal_tail(c, n, k - 1, *randomizer.probabilities)
    below = decimal_tail(c - 1, n, k - 1, *randomizer.probabilities)
    assert at <= Decimal(delta)
    assert below > Decimal(delta) * (1 - Decimal(GUARD))


def test_a_threshold_that_is_one_too_small_would_be_caught() -> None:
    """The planted bug: the checks above must notice a threshold that is off by one."""
    p, p0 = RandomizedResponse(1.0, 2).probabilities
    for n in (30, 1000, 10**6):
        (c,) = two_binomial_threshold([n], 19, p, p0, delta=1e-6).tolist()
        assert float_tail(c - 1, n, 19, p, p0) > 1e-6
        assert float_tail(c, n, 19, p, p0) < 1e-6 * (1 - GUARD)


def test_nothing_passes_with_fewer_than_k_responders() -> None:
    for fanout in (2, 4):
        randomizer = RandomizedResponse(4.0, fanout)
        assert (randomizer.threshold(np.arange(20), k=20, delta=0.4) == np.arange(20) + 1).all()
        assert randomizer.threshold([20], k=20, delta=0.4)[0] <= 20


# -- Chernoff ------------------------------------------------------------------------------------------------------
