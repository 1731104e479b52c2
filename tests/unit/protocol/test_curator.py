"""The server's machine: what it counts, and that its state follows from the task and the events.

Every refusal by its token is in spec/vectors/refusals.json, which test_vectors.py replays.
"""

from __future__ import annotations

from copy import deepcopy

import msgspec
import numpy as np
import pytest

from semilocal import Box, Task
from semilocal.errors import DeviceViolation, InvalidInput
from semilocal.protocol.curator import Curator
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import AnyClosed, Closed, Event, Query, Report, ValueClosed
from semilocal.protocol.plan import Plan

LINE = Box((0.0,), (1.0,))
TASK = Task.build(LINE, epsilon=2.0, delta=0.05, k=5, max_depth=8)
ROOT = TASK.hierarchy.ends


class Table:
    """A server and people at codes, who answer truthfully: no noise, so that verdicts are foreseen."""

    def __init__(self, task: Task, codes: list[int], plan: Plan | None = None, chain: HashChain | None = None) -> None:
        self.server = Curator(task, plan, chain=chain)
        self.places = {row.to_bytes(16, "big"): code for row, code in enumerate(codes)}
        self.events: list[Event] = []
        self.quiet: set[bytes] = set()
        self.closed: list[AnyClosed] = []

    def add(self, code: int) -> bytes:
        name = (1000 + len(self.places)).to_bytes(16, "big")
        self.places[name] = code
        return name

    def report(self, name: bytes) -> Report:
        server, code = self.server, self.places[name]
        region = next(one for one in server.logs if one[0] <= code < one[1])
        answer = None
        if server.home.get(name) == region and name in server.asked_now(region):
            question = server.logs[region].question
            assert question is not None
            answer = sum(code >= cut for cut in question.cuts)
        return Report(server.task.id, server.round, name, *region, answer, bytes(16))

    def reports(self) -> list[Report]:
        """Of everybody who has something to say."""
        server = self.server
        found = [self.report(name) for name in self.places if name not in self.quiet]
        return [one for one in found if one.answer is not None or server.home.get(one.pseudonym) != one.region]

    def step(self) -> AnyClosed:
        reports = self.reports()
        closed = self.server.close(reports)
        self.events += [*reports, closed]
        self.closed.append(closed)
        return closed

    def finish(self) -> Curator:
        while not self.server.partitioned:
            self.step()
        return self.server


def spread(people: int = 200) -> list[int]:
    return [int(code) for code in np.random.default_rng(5).integers(*ROOT, people)]


def lone(round_: int = 1, region: tuple[int, int] = ROOT, answer: int | None = None, name: int = 7) -> Report:
    return Report(TASK.id, round_, name.to_bytes(16, "big"), *region, answer, bytes(16))


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_a_hash_chain_must_be_the_task_s() -> None:
    chain = HashChain(bytes(32), 1000)
    task = msgspec.structs.replace(TASK, chain=chain.end)
    with pytest.raises(InvalidInput, match="not the one"):
        Curator(task, chain=HashChain(b"1" * 32, 1000))
    with pytest.raises(InvalidInput, match="give it to the Curator"):
        Curator(task).close([])
    closed = Curator(task, chain=chain).close([])
    assert isinstance(closed, Closed)
    assert HashChain.goes_on(task.chain, closed.preimage)


def test_a_chain_leads_back_to_its_end_and_nothing_else_does() -> None:
    chain = HashChain(b"s" * 32, 20)
    before = chain.end
    for round_ in range(1, 21):
        preimage = chain.preimage(round_)
        assert HashChain.goes_on(before, preimage)
        assert not HashChain.goes_on(before, b"o" * 32)
        assert not HashChain.goes_on(before, b"")
        before = preimage
    assert before == b"s" * 32  # the last one is the seed
    assert chain.preimage(2) != HashChain(b"s" * 32, 19).preimage(2)
    assert HashChain.goes_on(b"", b"")
    assert not HashChain.goes_on(b"", bytes(32))
    with pytest.raises(InvalidInput, match="32 bytes"):
        HashChain(b"short", 3)


# -- what it does ------------------------------------------------------------------------------------------------------


