"""Whole rounds drawn at once have the distribution of single reports, and both have the exact one.

Two tests, both with a false-alarm rate that holds for every sample size:

- counts per category against exact chances: each count is binomial, so twice its exact tail is a p-value; the smallest
  one times the number of categories is below ALARM with probability at most ALARM (Bonferroni);
- a distribution function against the exact one, or against a second sample's, by the inequality of Dvoretzky, Kiefer,
  Wolfowitz and Massart: the largest gap of n draws exceeds sqrt(log(2 / ALARM) / 2n) with probability at most ALARM.

With ALARM = 1e-9 and fewer than 200 tests, the false-alarm rate of this file is below 1e-6. Every kind of test must
also catch a planted bug.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from semilocal import Box, DiscreteLaplace, RandomizedResponse, Task, simulate

pytestmark = pytest.mark.slow

ALARM = 1e-9
WORDS = 2**64
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Discrete = RandomizedResponse | DiscreteLaplace

# -- tests with a stated false-alarm rate --------------------------------------------------------------------------


def surprise(observed: Counter[Any], chances: dict[Any, float]) -> float:
    """A p-value for the observed counts under exact chances; an impossible observation has 0."""
    total = sum(observed.values())
    if any(category not in chances for category in observed):
        return 0.0
    counts = np.array([observed[category] for category in chances])
    chance = np.clip(np.array(list(chances.values())), 0.0, 1.0)
    tails = np.minimum(stats.binom.cdf(counts, total, chance), stats.binom.sf(counts - 1, total, chance))
    return float(min(1.0, 2 * tails.min() * len(chances)))


def difference(first: Counter[Any], second: Counter[Any]) -> float:
    """A p-value for two samples having one distribution: Fisher's exact test for every category, with Bonferroni."""
    sizes, categories = (sum(first.values()), sum(second.values())), sorted(set(first) | set(second))
    smallest = min(
        stats.fisher_exact([[first[c], sizes[0] - first[c]], [second[c], sizes[1] - second[c]]])[1] for c in categories
    )
    return float(min(1.0, smallest * len(categories)))


# -- exact distributions -------------------------------------------------------------------------------------------


