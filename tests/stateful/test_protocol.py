"""A device against a server that lies, with crashes in between: a lie is refused by its name and changes nothing.

An honest campaign is recorded. One of its devices lives through it again, told every lie that fits before every honest
message, restarted from its stored state in some rounds, and asked again in others. It must refuse each lie with the
token of its check, send the bytes that it sent in the honest campaign, once a round, and end in the same region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semilocal import Closed, Participant, Query, Report, Task
from semilocal.errors import ServerViolation
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Entry, Question, Slice, Verdict, encode
from semilocal.protocol.participant import State
from semilocal.testing import ALLOW_ALL, Played, PlayedRound, cluster, participants_at, play, secret, unit_box
from tests.helpers.away import read_log

SIZE = 70
CHAIN = HashChain(bytes(32), 1000)
POINTS = cluster(SIZE)
# A busy machine is no failure, and a failure must come back.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
replace: Callable[..., Any] = msgspec.structs.replace


def recorded(**options: Any) -> Played:
    task = Task.build(unit_box(), delta=0.05, k=3, chain=CHAIN.end, **options)
    return play(task, participants_at(task, POINTS), chain=CHAIN)


CAMPAIGNS = [recorded(epsilon=2.0), recorded(epsilon=4.0), recorded(epsilon=8.0, rule="all", max_depth=6)]


class Told(NamedTuple):
    """A message that a device is told, and the token with which it must refuse it."""

    token: str
    query: Query
    closed: Closed | None = None
    part: Slice | None = None


def asked_lies(query: Query, region: tuple[int, int]) -> Iterator[Told]:
    """Queries that break the protocol for a device in a region."""
    yield Told("other-task", replace(query, task=bytes(32)))
    yield Told("skipped-round", replace(query, round=query.round + 1))
    if query.round > 1:
        yield Told("repeated-round", replace(query, round=query.round - 1))
    for place, one in enumerate(query.questions):
        if one.region != region:
            continue

        def with_question(place: int = place, one: Question = one, **changes: int) -> Query:
            others = query.questions
            return msgspec.structs.replace(
                query, questions=(*others[:place], replace(one, **changes), *others[place + 1 :])
            )

        yield Told("other-region", with_question(upper=one.upper - 1))
        if one.drawn == query.round:
            yield Told("wrong-draw", with_question(asked=10**6))
            if one.stop > 1:
                yield Told("wrong-draw", with_question(start=1))
            if one.decides:
                yield Told("weak-threshold", with_question(threshold=1))
        else:
            yield Told("wrong-draw", with_question(threshold=one.threshold + 1))


def closed_lies(one: PlayedRound, region: tuple[int, int], name: bytes) -> Iterator[Told]:
    """Closings that break the protocol for a device in a region."""
    query, closed, part = one.query, one.closed, one.slices.get(region)
    assert isinstance(query, Query)
    assert isinstance(closed, Closed)
    yield Told("other-task", query, replace(closed, task=bytes(32)), part)
    yield Told("skipped-round", query, replace(closed, round=closed.round + 1), part)
    yield Told("broken-chain", query, replace(closed, preimage=bytes(32)), part)
    if query.questions:
        yield Told("wrong-verdict", query, replace(closed, verdicts=closed.verdicts[1:]), part)
    if part is not None:
        yield Told("wrong-slice", query, closed, None)
        yield Told("wrong-slice", query, closed, replace(part, entries=part.entries[1:]))
        mine = [entry for entry in part.entries if entry.pseudonym == name]
        if mine:
            other = Entry(name, mine[0].answer, bytes(16))
            yield Told("changed-report", query, *with_entries(closed, part, {name: other}))
    place = next((place for place, asked in enumerate(query.questions) if asked.region == region), None)
    if place is not None:
        said, asked = closed.verdicts[place], query.questions[place]
        for token, verdict in (
            ("wrong-tally", Verdict(said.outcome, (said.tally[0] + 1, *said.tally[1:]))),
            ("wrong-verdict", Verdict("split", said.tally)), ("wrong-verdict", Verdict("more", said.tally)),
        ):  # fmt: skip
            legal = verdict.outcome == said.outcome or (verdict.outcome == "more" and asked.stop < asked.asked)
            if token == "wrong-tally" or not legal:
                verdicts = (*closed.verdicts[:place], verdict, *closed.verdicts[place + 1 :])
                yield Told(token, query, replace(closed, verdicts=verdicts), part)


def with_entries(closed: Closed, part: Slice, changed: dict[bytes, Entry]) -> tuple[Closed, Slice]:
    """A slice with other entries, and a closing that has its hash."""
    entries = tuple(changed.get(entry.pseudonym, entry) for entry in part.entries)
    other = replace(part, entries=entries)
    heads = tuple(
        replace(head, digest=other.digest()) if (head.lower, head.upper) == part.region else head
        for head in closed.heads
    )
    return replace(closed, heads=heads), other


def live(
    played: Played, who: int, *, kind: type[Participant] = Participant, crashes: frozenset[int] = frozenset(),
    again: frozenset[int] = frozenset(),
) -> set[str]:  # fmt: skip
    """One device lives through a campaign among lies; returns the tokens that it refused with."""
    task, honest = played.curator.task, played.participants[who]
    device = kind(task, POINTS[who], secret(who), ALLOW_ALL)
    sent = {
        report.round: encode(report)
        for one in played.rounds for report in one.reports if report.pseudonym == honest.pseudonym
    }  # fmt: skip
    refused = set[str]()
    said = dict[int, bytes]()
    for number, one in enumerate(played.rounds):
        assert isinstance(one.query, Query)
        assert isinstance(one.closed, Closed)
        if one.query.round in crashes:
            stored = msgspec.msgpack.decode(msgspec.msgpack.encode(device.state), type=State)
            fresh = kind(task, POINTS[who], secret(who), ALLOW_ALL, state=stored)
            device = read_log(fresh, played.rounds[:number])
        refused |= {_refuse(device, lie) for lie in asked_lies(one.query, device.log.region)}
        for _ in range(2 if one.query.round in again else 1):
            report = device.answer(one.query)
            if report is not None:
                assert said.setdefault(report.round, encode(report)) == encode(report), "two reports in one round"
        other = replace(one.query, questions=one.query.questions[1:])
        if other != one.query and device.path.question in one.query.questions[:1]:
            refused.add(_refuse(device, Told("changed-query", other)))
        refused |= {_refuse(device, lie) for lie in closed_lies(one, device.log.region, device.pseudonym)}
        device.close(one.closed, one.slices.get(device.log.region))
        assert device.inside <= task.answers, "more answers inside its region than it may give"
    assert said == sent
    assert device.state == honest.state
    return refused


def _refuse(device: Participant, lie: Told) -> str:
    """A lie is refused by its name, and leaves the device as it was."""
    before = device.state
    try:
        if lie.closed is None:
            device.answer(lie.query)
        else:
            device.close(lie.closed, lie.part)
    except ServerViolation as error:
        assert error.token == lie.token, (lie.token, error)  # noqa: PT017
        assert device.state == before
        return lie.token
    raise AssertionError(f"a lie was taken: {lie.token}")


def live_all(kind: type[Participant] = Participant) -> set[str]:
    """A dozen devices, one after the other."""
    return set[str]().union(*(live(CAMPAIGNS[0], who, kind=kind) for who in range(12)))


TOKENS = {
    "other-task", "skipped-round", "repeated-round", "other-region", "wrong-draw", "weak-threshold", "changed-query",
    "broken-chain", "wrong-slice", "wrong-tally", "wrong-verdict", "changed-report",
}  # fmt: skip


@settings(STEADY, max_examples=15)
@given(data=st.data())
def test_lies_crashes_and_repetitions_change_nothing(data: st.DataObject) -> None:
    played = data.draw(st.sampled_from(CAMPAIGNS))
    rounds = st.frozensets(st.integers(1, len(played.rounds)), max_size=4)
    live(played, data.draw(st.integers(0, SIZE - 1)), crashes=data.draw(rounds), again=data.draw(rounds))


def test_every_lie_is_told() -> None:
    assert live_all() == TOKENS


@pytest.mark.parametrize("token", sorted(TOKENS))
def test_a_device_without_a_check_is_caught(token: str) -> None:
    """Planted bugs: a device that lets one kind of lie pass in silence."""

    class Careless(Participant):
        def answer(self, query: Query) -> Report | None:
            try:
                return super().answer(query)
            except ServerViolation as error:
                if error.token != token:
                    raise
                return None

        def close(self, closed: Closed, reports: Slice | None) -> None:
            try:
                super().close(closed, reports)
            except ServerViolation as error:
                if error.token != token:
                    raise

    with pytest.raises(AssertionError, match=f"a lie was taken: {token}"):
        live_all(Careless)