def test_round_1_makes_the_roster_and_asks_nothing() -> None:
    table = Table(TASK, spread())
    assert table.server.query() == Query(TASK.id, 1, ())
    assert table.server.expected is None
    with pytest.raises(InvalidInput, match="not finished"):
        _ = table.server.partition
    table.step()
    assert table.server.logs[ROOT].crowd == 200
    query = table.server.query()
    assert isinstance(query, Query)
    (question,) = query.questions
    assert (question.drawn, question.start) == (2, 0)
    assert table.server.expected == question.stop == len(table.server.asked_now(ROOT))


def test_replay_gives_the_same_machine_and_refuses_what_does_not_follow() -> None:
    table = Table(TASK, spread())
    table.finish()
    again = Curator.replay(TASK, table.events)
    assert again.partitioned
    assert sorted(again.logs) == sorted(table.server.logs)
    assert again.home == table.server.home
    for name in ("lower", "upper", "crowds", "late"):
        assert np.array_equal(getattr(again.partition, name), getattr(table.server.partition, name))
    closings = [row for row, event in enumerate(table.events) if isinstance(event, Closed)]
    first, second = closings[0], closings[1]
    with pytest.raises(InvalidInput, match="does not follow"):  # a report was left out
        Curator.replay(TASK, table.events[1 : first + 1])
    with pytest.raises(InvalidInput, match="does not belong"):
        Curator.replay(TASK, table.events[first + 1 : second + 1])
    verdict = table.events[second]
    assert isinstance(verdict, Closed)
    wrong = msgspec.structs.replace(verdict, finished=True)
    with pytest.raises(InvalidInput, match="does not follow"):
        Curator.replay(TASK, [*table.events[:second], wrong])
    with pytest.raises(InvalidInput, match="not of the hash chain"):
        Curator.replay(TASK, [*table.events[:second], msgspec.structs.replace(verdict, preimage=bytes(32))])
    with pytest.raises(InvalidInput, match="other kind"):
        Curator(TASK).follow(ValueClosed(TASK.id, 1, bytes(32), 0, (), ()), [])


def test_a_transcript_in_which_somebody_announces_both_sides_is_refused() -> None:
    table = Table(TASK, spread(400))
    while len(table.server.logs) < 2:
        table.step()
    low, high = sorted(table.server.logs)[:2]
    follower = deepcopy(table.server)
    both = [lone(follower.round, region, name=1) for region in (low, high)]
    with pytest.raises(DeviceViolation, match="more than one report"):
        follower.follow(Closed(TASK.id, follower.round, (), (), b"", False), both)


# -- silence, absence, late people -------------------------------------------------------------------------------------


def test_who_stays_silent_is_not_asked_again_until_it_speaks() -> None:
    table = Table(TASK, spread())
    table.step()
    table.quiet = set(list(table.server.asked_now(ROOT))[:3])
    table.step()
    log = table.server.logs[ROOT]
    assert log.silent == table.quiet
    assert not table.quiet & set(log.askable(TASK.answers))
    name = min(table.quiet)
    table.quiet = set()
    table.server.close([*table.reports(), table.report(name)])
    assert name not in log.silent


def test_a_region_whose_members_all_vanish_ends_where_it_is() -> None:
    table = Table(TASK, spread(400))
    while len(table.server.logs) < 2:
        table.step()
    table.step()
    table.quiet = set(table.places)
    server = table.finish()
    assert server.round < 40
    assert server.partition.crowds.sum() == 400  # they stay members of the regions that they announced


def test_who_is_away_keeps_the_parent_and_announces_a_part_when_it_is_back() -> None:
    table = Table(TASK, spread(400))
    table.step()
    away = next(iter(table.places))
    table.quiet = {away}
    while len(table.server.logs) < 4:
        table.step()
    server = table.server
    assert server.home[away] == ROOT
    assert away in server.above[ROOT].members
    table.quiet = set()
    table.step()
    home = server.home[away]
    assert home != ROOT
    assert server.logs[home].members[away] is False  # of the roster, although it comes late
    assert away not in server.above[ROOT].members


def test_max_rounds_ends_everything_with_announced_regions() -> None:
    for rounds in (1, 2, 4, 5, 9):
        task = msgspec.structs.replace(TASK, max_rounds=rounds, chain=HashChain(bytes(32), rounds).end)
        table = Table(task, spread(400), chain=HashChain(bytes(32), rounds))
        server = table.finish()
        assert server.round <= rounds + 1
        assert server.partition.away.people.sum() == 0
        assert (len(server.partition) > 1) == (rounds >= 5)