def response_chances(randomizer: RandomizedResponse, counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Chances of all tallies, participant by participant."""
    true, other = (weight / WORDS for weight in randomizer.weights)
    chances: dict[tuple[int, ...], float] = {(0,) * len(counts): 1.0}
    for child, number in enumerate(counts):
        for _ in range(number):
            following: dict[tuple[int, ...], float] = {}
            for tally, chance in chances.items():
                for said in range(len(counts)):
                    key = tuple(value + (place == said) for place, value in enumerate(tally))
                    following[key] = following.get(key, 0.0) + chance * (true if said == child else other)
            chances = following
    return chances


def entry_chances(randomizer: DiscreteLaplace, ones: int, zeros: int) -> tuple[int, Floats]:
    """The smallest value of a tally entry and the chances from there on."""
    values, weights = randomizer.alphabet
    zero = np.array([weight / WORDS for weight in weights])
    mass, first = np.ones(1), 0
    for is_one in [True] * ones + [False] * zeros:
        mass = np.convolve(mass, zero[::-1] if is_one else zero)
        first += int(1 - values[-1]) if is_one else int(values[0])
    return first, mass


def drawn(randomizer: Discrete, counts: tuple[int, ...], rng: np.random.Generator, draws: int) -> Integers:
    return randomizer.draw_tally(np.tile(counts, (draws, 1)), rng)


def reported(randomizer: Discrete, counts: tuple[int, ...], rng: np.random.Generator, draws: int) -> Integers:
    people = np.repeat(np.arange(len(counts)), counts)
    children = np.tile(people, draws)
    said = randomizer.respond_many(children, rng)
    if said.ndim == 1:
        said = (said[:, None] == np.arange(len(counts))).astype(np.int64)
    return np.asarray(said.reshape(draws, len(people), len(counts)).sum(axis=1))


ways = pytest.mark.parametrize("way", [drawn, reported])

# -- tallies -------------------------------------------------------------------------------------------------------


@ways
@pytest.mark.parametrize("counts", [(3, 2), (0, 4), (1, 0), (2, 1, 0), (1, 0, 2, 1), (0, 0, 0, 1, 1)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_tallies_of_randomized_response_have_their_exact_distribution(
    way: Callable[..., Integers], counts: tuple[int, ...], epsilon: float
) -> None:
    randomizer = RandomizedResponse(epsilon, len(counts))
    tallies = Counter(map(tuple, way(randomizer, counts, np.random.default_rng(1), 40_000).tolist()))
    assert surprise(tallies, response_chances(randomizer, counts)) > ALARM


def test_a_tally_drawn_with_another_epsilon_or_from_shuffled_children_is_caught() -> None:
    """Planted bugs: another epsilon, children mixed up, and one binomial for people of two kinds."""
    rng = np.random.default_rng(2)
    p, p0 = RandomizedResponse(4.0, 2).probabilities
    first = rng.binomial(5, 0.6 * p + 0.4 * p0, 40_000)
    for epsilon, bent in (
        (1.0, drawn(RandomizedResponse(1.1, 2), (3, 2), rng, 40_000)),
        (1.0, drawn(RandomizedResponse(1.0, 2), (2, 3), rng, 40_000)),
        (4.0, np.stack([first, 5 - first], axis=1)),
    ):
        exact = response_chances(RandomizedResponse(epsilon, 2), (3, 2))
        assert surprise(Counter(map(tuple, bent.tolist())), exact) < ALARM


@ways
@pytest.mark.parametrize("counts", [(2, 1), (0, 3), (1, 1, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 6.0])
def test_tallies_of_discrete_laplace_have_their_exact_distribution(
    way: Callable[..., Integers], counts: tuple[int, ...], epsilon: float
) -> None:
    randomizer = DiscreteLaplace(epsilon, len(counts))
    tallies = way(randomizer, counts, np.random.default_rng(3), 20_000)
    cuts = [-1, 0, 1, 2]  # coarse, for pairs of entries: they are independent
    coarse: list[Floats] = []
    for child, ones in enumerate(counts):
        first, mass = entry_chances(randomizer, ones, sum(counts) - ones)
        exact = {first + i: float(chance) for i, chance in enumerate(mass)}
        assert surprise(Counter(tallies[:, child].tolist()), exact) > ALARM
        running = np.cumsum(mass)
        coarse.append(np.diff([0.0, *(running[cut - first] for cut in cuts), 1.0]))
    binned = np.searchsorted(cuts, tallies[:, :2])
    pairs = {(a, b): float(coarse[0][a] * coarse[1][b]) for a, b in itertools.product(range(len(cuts) + 1), repeat=2)}
    assert surprise(Counter(map(tuple, binned.tolist())), pairs) > ALARM


def test_discrete_laplace_with_the_paper_s_scale_or_one_term_less_is_caught() -> None:
    """Planted bugs: noise for twice the epsilon, and a tally that forgets a participant's noise."""
    first, mass = entry_chances(DiscreteLaplace(1.0, 2), 2, 1)
    exact = {first + i: float(chance) for i, chance in enumerate(mass)}
    rng = np.random.default_rng(4)
    for bent in (
        drawn(DiscreteLaplace(2.0, 2), (2, 1), rng, 20_000)[:, 0],
        drawn(DiscreteLaplace(1.0, 2), (2, 0), rng, 20_000)[:, 0],
    ):
        assert surprise(Counter(bent.tolist()), exact) < ALARM


@pytest.mark.parametrize("fanout", [2, 4])
def test_tallies_of_large_cells_have_their_exact_distribution(fanout: int) -> None:
    randomizer = RandomizedResponse(1.0, fanout)
    p, p0 = randomizer.probabilities
    counts = (100, 99_900, *(0,) * (fanout - 2))
    tallies = drawn(randomizer, counts, np.random.default_rng(7), 20_000)
    assert (tallies.sum(axis=1) == 100_000).all()
    inside = np.arange(101)
    weight = stats.binom.pmf(inside, 100, p)
    support = np.arange(tallies[:, 0].min() - 1, tallies[:, 0].max() + 1, 3)
    exact = np.array([weight @ stats.binom.cdf(value - inside, 99_900, p0) for value in support])
    empirical = np.searchsorted(np.sort(tallies[:, 0]), support, side="right") / len(tallies)
    allowed = math.sqrt(math.log(2 / ALARM) / (2 * len(tallies)))
    assert np.abs(empirical - exact).max() < allowed
    shifted = np.array([weight @ stats.binom.cdf(value - inside, 100_100, p0) for value in support])
    assert np.abs(empirical - shifted).max() > allowed  # the planted bug: two hundred people too many


# -- whole runs ----------------------------------------------------------------------------------------------------

POINTS = np.concatenate([np.random.default_rng(0).random((60, 2)) * [0.5, 1], [[0.9, 0.2]] * 8, [[0.6, 0.9]] * 4])
RUNS = 250
STRAY = -1  # one of the last four


def task_with(rule: Any) -> Task:
    return Task.build(Box((0, 0), (1, 1)), epsilon=4.0, delta=0.2, k=4, rule=rule)


def sample(task: Task, *, devices: bool) -> dict[str, Counter[int]]:
    """What runs look like: regions, rounds, answers by tens, crowd and region of a stray participant."""
    rng = np.random.default_rng(8 if devices else 9)
    found: dict[str, Counter[int]] = {name: Counter() for name in ("regions", "rounds", "answers", "crowd", "first")}
    for _ in range(RUNS):
        secrets = [rng.bytes(32) for _ in POINTS] if devices else None
        run = simulate(POINTS, task, rng=None if devices else rng, secrets=secrets)
        home = int(run.regions[STRAY])
        found["regions"][len(run.partition)] += 1
        found["rounds"][run.rounds] += 1
        found["answers"][run.answers // 10] += 1
        found["crowd"][int(run.partition.crowds[home])] += 1
        found["first"][int(run.partition.lower[home])] += 1
    return found


@pytest.mark.parametrize("rule", ["cut", "all"])
def test_runs_of_a_population_and_of_devices_have_one_distribution(rule: str) -> None:
    """One program draws answers in bulk, the other derives each from a secret and closes rounds as a server does."""
    population, devices = (sample(task_with(rule), devices=way) for way in (False, True))
    for name in population:
        assert difference(population[name], devices[name]) > ALARM, name
    if rule == "all":
        return
    quiet = msgspec.structs.replace(task_with(rule), randomizer=RandomizedResponse(4.0, 2))
    planted = sample(quiet, devices=False)  # the planted bug: twice the epsilon in every answer
    assert min(difference(planted[name], devices[name]) for name in planted) < ALARM
