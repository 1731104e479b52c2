"""The device's machine: what it answers, and that no server gets more than it may.

Every refusal by its token is in spec/vectors/refusals.json, which test_vectors.py replays.

A device may refuse (``ServerViolation``, or ``InvalidInput`` for bytes that are no message). It must never crash in
another way, answer what its owner forbids, or answer one question in two ways. Seeds are fixed, so nothing is left to
chance.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput, ServerViolation
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import AnyReport, Closed, Query, Report, Slice, Verdict
from semilocal.protocol.participant import Participant
from semilocal.protocol.policy import Policy
from semilocal.protocol.region import Path
from semilocal.protocol.task import Task
from semilocal.testing import ALLOW_ALL, Played, cluster, participants_at, play, secret, unit_box
from semilocal.testing.campaign import PlayedRound

CHAIN = HashChain(bytes(range(32)), 300)
OPTIONS: dict[str, Any] = {"delta": 0.1, "k": 3, "max_rounds": 300, "chain": CHAIN.end}
ONE = Task.build(unit_box(), epsilon=2.0, max_depth=12, **OPTIONS)
TWO = Task.build(unit_box(), epsilon=4.0, max_depth=12, **OPTIONS)
SIZE = 80
POINTS = cluster(SIZE)
VICTIM = 50


def played(task: Task = ONE, **options: Any) -> Played:
    return play(task, participants_at(task, POINTS, plan=options.get("plan")), chain=CHAIN, **options)


@pytest.fixture(scope="module")
def honest() -> Played:
    return played()


def device(task: Task = ONE, policy: Policy = ALLOW_ALL, number: int = VICTIM, **options: Any) -> Participant:
    return Participant(task, POINTS[number], secret(number), policy, **options)


def follow(one: Participant, rounds: list[PlayedRound]) -> Participant:
    """Play closed rounds as the device did that is in the log."""
    for row in rounds:
        assert isinstance(row.query, Query)
        assert isinstance(row.closed, Closed)
        one.answer(row.query)
        one.close(row.closed, row.slices.get(one.path.region))
    return one


# -- one answer ------------------------------------------------------------------------------------------------------


# -- away, late, silent ----------------------------------------------------------------------------------------------


def test_who_enrols_late_is_assigned_a_region_and_counted_nowhere() -> None:
    late = played(answers=lambda number, who: who != VICTIM or number > 5)
    one = late.participants[VICTIM]
    assert late.curator.home[one.pseudonym] == one.region
    assert one.log.members[one.pseudonym]  # late
    partition = late.curator.partition
    assert (partition.people, int(partition.late.sum())) == (SIZE - 1, 1)
    for row in late.rounds:  # it answers where nothing is decided, if at all
        assert isinstance(row.query, Query)
        for question in row.query.questions:
            answered = [one for one in row.reports if isinstance(one, Report) and one.region == question.region]
            if question.decides:
                assert not any(report.pseudonym == one.pseudonym and report.answer is not None for report in answered)


def test_an_answer_that_was_lost_keeps_its_sender_out_of_a_split(honest: Played) -> None:
    """The server takes a device's answer and leaves it out of the log. If the question splits, it names no side."""
    row, report = next(
        (row, report)
        for row in honest.rounds
        for report in row.reports
        if isinstance(row.closed, Closed) and isinstance(report, Report) and report.answer is not None
        and _splits(row, report.region)
    )  # fmt: skip
    assert isinstance(row.closed, Closed)
    who = next(index for index, one in enumerate(honest.participants) if one.pseudonym == report.pseudonym)
    one = follow(device(number=who), honest.rounds[: report.round - 1])
    assert one.answer(row.query) == report  # type: ignore[arg-type]
    part = row.slices[report.region]
    entries = tuple(entry for entry in part.entries if entry.pseudonym != report.pseudonym)
    lost = msgspec.structs.replace(part, entries=entries)
    tally = list(_verdict(row, report.region).tally)
    assert isinstance(report.answer, int)
    tally[report.answer] -= 1
    closed = _replaced(row, lost, Verdict("split", tuple(tally)))
    if min(tally) < _question(row, report.region).threshold:
        pytest.skip("without it the question does not pass")
    one.close(closed, lost)
    assert one.state.stopped == "a split left out the answer it had given"
    assert one.region == report.region


