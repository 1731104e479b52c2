"""A device refuses a message that breaks the protocol, says which check failed, and sends nothing more.

One or two of every kind, over HTTP; every check is a vector (spec/vectors/refusals.json).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import msgspec
import pytest

from semilocal.device.summary import Summary
from semilocal.protocol.keys import pseudonym
from semilocal.protocol.messages import Closed, Query, Question, Report, Slice, ValueClosed, ValueQuery, decode, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.task import Task
from tests.helpers import HANG
from tests.helpers.fake_server import (
    BOX,
    MEAN,
    SMALL,
    DeviceDies,
    FakeServer,
    World,
    crowd,
    end_rounds,
    refusal,
    run_agents,
)

OTHER = Task.build(BOX, epsilon=1.0, delta=0.1, k=2, max_depth=6)
FEW = 16
ENDS = SMALL.hierarchy.ends
VICTIM = b"v" * 32
Forge = Callable[[FakeServer], bytes]


def forged_run(
    path: str, forge: Forge, *, releases: tuple[Release, ...] = (MEAN,), after: int = 0
) -> tuple[World, Summary]:
    """A crowd with an honest server, but device 0 gets forged bytes under a path once ``after`` rounds are closed."""
    world = World(FakeServer(task=SMALL, capacity=FEW, releases=releases))
    world.secrets["device0"] = VICTIM
    points = crowd(FEW)
    full = f"/tasks/{SMALL.id.hex()}{path}"

    async def scene() -> Summary:
        network = world.network

        class Forging(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                if request.url.path == full and len(world.server.closings) >= after:
                    kind = "application/json" if full.endswith("/state") else "application/msgpack"
                    return httpx2.Response(200, headers={"content-type": kind}, content=forge(world.server))
                return await network.handle_async_request(request)

        victim = world.channel(Forging())
        shared = world.channel()
        vaults = [world.vault(f"device{number}") for number in range(FEW)]
        agents = [
            world.agent(vault, point, channel=shared if number else victim)
            for number, (vault, point) in enumerate(zip(vaults, points, strict=True))
        ]
        tasks = [asyncio.ensure_future(agent.run()) for agent in agents]
        deadlines = asyncio.ensure_future(end_rounds(world.server))  # the others go on without the victim
        summary = await asyncio.wait_for(tasks[0], HANG)
        deadlines.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if summary.task is not None and vaults[0].contents.memberships:
            # it stays refused, without a single request
            before = len(network.sent)
            again = await world.agent(vaults[0], points[0], channel=victim).run()
            assert again == summary
            assert len(network.sent) == before
            # and a server that broke the protocol leaves the whole reservation booked
            line = vaults[0].contents.ledger.line(SMALL.id)
            assert line is not None
            assert not line.settled
        return summary

    return world, asyncio.run(scene())


def sent_by_victim(world: World, number: int) -> int:
    """How many reports device 0 has sent for a round."""
    name = pseudonym(world.secrets["device0"], SMALL.id).hex()
    return sum(f"/rounds/{number}/reports/{name}" in url for url in world.network.puts())


def query(task: bytes = SMALL.id, round_: int = 1, questions: tuple[Question, ...] = ()) -> Forge:
    return lambda server: encode(Query(task, round_, questions))


def question(server: FakeServer, **changes: object) -> Question:
    """The honest question of round 2, with changes."""
    asked = server.queries[1]
    assert isinstance(asked, Query)
    return msgspec.structs.replace(asked.questions[0], **changes)


def second(**changes: object) -> Forge:
    return lambda server: encode(Query(SMALL.id, 2, (question(server, **changes),)))


@pytest.mark.parametrize(
    ("path", "forge", "token"),
    [
        ("", lambda server: encode(OTHER), "other-task"),
        ("", lambda server: encode(SMALL) + b"\x00", "other-task"),
        ("/plan", lambda server: encode(Plan(OTHER.id, ())), "bad-plan"),
        ("/plan", lambda server: b"\xc1", "malformed"),
        ("/rounds/1/query", query(task=OTHER.id), "other-task"),
        ("/rounds/1/query", lambda server: b"\x93\xc0\xc0\xc0", "malformed"),
        ("/rounds/1/query", lambda server: encode(Query(SMALL.id, 1, ())) + b"\xc0", "malformed"),
        ("/rounds/1/query", lambda server: encode(ValueQuery(SMALL.id, 1, bytes(32), 0, ())), "malformed"),
        ("/state", lambda server: msgspec.json.encode({**server.state(), "task": OTHER.id.hex()}), "other-task"),
    ],
)
def test_a_forged_message_before_the_first_report_is_refused_and_nothing_leaves(
    path: str, forge: Forge, token: str
) -> None:
    world, summary = forged_run(path, forge)
    assert (summary.outcome, summary.token) == ("refused", token)
    assert f"[{token}]" in summary.text()
    assert "No report has left this device" in summary.text()
    assert sent_by_victim(world, 1) == 0


def closing(**changes: object) -> Forge:
    return lambda server: encode(msgspec.structs.replace(_first(server), **changes))


def _first(server: FakeServer) -> Closed:
    closed = server.closings[0]
    assert isinstance(closed, Closed)
    return closed


def everybody(server: FakeServer) -> Slice:
    return server.slices[1, f"{ENDS[0]}-{ENDS[1]}"]


def fewer(server: FakeServer) -> bytes:
    whole = everybody(server)
    return encode(msgspec.structs.replace(whole, entries=whole.entries[1:]))


@pytest.mark.parametrize(
    ("path", "forge", "token"),
    [
        ("/rounds/1/closed", closing(task=OTHER.id), "other-task"),
        ("/rounds/1/closed", closing(round=2), "skipped-round"),
        ("/rounds/1/closed", lambda server: b"", "malformed"),
        (f"/rounds/1/slices/{ENDS[0]}-{ENDS[1]}", fewer, "wrong-slice"),
        ("/rounds/2/query", query(), "repeated-round"),
        ("/rounds/2/query", query(round_=3), "skipped-round"),
        ("/rounds/2/query", second(threshold=1), "weak-threshold"),
    ],
)
def test_a_forged_message_after_the_first_report_is_refused(path: str, forge: Forge, token: str) -> None:
    world, summary = forged_run(path, forge, after=1)
    assert (summary.outcome, summary.token) == ("refused", token)
    assert summary.region == ENDS
    assert sent_by_victim(world, 1) == 1
    assert sent_by_victim(world, 2) == 0


def value_query(**changes: object) -> Forge:
    def forge(server: FakeServer) -> bytes:
        honest = server.queries[server.partition_rounds]
        return encode(msgspec.structs.replace(honest, **changes))

    return forge


def partition_rounds() -> int:
    """How long the partition of this crowd takes."""
    world = World(FakeServer(task=SMALL, capacity=FEW, releases=(MEAN, Release("counts"))))
    world.secrets["device0"] = VICTIM
    asyncio.run(run_agents(world, crowd(FEW)))
    return world.server.partition_rounds


@pytest.mark.parametrize(
    ("changes", "token"),
    [({"task": OTHER.id}, "other-plan"), ({"index": 1}, "not-planned"), ({"round": 999}, "skipped-round")],
)
def test_a_forged_question_for_a_value_is_refused(changes: dict[str, object], token: str) -> None:
    number = partition_rounds() + 1
    releases = (MEAN, Release("counts"))
    world, summary = forged_run(f"/rounds/{number}/query", value_query(**changes), releases=releases)
    assert world.server.partition_rounds == number - 1
    assert (summary.outcome, summary.token) == ("refused", token)
    assert summary.values == ()
    assert sent_by_victim(world, number) == 0


def test_a_value_that_was_acknowledged_must_be_counted() -> None:
    number = partition_rounds() + 1

    def forget(server: FakeServer) -> bytes:
        honest = server.closings[number - 1]
        assert isinstance(honest, ValueClosed)
        return encode(msgspec.structs.replace(honest, regions=(), counts=()))

    _, summary = forged_run(f"/rounds/{number}/closed", forget, releases=(MEAN, Release("counts")), after=number)
    assert (summary.outcome, summary.token) == ("refused", "not-counted")


def test_a_partition_that_ends_while_rounds_are_missing_is_refused() -> None:
    ended = {"phase": "finished", "round": 1, "closed": 1}
    world, summary = forged_run("/state", lambda server: msgspec.json.encode({**server.state(), **ended}), after=1)
    assert (summary.outcome, summary.token) == ("refused", "ended-early")
    assert sent_by_victim(world, 2) == 0


@pytest.mark.parametrize(("status", "token"), [(409, "other-answer"), (401, "unauthorized"), (422, "bad-answer")])
def test_a_server_that_refuses_the_report_is_asked_no_more(status: int, token: str) -> None:
    world = World(FakeServer(task=SMALL))

    class Refusing(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if "/reports/" in str(request.url):
                return refusal(status, token, "so there")
            return await world.network.handle_async_request(request)

    channel = world.channel(Refusing())
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), channel=channel).run())
    assert (summary.outcome, summary.token) == ("refused", token)
    assert "so there" in summary.reason


# -- a server that tells one device two stories ----------------------------------------------------------------------


def changed_log(forgetful: bool) -> tuple[set[bytes], str]:
    """A device reports in round 1, dies, and then finds another query and another log in the place of the first."""
    world = World(FakeServer(task=SMALL, capacity=FEW))
    world.secrets["device0"] = VICTIM
    name = pseudonym(VICTIM, SMALL.id).hex()

    def die(number: int, request: httpx2.Request) -> str:
        late = "/reports/" + name in str(request.url) and world.server.open_round > 1
        return "die-before" if late else ""

    world.network.fate = die
    with pytest.raises(DeviceDies):
        asyncio.run(run_agents(world, crowd(FEW)))
    bodies = {bytes(body) for url, found in world.network.puts().items() if url.endswith(name) for body in found}
    last = max((decode(body, Report) for body in bodies), key=lambda report: report.round)
    assert last.round > 1
    honest = world.server.queries[last.round - 1]
    assert isinstance(honest, Query)
    row = next(row for row, one in enumerate(honest.questions) if one.region == last.region)
    asked = honest.questions[row]
    cut = asked.cuts[0] + (1 if asked.cuts[0] + 1 < asked.upper else -1)
    moved = (*honest.questions[:row], msgspec.structs.replace(asked, cuts=(cut,)), *honest.questions[row + 1 :])
    path = f"/tasks/{SMALL.id.hex()}/rounds/{last.round}/query"
    world.server.forged[path] = encode(msgspec.structs.replace(honest, questions=moved))
    world.network.fate = lambda number, request: (
        "die-after" if f"/rounds/{last.round}/reports/" in str(request.url) else ""
    )
    with world.vault("device0") as vault:
        if forgetful:  # the planted bug: the vault forgot what it sent
            entry = vault.contents.memberships[0]
            state = msgspec.structs.replace(entry.state, round=1, question=b"", book=())
            vault.put(msgspec.structs.replace(entry, state=state, reported=(1,)))
        try:
            outcome = asyncio.run(asyncio.wait_for(world.agent(vault, crowd(FEW)[0]).run(), HANG)).token
        except DeviceDies:
            outcome = "sent"
    answers = {
        bytes(body)
        for url, found in world.network.puts().items()
        if f"/{last.round}/reports/{name}" in url
        for body in found
    }
    return answers, outcome


def test_two_stories_never_get_two_answers() -> None:
    answers, token = changed_log(forgetful=False)
    assert (len(answers), token) == (1, "repeated-round")
    assert changed_log(forgetful=True)[1] == "sent"  # what the vault is for


def test_a_changed_closing_after_a_restart_is_refused() -> None:
    world = World(FakeServer(task=SMALL, capacity=FEW))
    world.network.fate = lambda number, request: "die-before" if "/rounds/4/query" in str(request.url) else ""
    with pytest.raises(DeviceDies):
        asyncio.run(run_agents(world, crowd(FEW)))
    world.network.fate = lambda number, request: ""
    with world.vault("device0") as vault:
        assert vault.contents.memberships[0].closings
        forged = closing(finished=True)(world.server)
        world.server.forged[f"/tasks/{SMALL.id.hex()}/rounds/1/closed"] = forged
        summary = asyncio.run(world.agent(vault, crowd(FEW)[0]).run())
        assert (summary.outcome, summary.token) == ("refused", "changed-closing")
