"""A device refuses every message that breaks the protocol, says which check failed, and sends nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fractions import Fraction

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal import Closed, Query, Task
from semilocal.device.summary import Summary
from semilocal.protocol.keys import pseudonym
from semilocal.protocol.messages import AnyReport, ValueClosed, ValueQuery, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.testing import ALLOW_ALL
from tests.helpers import HANG
from tests.helpers.fake_server import BOX, MEAN, SMALL, DeviceDies, FakeServer, World, crowd, refusal

OTHER = Task.build(BOX, epsilon=1.0, delta=0.1, k=2, max_depth=6)
FEW = 10
HUGE = msgspec.msgpack.encode(["closed", SMALL.id, 1, [1], [FEW], [[2**63, 0]], [[]]])
Forge = Callable[[FakeServer], bytes]


def forged_run(
    path: str, forge: Forge, *, releases: tuple[Release, ...] = (MEAN,), after: int = 0
) -> tuple[World, Summary]:
    """A crowd with an honest server, but device 0 gets forged bytes under a path once ``after`` rounds are closed."""
    world = World(FakeServer(task=SMALL, capacity=FEW, releases=releases))
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
        summary = await asyncio.wait_for(tasks[0], HANG)
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


def query(task: bytes = SMALL.id, round_: int = 1, cells: tuple[int, ...] = (1,)) -> Forge:
    return lambda server: encode(Query(task, round_, cells))


def other_cells(server: FakeServer) -> bytes:
    """Round 2 without the cell of device 0, which is asked about whatever the noise was."""
    return encode(Query(SMALL.id, 2, (2,)))


@pytest.mark.parametrize(
    ("path", "forge", "token"),
    [
        ("", lambda server: encode(OTHER), "other-task"),
        ("", lambda server: encode(SMALL) + b"\x00", "other-task"),
        ("/plan", lambda server: encode(Plan(OTHER.id, ())), "bad-plan"),
        ("/plan", lambda server: b"\xc1", "malformed"),
        ("/rounds/1/query", query(task=OTHER.id), "other-task"),
        ("/rounds/1/query", query(round_=2, cells=(2, 3)), "skipped-round"),
        ("/rounds/1/query", query(round_=SMALL.max_rounds + 2), "beyond-depth"),
        ("/rounds/1/query", query(cells=(2,)), "wrong-depth"),
        ("/rounds/1/query", query(cells=()), "foreign-cells"),
        ("/rounds/1/query", lambda server: b"\x93\xc0\xc0\xc0", "malformed"),
        ("/rounds/1/query", lambda server: encode(Query(SMALL.id, 1, (1,))) + b"\xc0", "malformed"),
        ("/rounds/1/query", lambda server: encode(ValueQuery(SMALL.id, 1, bytes(32), 0)), "malformed"),
        ("/state", lambda server: msgspec.json.encode({**server.state(), "task": OTHER.id.hex()}), "other-task"),
    ],
)
def test_a_forged_message_before_the_first_answer_is_refused_and_nothing_leaves(
    path: str, forge: Forge, token: str
) -> None:
    world, summary = forged_run(path, forge)
    assert (summary.outcome, summary.token) == ("refused", token)
    assert f"[{token}]" in summary.text()
    assert "No answer has left this device" in summary.text()
    assert sent_by_victim(world, 1) == 0


def closing(**changes: object) -> Forge:
    return lambda server: encode(msgspec.structs.replace(_first(server), **changes))


def _first(server: FakeServer) -> Closed:
    closed = server.closings[0]
    assert isinstance(closed, Closed)
    return closed


@pytest.mark.parametrize(
    ("path", "forge", "token"),
    [
        ("/rounds/1/closed", closing(task=OTHER.id), "other-task"),
        ("/rounds/1/closed", closing(round=2), "skipped-round"),
        ("/rounds/1/closed", closing(kept=((),)), "wrong-verdict"),
        ("/rounds/1/closed", closing(kept=((0,),)), "wrong-verdict"),
        ("/rounds/1/closed", closing(tally=((FEW, 0),)), "wrong-verdict"),
        ("/rounds/1/closed", closing(tally=((FEW, FEW),)), "impossible-tally"),
        ("/rounds/1/closed", closing(tally=((1, 2, 3),)), "impossible-tally"),
        ("/rounds/1/closed", lambda server: HUGE, "malformed"),
        ("/rounds/1/closed", closing(responders=(0,), tally=((0, 0),)), "not-counted"),
        (
            "/rounds/1/closed",
            lambda server: encode(Closed(SMALL.id, 1, (1, 5), (FEW, 1), ((5, 5), (1, 0)), ((0, 1), ()))),
            "changed-query",
        ),
        ("/rounds/1/closed", lambda server: b"", "malformed"),
        ("/rounds/2/query", query(), "repeated-round"),
        ("/rounds/2/query", query(round_=3, cells=(4, 5, 6, 7)), "skipped-round"),
        ("/rounds/2/query", other_cells, "foreign-cells"),
        ("/rounds/2/query", query(round_=2, cells=(2, 3, 4)), "wrong-depth"),
    ],
)
def test_a_forged_message_after_the_first_answer_is_refused(path: str, forge: Forge, token: str) -> None:
    if forge is other_cells:  # leave out whichever half device 0 is in
        child = int(SMALL.hierarchy.locate(np.array([crowd(FEW)[0]]), 1)[0])
        world, summary = forged_run(path, query(round_=2, cells=(5 - child,)), after=1)
    else:
        world, summary = forged_run(path, forge, after=1)
    assert (summary.outcome, summary.token) == ("refused", token)
    assert summary.rounds == 1
    assert sent_by_victim(world, 1) == 1
    assert sent_by_victim(world, 2) == 0


def value_query(**changes: object) -> Forge:
    def forge(server: FakeServer) -> bytes:
        honest = ValueQuery(SMALL.id, server.partition_rounds + 1, server.plan.digest, 0)
        return encode(msgspec.structs.replace(honest, **changes))

    return forge


VALUE_ROUND = 5  # the partition of this crowd ends with round 4, the roll call


@pytest.mark.parametrize(
    ("forge", "token"),
    [
        (value_query(task=OTHER.id), "other-task"),
        (value_query(plan=bytes(32)), "other-plan"),
        (value_query(index=1), "unknown-release"),
        (value_query(index=2), "unknown-release"),
        (value_query(round=VALUE_ROUND + 1), "skipped-round"),
        (query(round_=VALUE_ROUND), "malformed"),
    ],
)
def test_a_forged_question_for_a_value_is_refused(forge: Forge, token: str) -> None:
    world, summary = forged_run(f"/rounds/{VALUE_ROUND}/query", forge, releases=(MEAN, Release("counts")))
    assert world.server.partition_rounds == VALUE_ROUND - 1
    assert (summary.outcome, summary.token) == ("refused", token)
    assert summary.values == ()
    assert sent_by_victim(world, VALUE_ROUND) == 0


def test_a_value_that_was_acknowledged_must_be_counted() -> None:
    def forget(server: FakeServer) -> bytes:
        honest = server.closings[VALUE_ROUND - 1]
        assert isinstance(honest, ValueClosed)
        return encode(msgspec.structs.replace(honest, cells=(), counts=()))

    _, summary = forged_run(f"/rounds/{VALUE_ROUND}/closed", forget, after=VALUE_ROUND)
    assert (summary.outcome, summary.token) == ("refused", "not-counted")


def test_a_partition_that_ends_while_ones_cell_goes_on_is_refused() -> None:
    ended = {"phase": "finished", "round": 1, "closed": 1}
    world, summary = forged_run("/state", lambda server: msgspec.json.encode({**server.state(), **ended}), after=1)
    assert (summary.outcome, summary.token) == ("refused", "ended-early")
    assert sent_by_victim(world, 2) == 0


@pytest.mark.parametrize(("status", "token"), [(409, "other-answer"), (401, "unauthorized"), (422, "bad-answer")])
def test_a_server_that_refuses_the_answer_is_asked_no_more(status: int, token: str) -> None:
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


def test_after_a_crash_a_changed_question_is_refused() -> None:
    world = World(FakeServer(task=SMALL))
    with world.vault("device") as vault:
        world.network.fate = lambda number, request: "die-before" if "/reports/" in str(request.url) else ""
        with pytest.raises(DeviceDies):
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        world.network.fate = lambda number, request: ""
        world.server.forged[f"/tasks/{SMALL.id.hex()}/rounds/1/query"] = encode(Query(SMALL.id, 1, ()))
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
    assert (summary.outcome, summary.token) == ("refused", "changed-query")


# -- a server that tells one device two stories ----------------------------------------------------------------------


class Puppeteer:
    """A server of one device that makes up everybody else, and may change the story between two starts."""

    def __init__(self, tally: tuple[int, int], kept: tuple[int, ...], cells: tuple[int, ...]) -> None:
        self.first = Closed(SMALL.id, 1, (1,), (1000,), (tally,), (kept,))
        self.second = Query(SMALL.id, 2, cells)

    def install(self, world: World) -> None:
        server, prefix = world.server, f"/tasks/{SMALL.id.hex()}/rounds"
        server.forged[f"{prefix}/1/closed"] = encode(self.first)
        server.forged[f"{prefix}/2/query"] = encode(self.second)
        state = {**server.state(), "phase": "collecting", "round": 2, "closed": 1}
        server.forged[f"/tasks/{SMALL.id.hex()}/state"] = msgspec.json.encode(state)


def answers_to_round_2(forgetful: bool) -> set[bytes]:
    """A device hears that its cell was split, answers, dies, and then hears that it was trimmed to the other half."""
    world = World(FakeServer(task=SMALL))
    world.server.expected = 10**6
    sent: set[bytes] = set()

    def note(number: int, request: httpx2.Request) -> str:
        if "/rounds/1/reports/" in str(request.url):
            Puppeteer((500, 500), (0, 1), (2, 3)).install(world)
        if "/rounds/2/reports/" in str(request.url):
            sent.add(request.read())
            return "die-before"
        return ""

    world.network.fate = note
    position = (0.3, 0.3)  # in child 0
    with world.vault("device") as vault:
        with pytest.raises(DeviceDies):
            asyncio.run(world.agent(vault, position).run())
        if forgetful:  # the planted bug: the vault forgot round 2
            entry = vault.contents.memberships[0]
            state = msgspec.structs.replace(entry.state, phase="waiting", round=1, cell=1, question=b"", answered=0)
            line = vault.contents.ledger.lines[0]
            ledger = msgspec.structs.replace(
                vault.contents.ledger, lines=(msgspec.structs.replace(line, spent_epsilon="0", spent_exposure="0"),)
            )
            vault.put(msgspec.structs.replace(entry, state=state, closings=()), ledger)
            state_path = f"/tasks/{SMALL.id.hex()}/state"
            del world.server.forged[state_path]
        Puppeteer((0, 1000), (1,), (3,)).install(world)
        if forgetful:
            del world.server.forged[state_path]

        def story(number: int, request: httpx2.Request) -> str:
            if "/rounds/1/reports/" in str(request.url):
                Puppeteer((0, 1000), (1,), (3,)).install(world)
            return note(number, request) if "/rounds/2/" in str(request.url) else ""

        world.network.fate = story
        try:
            summary = asyncio.run(world.agent(vault, position).run())
        except DeviceDies:
            return sent
        assert (summary.outcome, summary.token) == ("refused", "changed-query")
    return sent


def test_two_stories_never_get_two_answers() -> None:
    assert len(answers_to_round_2(forgetful=False)) == 1
    assert len(answers_to_round_2(forgetful=True)) == 2  # what the vault is for


# -- exposure --------------------------------------------------------------------------------------------------------


class Splitter(FakeServer):
    """Makes up a thousand others in every cell, so that the one device is led to the bottom of the tree."""

    def close(self) -> None:
        number, asked = self.open_round, self.queries[-1]
        assert isinstance(asked, Query)
        deepest = number > self.task.max_rounds
        rows = tuple(() if deepest else (500, 500) for _ in asked.cells)
        kept = tuple(() if deepest else (0, 1) for _ in asked.cells)
        self.closings.append(Closed(self.task.id, number, asked.cells, (1000,) * len(rows), rows, kept))
        if not deepest:
            below = tuple(2 * cell + child for cell in asked.cells for child in (0, 1))
            self.queries.append(Query(self.task.id, number + 1, below))

    def waits_for(self) -> int:
        return 1

    def check(self, report: AnyReport) -> None:
        asked = self.queries[report.round - 1]
        assert isinstance(asked, Query)
        assert report.cell in asked.cells


DEEP = Task.build(BOX, epsilon=0.7, delta=1e-6, k=20, max_depth=9)


@pytest.mark.parametrize(("cap", "answers"), [(0.7, 1), (2.0, 2), (2.1, 3), (6.29, 8), (6.3, 10), (None, 10)])
def test_a_server_that_makes_up_the_crowd_gains_no_more_than_the_owners_cap(cap: float | None, answers: int) -> None:
    world = World(Splitter(task=DEEP))
    with world.vault("device") as vault:
        policy = msgspec.structs.replace(ALLOW_ALL, max_exposure=cap)
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), policy=policy).run())
        assert len(world.network.puts()) == summary.rounds == answers
        if answers == 10:  # nine answers and the roll call, which tells nothing about the place inside the cell
            assert summary.outcome == "finished"
        else:
            assert (summary.outcome, summary.token) == ("refused", "over-exposure")
        spent = vault.contents.ledger.lines[0].spent("exposure")
        assert spent == min(answers, 9) * Fraction(7, 10)
        assert "your crowd may be made up" in summary.text()


def test_the_cap_of_the_vault_holds_for_exposure_too() -> None:
    world = World(Splitter(task=DEEP))
    with world.vault("device") as vault:
        vault.set_caps(max_epsilon=None, max_exposure="1.5")
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert summary.rounds == 2
        assert summary.token == "over-exposure"
