"""Both theorems of PROOF.md by enumeration, with the code that servers and devices run. No randomness, no tolerance.

Every statement has a planted bug beside it: code that breaks one clause of the protocol, which the same statement
catches.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from itertools import product
from unittest import mock

import msgspec
import numpy as np
import pytest

from semilocal import Task
from semilocal.errors import ServerViolation
from semilocal.protocol import participant as participant_module
from semilocal.protocol import region as path_module
from semilocal.protocol import rule as rule_module
from semilocal.protocol.keys import report_entropy
from semilocal.protocol.messages import Question, Slice, Verdict
from semilocal.protocol.policy import Policy, check_region
from semilocal.protocol.region import Path, RegionLog
from tests.helpers.enumeration import (
    Scripted,
    Setting,
    Told,
    World,
    aborted_not_counted,
    between,
    binomial,
    crowd_failure,
    late_members_counted,
    least_threshold,
    levels_that_do_not_fall,
    line,
    tiny_rule,
    transcripts,
)

# -- Theorem 1: the loss -----------------------------------------------------------------------------------------------


def worst(found: Iterable[Told], task: Task) -> tuple[Fraction, int]:
    """The largest ratio between two places of the last region, and the most answers inside it.

    Fails if a place of the region cannot give the transcript, or if a ratio is above that of the answers between.
    """
    true, other = task.randomizer.weights  # type: ignore[union-attr]
    step, largest, most, count = Fraction(true, other), Fraction(1), 0, 0
    for told in found:
        count += 1
        lower, upper = told.region
        inside = range(lower, upper)
        assert set(inside) <= set(told.weights), "silence or an announcement tells two places of a region apart"
        assert len([cut for cut in told.cuts if lower < cut < upper]) <= task.answers, "too many answers in a region"
        for one, another in product(inside, inside):
            ratio = told.weights[one] / told.weights[another]
            assert ratio <= step ** between(one, another, told.cuts)
            largest, most = max(largest, ratio), max(most, between(one, another, told.cuts))
    assert count
    assert largest <= step**task.answers
    assert math.log(largest) <= task.epsilon * (1 + 1e-12)
    return largest, most


def settings(task: Task, *others: int, **options: object) -> list[Setting]:
    """With the victim at every place."""
    return [Setting(task, others, victim, **options) for victim in range(*task.hierarchy.ends)]  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_one_answer_inside_is_the_whole_loss_and_it_is_reached(share: float) -> None:
    task = line(2, epsilon=1.0)
    with tiny_rule(share):
        largest, most = worst((told for one in settings(task, 4, 6, 7) for told in transcripts(one)), task)
    assert most == 1
    assert math.log(largest) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("others", [(4,), (6,), pytest.param((4, 6), marks=pytest.mark.slow)])
def test_two_answers_inside_are_the_whole_loss_and_it_is_reached(others: tuple[int, ...]) -> None:
    task = line(2, epsilon=4.0)
    assert task.answers == 2
    with tiny_rule():
        largest, most = worst((told for one in settings(task, *others) for told in transcripts(one)), task)
    assert most == 2
    assert math.log(largest) == pytest.approx(4.0, abs=1e-12)


def test_people_freed_by_a_split_are_asked_again_and_lose_no_more() -> None:
    task = line(3, epsilon=2.0)
    with tiny_rule():
        found = [told for one in settings(task, 8, 10, 12, 14) for told in transcripts(one, plays=20, seed=one.victim)]
    assert max(len(told.cuts) for told in found) > task.answers
    worst(found, task)


def test_late_members_lose_no_more() -> None:
    task = line(3, epsilon=4.0)
    with tiny_rule(0.7):
        worst((told for one in settings(task, 8, 9, 13, late=(8, 15)) for told in transcripts(one, plays=20)), task)


def lossy(kind: type[Scripted]) -> None:
    task = line(3, epsilon=2.0)
    with tiny_rule(0.4):
        found = settings(task, 8, 9, 10, 12, 13, 14, 15, losses=True, kind=kind)
        worst((told for one in found for told in transcripts(one, plays=30, seed=one.victim)), task)


def test_lost_answers_absence_and_silence_lose_no_more() -> None:
    lossy(Scripted)


def test_planted_a_device_without_a_book_is_asked_too_often_when_its_answers_are_lost() -> None:
    class Bookless(Scripted):
        def _booked(self, lower: int, upper: int) -> int:
            return 0

    with pytest.raises(AssertionError, match="too many answers"):
        lossy(Bookless)


def limited(kind: type[Scripted]) -> None:
    task = line(3, epsilon=2.0)
    policy = Policy(max_epsilon=9, min_k=1, max_delta=1, allow_simulation=True, min_side=(0.3,))
    with tiny_rule(0.5):
        found = settings(task, 8, 9, 10, 11, 12, 14, policy=policy, kind=kind)
        worst((told for one in found for told in transcripts(one, plays=15, seed=one.victim)), task)


def test_owners_limits_do_not_tell_the_side() -> None:
    limited(Scripted)


def test_planted_a_device_that_checks_its_own_side_only_tells_it_by_silence() -> None:
    class Selfish(Scripted):
        def _check_parts(self, question: Question) -> None:
            own = next(part for part in question.parts if part[0] <= self._code < part[1])
            try:
                check_region(self.task, *own, self.policy)
            except ServerViolation as error:
                self._refused = error
                self.state = msgspec.structs.replace(self.state, stopped=str(error))

    with pytest.raises(AssertionError, match="silence or an announcement"):
        limited(Selfish)


def test_rule_all_asks_about_all_children_at_once() -> None:
    task = line(2, epsilon=1.0, rule="all", k=1, delta=0.4)
    found = [told for one in settings(task, 4, 4, 5, 6, 7, 7) for told in transcripts(one, plays=40, seed=one.victim)]
    worst(found, task)


def flips(rounds: range, cuts: tuple[int, int]) -> int:
    """How often the noise of two answers of one device, in one round and region, about two cuts is the same."""
    task = line(3, epsilon=1.0)
    same = 0
    for number in rounds:
        noise = []
        for cut in cuts:
            entropy = vars(participant_module)["report_entropy"](bytes(32), task.id, number, (8, 16), (cut,), 1)
            noise.append(task.randomizer.respond(0, entropy))
        same += noise[0] == noise[1]
    return same


def test_noise_of_another_cut_or_region_is_another_one() -> None:
    # Equal noise would say for sure whether a place is between two cuts. 400 pairs that are equal by chance: 0.61^400.
    assert 0 < flips(range(1, 401), (10, 12)) < 400
    one, other = (report_entropy(bytes(32), bytes(32), 1, region, (10,), 1) for region in ((8, 16), (8, 12)))
    assert one != other


def test_planted_noise_derived_without_the_cut() -> None:
    def without(secret: bytes, task: bytes, round_: int, region: object, cuts: object, words: int) -> bytes:
        return hashlib.sha256(secret + task + bytes([round_ % 256])).digest()[: 8 * words]

    with mock.patch.object(participant_module, "report_entropy", without):
        assert flips(range(1, 401), (10, 12)) == 400


# -- Theorem 2: the crowd ----------------------------------------------------------------------------------------------

Rule = Callable[[RegionLog, int], tuple[int, int] | None]


def greedy(task: Task, cuts: Iterable[int], sizes: Iterable[int]) -> Rule:
    """Of these cuts and numbers of people the ones that are likeliest to pass: somebody who knows every place."""
    p, q = task.randomizer.probabilities  # type: ignore[union-attr]
    cuts, sizes = list(cuts), list(sizes)

    def rule(log: RegionLog, free: int) -> tuple[int, int] | None:
        best: tuple[float, tuple[int, int] | None] = (0.0, None)
        codes = [int.from_bytes(name[:8], "big") for name in log.askable(task.answers)]
        for cut, size in product(cuts, sizes):
            if not log.lower < cut < log.upper or size > free:
                continue
            t = least_threshold(task, log, free, size)
            if t is None:
                continue
            above = sum(code >= cut for code in codes)
            chance = 0.0
            for drawn in range(max(0, size - free + above), min(above, size) + 1):
                law = np.convolve(binomial(drawn, p), binomial(size - drawn, q))
                weight = math.comb(above, drawn) * math.comb(free - above, size - drawn) / math.comb(free, size)
                chance += weight * float(law[t : size - t + 1].sum())
            best = max(best, (chance, (cut, size)))
        return best[1]

    return rule


def beside_a_crowd(people: int = 160, k: int = 4, **options: object) -> World:
    """k - 1 people beside a dense crowd, and a server that cuts them off again and again."""
    task = line(2, epsilon=2.0, k=k)
    rule = greedy(task, [6], range(4, 24))
    return World(task, {4: people - k + 1, 7: k - 1}, 7, rule, **options)  # type: ignore[arg-type]


def test_the_same_cut_again_and_again_fails_with_delta_at_most() -> None:
    world = beside_a_crowd()
    assert 0.6 * world.task.delta < crowd_failure(world) <= world.task.delta


def test_every_placement_and_several_hostile_rules_fail_with_delta_at_most() -> None:
    worlds, largest = 0, 0.0
    for epsilon, k in ((2.0, 2), (4.0, 3)):
        task = line(2, epsilon=epsilon, k=k)
        rules = [greedy(task, cuts, (4, 6, 7)) for cuts in ((5,), (6,), (5, 6), (6, 7))]
        for first, second, third in product(range(9), repeat=3):
            if first + second + third != 8 or min(first, second, third) == 0:
                continue
            people = {4: first, 5: second, 6: third}
            for victim, rule in product(people, rules):
                failure = crowd_failure(World(task, people, victim, rule))
                assert failure <= task.delta, (people, victim)
                worlds, largest = worlds + 1, max(largest, failure)
    assert worlds == 2 * 21 * 3 * 4
    assert largest > 0.1


def test_splits_that_free_people_do_not_reset_what_failed() -> None:
    task = line(2, epsilon=2.0, k=3)
    people = {4: 14, 5: 14, 7: 2}

    def in_turn(log: RegionLog, free: int) -> tuple[int, int] | None:
        """The dangerous cut; after it failed an even one, that frees people; then the dangerous one again."""
        cut = 5 if log.lower < 5 and len(log.failed) == 1 else 6
        return greedy(task, [cut], range(4, 20))(log, free)

    assert 0.1 < crowd_failure(World(task, people, 7, in_turn)) <= task.delta


def test_answers_lost_by_choice_do_not_help_a_cut_to_pass() -> None:
    honest, lossy_server = beside_a_crowd(60), beside_a_crowd(60, loses=True)
    plain = crowd_failure(honest)
    assert plain <= honest.task.delta
    assert crowd_failure(lossy_server) == pytest.approx(plain, rel=1e-12)


def test_late_members_and_silent_ones_do_not_help_a_cut_to_pass() -> None:
    plain = crowd_failure(beside_a_crowd(60))
    assert crowd_failure(beside_a_crowd(60, late={7: 20})) == pytest.approx(plain, rel=1e-12)
    assert crowd_failure(beside_a_crowd(160, silent={4: 120})) <= beside_a_crowd().task.delta


def failed_as_a_set() -> AbstractContextManager[object]:
    ask = RegionLog.ask

    def once(log: RegionLog, question: Question, seed: bytes, limit: int) -> None:
        ask(log, question, seed, limit)
        log.failed = sorted(set(log.failed))

    return mock.patch.object(RegionLog, "ask", once)


def threshold_for_the_answers() -> AbstractContextManager[object]:
    check = Path._check_verdict

    def weaker(path: Path, question: Question, verdict: Verdict, reports: Slice | None) -> None:
        asked, free = sum(verdict.tally), len(path.log.askable(1))
        numbers = {"askable": free, "asked": asked, "failed": len(path.log.failed) - 1, "parts": 2}
        least = min(verdict.tally)
        if not (least and rule_module.threshold_holds(path.task, threshold=least, **numbers)):
            check(path, question, verdict, reports)

    return mock.patch.object(Path, "_check_verdict", weaker)


@contextmanager
def silent_ones_counted() -> Iterator[None]:
    holds = vars(path_module)["threshold_holds"]

    def counted(task: Task, *, askable: int, asked: int, failed: int, parts: int, threshold: int) -> bool:
        return bool(holds(task, askable=askable + 120, asked=asked, failed=failed, parts=parts, threshold=threshold))

    with mock.patch.object(path_module, "threshold_holds", counted):
        yield


@pytest.mark.parametrize(
    ("bug", "world"),
    [
        (levels_that_do_not_fall, beside_a_crowd()),
        (failed_as_a_set, beside_a_crowd()),
        (aborted_not_counted, beside_a_crowd(60, loses=True)),
        (threshold_for_the_answers, beside_a_crowd(60, loses=True)),
        (late_members_counted, beside_a_crowd(60, late={7: 20})),
        (silent_ones_counted, beside_a_crowd(160, silent={4: 120})),
    ],
)
def test_planted_bugs_break_the_crowd(bug: Callable[[], AbstractContextManager[object]], world: World) -> None:
    # the worlds are those of the tests above
    with bug():
        assert crowd_failure(world) > world.task.delta


def test_the_oracle_against_a_sum_by_hand() -> None:
    # one dangerous question to everybody
    task = line(2, epsilon=2.0, k=2)
    p, q = task.randomizer.probabilities  # type: ignore[union-attr]
    once = World(task, {4: 5, 7: 1}, 7, lambda log, free: (6, 6) if not log.failed else None)
    t = least_threshold(task, RegionLog(4, 8), 6, 6)
    assert t is not None
    law = np.convolve(binomial(1, p), binomial(5, q))
    assert crowd_failure(once) == pytest.approx(float(law[t : 6 - t + 1].sum()), rel=1e-12)
