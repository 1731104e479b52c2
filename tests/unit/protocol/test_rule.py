"""What the verdict rules promise, for hand-made tallies and against an oracle in plain Python."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from semilocal import Box, Task, simulate
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_cuts
from semilocal.protocol.rule import (
    VISITOR_QUANTILE,
    Frontier,
    crowds_needed,
    decide,
    first_frontier,
    frontier_at,
    no_frontier,
)
from semilocal.randomizer import RandomizedResponse

SQUARE = Box((0, 0), (1, 1))


def task_of(rule: Any, **options: Any) -> Task:
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 0.05, "k": 20, **options}
    return Task.build(SQUARE, rule=rule, **settings)


def frontier_of(cell: int, trims: int = 0, expected: float = math.nan) -> Frontier:
    return frontier_at([cell], trims=trims, expected=expected)


def kept(task: Task, size: int, tally: list[int], trims: int = 0) -> tuple[int, ...]:
    """Children that go on."""
    ruling = decide(task, frontier_of(1, trims), [size], [tally])
    return tuple(np.flatnonzero(ruling.kept[0]).tolist())


@cache
def threshold_of(task: Task, size: int) -> int:
    return int(task.randomizer.threshold([size], k=task.k, delta=task.delta_test)[0])


def oracle(task: Task, size: int, tally: tuple[int, ...], trims: int) -> tuple[int, ...]:
    """The rules, one cell at a time, for randomized response."""
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]
    threshold = threshold_of(task, size)
    every = tuple(range(len(tally)))
    passing = tuple(child for child in every if tally[child] >= threshold)
    if task.rule == "each" or passing == every:
        return passing
    if task.rule == "all" or not passing or trims >= task.max_trims:
        return ()
    failing = [child for child in every if child not in passing]
    estimate = sum((tally[child] - size * p0) / (p - p0) for child in failing)
    outside = len(failing) * p0  # chance of naming a failing child without being in one
    inside = outside + p - p0
    variance = size * (task.tau * inside * (1 - inside) + (1 - task.tau) * outside * (1 - outside)) / (p - p0) ** 2
    bound = estimate + float(stats.norm.ppf(0.95)) * math.sqrt(variance)
    return passing if bound <= task.tau * size else ()


# -- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "size", "tally", "wanted"),
    [
        # e^1: p = 0.731, p0 = 0.269. With 1000 responders a child of 19 is expected at 278, and 302 is surely more.
        ("all", 1000, [500, 500], (0, 1)),
        ("all", 1000, [730, 270], ()),
        ("trim", 1000, [500, 500], (0, 1)),
        ("trim", 1000, [730, 270], (0,)),
        ("trim", 1000, [270, 730], (1,)),
        ("each", 1000, [500, 500], (0, 1)),
        ("each", 1000, [730, 270], (0,)),
        # Hardly anybody there: nothing passes, whatever the tally says.
        ("all", 19, [10, 9], ()),
        ("trim", 19, [19, 0], ()),
        ("each", 19, [19, 0], ()),
        ("all", 0, [0, 0], ()),
        ("trim", 0, [0, 0], ()),
        ("each", 0, [0, 0], ()),
    ],
)
def test_verdicts_of_hand_made_tallies(rule: str, size: int, tally: list[int], wanted: tuple[int, ...]) -> None:
    assert kept(task_of(rule), size, tally) == wanted


def test_a_failing_child_that_is_not_sparse_blocks_the_other() -> None:
    task = task_of("trim", k=200)
    # The second child has about 164 of 1000: too few for 200, and with its error bar of 50 more than a fifth.
    assert kept(task, 1000, [655, 345]) == ()
    # The same with hardly anybody in it is trimmed off.
    assert kept(task, 1000, [731, 269]) == (0,)
    # A larger tau would let it go.
    assert kept(msgspec.structs.replace(task, tau=0.3), 1000, [655, 345]) == (0,)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_path_is_trimmed_no_more_often_than_the_task_allows(limit: int) -> None:
    task = task_of("trim", max_trims=limit)
    for trims in range(5):
        assert kept(task, 1000, [730, 270], trims) == ((0,) if trims < limit else ())
        assert kept(task, 1000, [500, 500], trims) == (0, 1)  # a split is always allowed


def test_a_quadtree_is_trimmed_to_all_children_that_pass() -> None:
    task = task_of("trim", tree="quad", epsilon=3.0)
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]

    def tally_of(counts: list[int]) -> list[int]:
        size = sum(counts)
        exact = [size * p0 + count * (p - p0) for count in counts]
        tally = [round(value) for value in exact]
        tally[0] += size - sum(tally)
        return tally

    assert kept(task, 4000, tally_of([1000, 1000, 1000, 1000])) == (0, 1, 2, 3)
    assert kept(task, 4000, tally_of([2000, 2000, 0, 0])) == (0, 1)
    assert kept(task, 4000, tally_of([0, 2000, 2000, 0])) == (1, 2)
    assert kept(task, 4000, tally_of([0, 0, 0, 4000])) == (3,)
    # Three children with 8 % each all pass; with k = 400 they fail, and together they are more than a fifth.
    mixed = [3040, 320, 320, 320]
    assert kept(task, 4000, tally_of(mixed)) == (0, 1, 2, 3)
    assert kept(msgspec.structs.replace(task, k=400), 4000, tally_of(mixed)) == ()
    assert kept(msgspec.structs.replace(task, k=400, tau=0.4), 4000, tally_of(mixed)) == (0,)
    assert kept(task_of("all", tree="quad", epsilon=3.0), 4000, tally_of([2000, 2000, 0, 0])) == ()
    assert kept(task_of("each", tree="quad", epsilon=3.0), 4000, tally_of([2000, 2000, 0, 0])) == (0, 1)


def test_the_next_frontier_holds_the_kept_children_their_trims_and_estimates() -> None:
    task = task_of("trim")
    cells = np.array([4, 5, 6], dtype=np.uint64)
    frontier = frontier_at(cells, trims=[0, 2, 1])
    ruling = decide(task, frontier, [1000, 1000, 10], [[500, 500], [730, 270], [5, 5]])
    assert ruling.kept.tolist() == [[True, True], [True, False], [False, False]]
    assert ruling.frontier.cells.tolist() == [8, 9, 10]
    assert ruling.frontier.trims.tolist() == [0, 0, 3]
    assert ruling.frontier.expected.tolist() == [*ruling.estimates[0], ruling.estimates[1, 0]]
    assert ruling.frontier.cells.dtype == np.uint64
    assert (ruling.estimates == task.randomizer.estimate([[500, 500], [730, 270], [5, 5]], [1000, 1000, 10])).all()


def test_the_first_frontier_is_the_root_and_the_last_is_empty() -> None:
    assert first_frontier().cells.tolist() == [1]
    assert first_frontier().trims.tolist() == [0]
    assert np.isnan(first_frontier().expected).all()
    ruling = decide(task_of("trim"), no_frontier(), np.empty(0, dtype=int), np.empty((0, 2), dtype=int))
    assert ruling.frontier.cells.tolist() == []


# -- visitors ------------------------------------------------------------------------------------------------------

TRIM = [730, 270]  # of 1000 with e^1: about 2 in the second child
MOVED = (270 - 1000 / (1 + math.e)) / math.tanh(0.5)  # p - p0 = tanh(1 / 2)
NOISE = 1000 * math.e / (1 + math.e) ** 2 / math.tanh(0.5) ** 2  # the variance of that, whoever is there


def visitors_after(task: Task, tally: list[int], visitors: float, cell: int = 1) -> list[float]:
    ruling = decide(task, frontier_at([cell], visitors=visitors), [sum(tally)], [tally])
    return [float(number) for number in ruling.frontier.visitors]


def test_visitors_are_halved_by_a_split_and_grow_by_what_a_trim_moves() -> None:
    task = task_of("trim")
    assert visitors_after(task, [500, 500], 0.0) == [0.0, 0.0]
    assert visitors_after(task, [500, 500], 10.0) == [5.0, 5.0]
    assert visitors_after(task, TRIM, 0.0) == [pytest.approx(MOVED)]
    assert pytest.approx(2.3, abs=0.1) == MOVED
    # Half of them are in the kept child; the others are moved once more, among those estimated in the trimmed one.
    assert visitors_after(task, TRIM, 4.0) == [pytest.approx(2.0 + MOVED)]
    # Whatever the estimate says: nobody stops being a visitor.
    assert visitors_after(task, TRIM, 10.0) == [10.0]
    assert visitors_after(task, [740, 260], 10.0) == [10.0]
    # An estimate below 0 moves nobody else.
    assert visitors_after(task, [740, 260], 0.0) == [0.0]
    assert visitors_after(task_of("all"), [500, 500], 0.0) == [0.0, 0.0]


def test_visitors_of_several_trims_add_up_on_the_path() -> None:
    task, frontier = task_of("trim"), first_frontier()
    wanted = 0.0
    for tally in (TRIM, TRIM, [728, 272], TRIM, [740, 260]):
        frontier = decide(task, frontier, [1000], [tally]).frontier
        moved = (tally[1] - 1000 / (1 + math.e)) / math.tanh(0.5)
        wanted = wanted / 2 + max(wanted / 2, moved)
        assert frontier.visitors.tolist() == [pytest.approx(wanted)]
    frontier = decide(task, frontier, [1000], [[500, 500]]).frontier
    assert frontier.visitors.tolist() == [pytest.approx(wanted / 2)] * 2


def test_visitors_of_a_quadtree_are_shared_by_the_kept_children() -> None:
    task = task_of("trim", tree="quad", epsilon=3.0)
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]
    tally = [1500, 1700, 420, 380]
    estimates = [(count - 4000 * p0) / (p - p0) for count in tally]
    assert kept(task, 4000, tally) == (0, 1, 2, 3)
    trimmed = msgspec.structs.replace(task, k=400)
    assert kept(trimmed, 4000, tally) == (0, 1)
    assert visitors_after(trimmed, tally, 40.0) == [pytest.approx(10.0 + sum(estimates[2:]) / 2)] * 2


def test_visitors_of_a_table_are_shared_by_leaves() -> None:
    table = from_cuts("age", [[0, 10, 20, 60], [0, 10, 20, 30, 40, 50, 60]])  # children with 1, 1 and 4 leaves
    task = Task.build(hierarchy=table, epsilon=3.0, delta=0.05, k=20, tau=0.4)
    p, p0 = RandomizedResponse(3.0, 3).probabilities
    assert visitors_after(task, [330, 340, 330, 0], 60.0) == [10.0, 10.0, 40.0]
    moved = (50 - 1000 * p0) / (p - p0)
    found = visitors_after(task, [50, 300, 650, 0], 6.0)
    assert found == [pytest.approx(1.0 + moved / 5), pytest.approx(4.0 + moved * 4 / 5)]
    assert visitors_after(task, [50, 300, 650, 0], 60.0) == [pytest.approx(12.0), pytest.approx(48.0)]
    # What is measured is what spreading people over the codes gives.
    words = np.array([place * 2**64 // 5000 + 1 for place in range(5000)], dtype=np.uint64)
    codes = table.spread(np.ones(5000, dtype=np.uint64), np.tile([False, True, True], (5000, 1)), words)
    assert np.bincount(table.child_of(codes, 0), minlength=3).tolist() == [0, 1000, 4000]


def doubt_after(task: Task, tally: list[int], visitors: float, doubt: float, cell: int = 1) -> list[float]:
    ruling = decide(task, frontier_at([cell], visitors=visitors, doubt=doubt), [sum(tally)], [tally])
    return [float(number) for number in ruling.frontier.doubt]


def test_a_split_quarters_the_doubt_about_visitors_and_adds_their_scatter() -> None:
    task = task_of("trim")
    assert doubt_after(task, [500, 500], 0.0, 0.0) == [0.0, 0.0]
    assert doubt_after(task, [500, 500], 10.0, 0.0) == [2.5, 2.5]  # ten coins
    assert doubt_after(task, [500, 500], 0.0, 8.0) == [2.0, 2.0]
    assert doubt_after(task, [500, 500], 10.0, 8.0) == [4.5, 4.5]
    assert doubt_after(task_of("all"), [500, 500], 0.0, 0.0) == [0.0, 0.0]


def test_a_trim_adds_the_noise_of_its_round_to_the_doubt_about_visitors() -> None:
    task = task_of("trim")
    assert doubt_after(task, TRIM, 0.0, 0.0) == [pytest.approx(NOISE)]
    assert pytest.approx(NOISE) == 1000 * task.randomizer.variance(task.tau)
    assert doubt_after(task, TRIM, 4.0, 8.0) == [pytest.approx(1.0 + 2.0 + NOISE)]
    # An estimate of nobody, or fewer, is as unsure as any.
    assert doubt_after(task, [740, 260], 0.0, 0.0) == [pytest.approx(NOISE)]


def test_the_doubt_of_a_chain_of_trims_does_not_pile_up() -> None:
    """Every TRIM measures those whom it moves again, the visitors among them: a quarter of the old doubt is left."""
    task, frontier, wanted = task_of("trim"), first_frontier(), 0.0
    for _ in range(12):
        wanted = wanted / 4 + frontier.visitors[0] / 4 + NOISE
        frontier = decide(task, frontier, [1000], [TRIM]).frontier
        assert frontier.doubt.tolist() == [pytest.approx(wanted)]
    assert wanted < 1.35 * NOISE


def test_the_doubt_of_a_quadtree_is_that_of_all_children_that_are_trimmed() -> None:
    task = task_of("trim", tree="quad", epsilon=3.0, k=400)
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]
    tally = [1500, 1700, 420, 380]
    moved = sum((count - 4000 * p0) / (p - p0) for count in tally[2:])
    assert kept(task, 4000, tally) == (0, 1)
    u, v = p + p0, 2 * p0  # chances that a person of the two trimmed children, and one of the others, names one of them
    noise = 4000 * (task.tau * u * (1 - u) + (1 - task.tau) * v * (1 - v)) / (p - p0) ** 2
    own, come = 100.0 / 16 + 40.0 * 3 / 16, noise / 4 + moved / 4
    assert doubt_after(task, tally, 40.0, 100.0) == [pytest.approx(own + come)] * 2


def test_the_doubt_of_a_table_follows_leaves_and_the_noise_of_the_cell_s_own_width() -> None:
    table = from_cuts("age", [[0, 10, 20, 60], [0, 10, 20, 30, 40, 50, 60]])  # children with 1, 1 and 4 leaves, of 4
    task = Task.build(hierarchy=table, epsilon=3.0, delta=0.05, k=20, tau=0.4)
    assert task.hierarchy.fanout == 4
    shares = np.array([1, 1, 4]) / 6
    split = 36.0 * shares**2 + 60.0 * shares * (1 - shares)
    assert doubt_after(task, [330, 340, 330, 0], 60.0, 36.0) == pytest.approx(split.tolist())
    narrow = RandomizedResponse(3.0, 3)
    p, p0 = narrow.probabilities
    moved, noise, parts = (50 - 1000 * p0) / (p - p0), 1000 * narrow.variance(0.4), np.array([1, 4]) / 5
    own = 36.0 * shares[1:] ** 2 + 6.0 * shares[1:] * (1 - shares[1:])
    trimmed = own + parts**2 * noise + moved * parts * (1 - parts)
    assert doubt_after(task, [50, 300, 650, 0], 6.0, 36.0) == pytest.approx(trimmed.tolist())
    extra = VISITOR_QUANTILE * (np.sqrt(noise + 4 * (4e4 * shares**2)) - np.sqrt(noise))
    needed = crowds_needed(task, frontier_at([1], doubt=4e4), np.array([1000]))[0, :3]
    assert needed.tolist() == np.maximum(np.ceil(extra), 20).tolist()
    assert needed.max() > 20


def test_a_child_passes_only_if_it_proves_more_people_than_visitors_are_allowed_for() -> None:
    """For all tallies, by an exact tail: the crowd is by hand, v / 2 / 0.5 and what the doubt about it adds."""
    task = task_of("trim", max_trims=1)
    tallies = [[count, 1000 - count] for count in range(1001)]
    for visitors, doubt, crowd in (
        (0.0, 0.0, 20), (19.9, 0.0, 21), (100.0, 0.0, 105), (100.5, 0.0, 106), (900.0, 0.0, 939),
        (0.0, 400.0, 20), (0.0, 500.0, 23), (19.9, 400.0, 40), (100.0, 400.0, 123), (100.0, 4e4, 633),
    ):  # fmt: skip
        own_variance = doubt / 4 + visitors / 4
        by_hand = visitors + VISITOR_QUANTILE * (math.sqrt(NOISE + 4 * own_variance) - math.sqrt(NOISE))
        assert crowd == max(20, math.ceil(by_hand))
        frontier = frontier_at(np.ones(1001), trims=1, visitors=visitors, doubt=doubt)  # no TRIM is left
        assert (crowds_needed(task, frontier, np.full(1001, 1000)) == crowd).all()
        found = decide(task, frontier, [1000] * 1001, tallies).kept.all(axis=1)
        plain = task.randomizer.passes(tallies, [1000] * 1001, k=crowd, delta=task.delta_test).all(axis=1)
        assert (found == plain).all(), visitors
    many = frontier_at([1], trims=1, visitors=2500.0)  # more than there are people
    assert not decide(task, many, [1000], [[500, 500]]).kept.any()


def test_without_a_limit_visitors_change_no_verdict() -> None:
    free, limited = task_of("trim", max_visitors=1.0), task_of("trim")
    tallies = [[count, 1000 - count] for count in range(1001)]
    none, many = frontier_at(np.ones(1001)), frontier_at(np.ones(1001), visitors=400.0, doubt=1e4)
    size = [1000] * 1001
    assert (decide(free, many, size, tallies).kept == decide(free, none, size, tallies).kept).all()
    assert (decide(limited, none, size, tallies).kept == decide(free, none, size, tallies).kept).all()
    refused = decide(free, many, size, tallies).kept.any(axis=1) & ~decide(limited, many, size, tallies).kept.any(
        axis=1
    )
    assert refused.any()


@pytest.mark.parametrize("share", [1e-6, 1e-18, 1e-19, 1e-300, 5e-324])
def test_the_smallest_share_of_visitors_forbids_the_most(share: float) -> None:
    task = task_of("trim", max_visitors=share)
    frontier = frontier_at([2], trims=1, visitors=40.0)
    assert (crowds_needed(task, frontier, np.array([10_000])) >= 20_000_000).all()
    assert not decide(task, frontier, [10_000], [[5_000, 5_000]]).kept.any()
    assert decide(task, frontier_at([2], trims=1), [10_000], [[5_000, 5_000]]).kept.all()


def test_a_trim_that_would_leave_mostly_visitors_is_a_stop() -> None:
    """About 143 of 1000 are in the second child: fewer than half of the v visitors, who stay so after the TRIM."""
    task, tally = task_of("trim"), [665, 335]
    moved = (335 - 1000 / (1 + math.e)) / math.tanh(0.5)
    assert 2 * moved < 400
    for visitors, doubt, fits in ((400.0, 0.0, True), (430.0, 0.0, True), (450.0, 0.0, False), (720.0, 0.0, False),
                                  (430.0, 1000.0, False), (400.0, 1000.0, True), (400.0, 4000.0, False)):  # fmt: skip
        sure = visitors + VISITOR_QUANTILE * math.sqrt(doubt / 4 + visitors / 4 + NOISE)
        assert fits == (sure <= 0.5 * (1000.0 - moved + visitors / 2))
        ruling = decide(task, frontier_at([1], visitors=visitors, doubt=doubt), [1000], [tally])
        assert ruling.kept.tolist() == [[fits, False]], visitors
        assert ruling.trimmed.tolist() == [fits]
    assert decide(
        msgspec.structs.replace(task, max_visitors=1.0), frontier_at([1], visitors=720.0), [1000], [tally]
    ).kept.any()


def test_no_child_of_a_trim_gets_more_visitors_than_residents() -> None:
    """Two children are kept; one of them has few people of its own and would get half of those who are moved."""
    task = task_of("trim", tree="quad", epsilon=3.0, tau=0.4)
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]

    def tally_of(counts: list[int]) -> list[int]:
        tally = [round(sum(counts) * p0 + count * (p - p0)) for count in counts]
        return [tally[0] + sum(counts) - sum(tally), *tally[1:]]

    even, thin = tally_of([5000, 4400, 300, 300]), tally_of([8900, 500, 300, 300])
    task = msgspec.structs.replace(task, k=350)
    assert kept(task, 10_000, even) == (0, 1)
    assert kept(task, 10_000, thin) == (0, 1)  # 300 of 800
    assert kept(msgspec.structs.replace(task, max_visitors=0.3), 10_000, even) == (0, 1)
    assert kept(msgspec.structs.replace(task, max_visitors=0.3), 10_000, thin) == ()


@pytest.mark.parametrize("kind", ["randomized-response", "discrete-laplace"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_a_crowd_of_one_s_own_is_proven_exactly_if_the_threshold_says_so(kind: Any, epsilon: float) -> None:
    """What settles most children quickly must never settle one in another way than the exact test."""
    randomizer = task_of("trim", randomizer=kind, epsilon=epsilon).randomizer
    for size in (25, 300, 5000):
        for crowd in {1, 2, 20, size // 4, size // 2, size - 1, size, size + 1}:
            for delta in (1e-9, 0.05, 0.45):
                threshold = int(randomizer.threshold([size], k=crowd, delta=delta)[0])
                near = threshold + np.arange(-3, 4) if crowd <= size else np.array([0, size])
                tally = np.unique(np.clip(np.concatenate([near, np.linspace(0, size, 40).astype(int)]), 0, size))
                crowds, sizes = np.full(len(tally), crowd), np.full(len(tally), size)
                assert (randomizer.proves(tally, sizes, crowds, delta=delta) == (tally >= threshold)).all()
                both = np.stack([tally, tally[::-1]], axis=1)
                assert (randomizer.passes(both, sizes, k=crowd, delta=delta) == (both >= threshold)).all()
    different = np.random.default_rng(1).integers(1, 4999, 40)
    sizes = np.full(len(different), 5000)
    thresholds = [int(randomizer.threshold([5000], k=crowd, delta=1e-3)[0]) for crowd in different.tolist()]
    for off in (-1, 0, 1):
        tally = np.minimum(np.array(thresholds) + off, sizes)
        assert (randomizer.proves(tally, sizes, different, delta=1e-3) == (tally >= thresholds)).all()
    mixed = randomizer.proves(np.array([290, 290, 290]), np.array([300] * 3), np.array([290, 20, 301]), delta=1e-3)
    assert mixed.tolist() == [
        int(randomizer.threshold([300], k=k, delta=1e-3)[0]) <= 290 for k in (290, 20, 301)
    ]  # fmt: skip


# -- against the oracle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
@pytest.mark.parametrize(("size", "k"), [(40, 20), (300, 20), (300, 100), (1000, 20)])
def test_every_tally_of_two_children_gets_the_oracle_s_verdict(rule: str, size: int, k: int) -> None:
    task = task_of(rule, k=k, **({"max_trims": 2} if rule == "trim" else {}))
    tallies = [(count, size - count) for count in range(size + 1)]
    for trims in (0, 1, 2):
        frontier = frontier_at(np.arange(2048, 2048 + len(tallies)), trims=trims)
        ruling = decide(task, frontier, [size] * len(tallies), tallies)
        got = [tuple(np.flatnonzero(row).tolist()) for row in ruling.kept]
        assert got == [oracle(task, size, tally, trims) for tally in tallies]
    verdicts = {oracle(task, size, tally, 0) for tally in tallies}
    if rule == "trim" and (size, k) == (300, 100):
        assert verdicts == {(0, 1), (0,), (1,), ()}  # the scan has met every kind of verdict


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
def test_tallies_of_four_children_get_the_oracle_s_verdict(rule: str) -> None:
    task = task_of(rule, tree="quad", epsilon=2.0, k=300)
    shares = [share for share in itertools.product((0.0, 0.02, 0.1, 0.3, 0.6), repeat=4) if sum(share) > 0]
    p, p0 = task.randomizer.probabilities  # type: ignore[union-attr]
    size, tallies = 2000, []
    for share in shares:
        tally = [math.floor(size * (p0 + (p - p0) * part / sum(share))) for part in share]
        tally[int(np.argmax(share))] += size - sum(tally)
        tallies.append(tuple(tally))
    frontier = frontier_at(np.ones(len(tallies)))
    ruling = decide(task, frontier, [size] * len(tallies), tallies)
    got = [tuple(np.flatnonzero(row).tolist()) for row in ruling.kept]
    assert got == [oracle(task, size, tally, 0) for tally in tallies]
    if rule == "trim":
        assert {len(children) for children in got} >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("liars", [0, 1, 30])
def test_a_crowd_is_proven_even_without_the_liars(liars: int) -> None:
    """A verdict with L tolerated liars is the verdict about the tallies and responders less L."""
    task = task_of("all", tolerate_liars=liars)
    plain = task_of("all")
    tallies = np.stack([np.arange(1001), 1000 - np.arange(1001)], axis=1)
    size = np.full(1001, 1000)
    frontier = frontier_at(np.ones(1001))
    honest = plain.randomizer.passes(tallies - liars, size - liars, k=task.k, delta=task.delta).all(axis=1)
    assert (decide(task, frontier, size, tallies).kept.all(axis=1) == honest).all()
    assert honest.any()
    assert kept(task_of("all", tolerate_liars=2000), 1000, [500, 500]) == ()


# -- the published code --------------------------------------------------------------------------------------------


def test_the_published_rule_takes_the_estimated_size_where_the_paper_takes_the_responders() -> None:
    published = Task.published(SQUARE, epsilon=1.0, delta=0.05, k=20)
    paper = Task.paper(SQUARE, epsilon=1.0, delta=0.05, k=20)
    unit, budget = 2**20, math.log(1 / 0.05)

    def limit(size: float) -> int:
        return math.ceil((20 + math.sqrt(2 * size * budget) + 6 * budget) * unit)

    for expected in (100.0, 1000.0, 5000.0):
        at = limit(expected)
        ruling = decide(published, frontier_of(4, expected=expected), [1000], [[at, at - 1, 0, at + 1]])
        assert ruling.kept.tolist() == [[True, False, False, True]]
    at = limit(1000)
    first = decide(published, first_frontier(), [1000], [[at, at - 1, 0, at]])
    assert first.kept.tolist() == [[True, False, False, True]]  # nothing is estimated yet at the root
    assert decide(paper, frontier_of(4, expected=9.0), [1000], [[at] * 4]).kept.all()
    assert not decide(paper, frontier_of(4, expected=9.0), [1000], [[at, at, at, at - 1]]).kept.any()
    # An estimate may be negative; the margin is then that of nobody.
    nobody = limit(0)
    ruling = decide(published, frontier_of(4, expected=-50.0), [3], [[nobody, nobody - 1, 0, 0]])
    assert ruling.kept.tolist() == [[True, False, False, False]]


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
def test_verdicts_of_discrete_laplace_follow_the_same_rules(rule: str) -> None:
    task = task_of(rule, randomizer="discrete-laplace")
    (threshold,) = task.randomizer.threshold([5000], k=20, delta=task.delta_test).tolist()
    assert kept(task, 5000, [threshold, threshold]) == (0, 1)
    blocked = {"all": (), "trim": (0,), "each": (0,)}[rule]
    assert kept(msgspec.structs.replace(task, max_visitors=1.0), 5000, [threshold, 0]) == blocked
    # The estimate of nobody is so unsure that they could be most of those who just prove a crowd.
    assert kept(task, 5000, [threshold, 0]) == (() if rule == "trim" else blocked)
    assert kept(task, 5000, [5000, 0]) == blocked
    assert kept(task, 5000, [threshold - 1, threshold - 1]) == ()


# -- the shortest side ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["all", "trim"])
def test_no_cell_is_divided_into_parts_with_a_side_below_the_limit(rule: Any) -> None:
    """Cell 4 measures 1/2 by 1/2 and is halved on axis 0; cell 8 measures 1/4 by 1/2 and is halved on axis 1."""
    fair = [[500, 500]]
    for limit, cell, divided in (
        ((0.25,), 4, True), ((0.26,), 4, False), ((0.25, 0.25), 8, True), ((0.01, 0.26), 8, False),
        ((0.24, 0.01), 8, True), ((0.26, 0.01), 4, False), ((), 2**39, True),
    ):  # fmt: skip
        task = task_of(rule, resolution=limit)
        assert decide(task, frontier_of(cell), [1000], fair).kept.all() == divided, (limit, cell)
        if rule == "trim":
            assert decide(task, frontier_of(cell), [1000], [[731, 269]]).kept.any() == divided


def test_on_maps_the_limit_is_in_kilometres_and_narrow_cells_near_a_pole_are_not_divided() -> None:
    world = Box((-180, -90), (180, 90), names=("longitude", "latitude"))
    task = Task.build(world, epsilon=1.0, delta=0.05, k=20, resolution=100.0)
    tree = task.hierarchy
    equator, north = (int(cell) for cell in tree.locate([[10.0, 1.0], [10.0, 89.0]], 12))  # 5.6 by 2.8 degrees
    assert decide(task, frontier_of(equator), [1000], [[500, 500]]).kept.all()
    assert not decide(task, frontier_of(north), [1000], [[500, 500]]).kept.any()
    assert Task.build(world, epsilon=1.0, delta=0.05, k=20).min_side == (0.01,)
    assert Task.build(world, epsilon=1.0, delta=0.05, k=20, resolution=0).min_side == ()
    assert Task.build(SQUARE, epsilon=1.0, delta=0.05, k=20).min_side == ()


def test_a_run_makes_no_region_below_the_limit_and_makes_smaller_ones_without_it() -> None:
    points = np.random.default_rng(1).random((20_000, 2)) / 8
    for limit in (0.02, (0.06, 0.01)):
        run = simulate(points, task_of("trim", resolution=limit), rng=np.random.default_rng(2))
        sides = run.partition.boxes[:, 1] - run.partition.boxes[:, 0]
        assert (sides >= np.array(limit)).all()
    free = simulate(points, task_of("trim"), rng=np.random.default_rng(2)).partition
    assert (free.boxes[:, 1] - free.boxes[:, 0]).min() < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 0.6}, "could never be split; take a smaller resolution"),
        ({"resolution": (0.1, 0.1, 0.1)}, "one for each of the 2 axes"),
        ({"resolution": -1.0}, "length of at least 0"),
        ({"resolution": math.nan}, "length of at least 0"),
        ({"resolution": (0.1, 0.0)}, "lengths above 0"),
        ({"resolution": 0.1, "rule": "each"}, "rule 'each'"),
        ({"label": "x" * 65}, "at most 64 printable characters"),
        ({"label": "two\nlines"}, "at most 64 printable characters"),
    ],
)
def test_impossible_limits_and_labels_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        task_of(**{"rule": "trim", **options})