def _question(row: PlayedRound, region: tuple[int, int]) -> Any:
    assert isinstance(row.query, Query)
    return next(one for one in row.query.questions if one.region == region)


def _verdict(row: PlayedRound, region: tuple[int, int]) -> Verdict:
    assert isinstance(row.query, Query)
    assert isinstance(row.closed, Closed)
    return row.closed.verdicts[row.query.questions.index(_question(row, region))]


def _splits(row: PlayedRound, region: tuple[int, int]) -> bool:
    tally, threshold = _verdict(row, region).tally, _question(row, region).threshold
    return _verdict(row, region).outcome == "split" and min(tally) > threshold


def _replaced(row: PlayedRound, part: Slice, verdict: Verdict | None = None) -> Closed:
    """The closing of a round, with another slice and verdict of one region."""
    assert isinstance(row.closed, Closed)
    heads = tuple(
        msgspec.structs.replace(head, reports=len(part.entries), digest=part.digest())
        if (head.lower, head.upper) == part.region
        else head
        for head in row.closed.heads
    )
    verdicts = row.closed.verdicts
    if verdict is not None:
        assert isinstance(row.query, Query)
        place = row.query.questions.index(_question(row, part.region))
        verdicts = (*verdicts[:place], verdict, *verdicts[place + 1 :])
    return msgspec.structs.replace(row.closed, heads=heads, verdicts=verdicts)


# -- the owner's limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "depth"), [((0.3,), None), ((0.6, 0.01), None), ((), 3), ((), None)], ids=["0.3", "two", "depth", "none"]
)
def test_a_server_that_makes_up_the_crowd_leads_a_device_no_further_than_its_owner_allows(
    least: tuple[float, ...], depth: int | None
) -> None:
    """All others are the server's, and are wherever it likes: A answers inside, and never a smaller region."""
    policy = msgspec.structs.replace(ALLOW_ALL, min_side=least, max_depth=depth)
    for task in (ONE, TWO):
        rng, path = np.random.default_rng(3), Path(task)
        fakes = [Participant(task, POINTS[0], secret(1000 + n), ALLOW_ALL, path=path) for n in range(400)]
        victim = device(task, policy)
        named: list[tuple[int, int]] = []
        inside: list[int] = []

        def deliver(
            one: Participant, query: Any, victim: Participant = victim, named: list[Any] = named,
            inside: list[int] = inside, rng: np.random.Generator = rng,
        ) -> AnyReport | None:  # fmt: skip
            if one is not victim:
                one._code = int(rng.integers(*one.path.region))  # it has no place
                return one.receive(query)
            try:
                report = one.receive(query)
            except ServerViolation:
                assert one.state.stopped
                return None
            named.extend([] if report is None else [report.region])
            inside.append(victim.inside)
            return report

        play(task, [*fakes, victim], chain=CHAIN, deliver=deliver)
        regions = np.array(named, dtype=np.uint64)
        assert least or len(set(named)) > 1
        assert max(inside) <= task.answers
        if least:
            assert (task.hierarchy.interval_sides(*regions.T) >= np.array(least) * (1 - 1e-9)).all()
        if depth is not None:
            assert task.hierarchy.depth(task.hierarchy.largest_cells(*regions.T)).max() <= depth
        assert bool(victim.state.stopped) == bool(least or depth)


@pytest.mark.parametrize("place", [("13.377713", 0.5), ("13.377713 E", 0.5), (13.377713, 0.5), (math.inf, 13.377713)])
def test_a_position_that_is_refused_is_not_repeated(place: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Participant(ONE, place, secret(1), ALLOW_ALL)
    assert "377713" not in str(refusal.value)


# -- anything at all -------------------------------------------------------------------------------------------------
