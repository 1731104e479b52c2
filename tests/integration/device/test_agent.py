"""An agent keeps a device's word over a bad network and through crashes, and follows the campaign to its end."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal import BinaryTree, Policy, simulate
from semilocal.device.agent import Agent
from semilocal.device.channel import Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.summary import Outcome, Summary
from semilocal.device.vault import Vault
from semilocal.errors import BudgetExceeded, InvalidInput, OutsideDomain, Unreachable
from semilocal.protocol.keys import pseudonym
from semilocal.protocol.messages import Report, ValueClosed, ValueQuery, ValueReport, decode
from semilocal.protocol.participant import Participant, State
from semilocal.protocol.plan import Release
from semilocal.protocol.promise_words import MOVED
from semilocal.simulation.values import play_values, value_events
from semilocal.testing import ALLOW_ALL
from semilocal.transcript.merkle import transcript_root
from tests.helpers import HANG
from tests.helpers.fake_server import MEAN, SMALL, TASK, URL, DeviceDies, FakeServer, Point, World, crowd, run_agents

SIZE = 24
FEW = 10


def one_answer_each(world: World) -> bool:
    return all(len(bodies) == 1 for bodies in world.network.puts().values())


# -- the whole way ---------------------------------------------------------------------------------------------------


def test_agents_over_http_give_the_transcript_of_the_simulation() -> None:
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE))
    summaries = asyncio.run(run_agents(world, points))
    secrets = [world.secrets[f"device{number}"] for number in range(SIZE)]
    run = simulate(np.array(points), TASK, secrets=secrets, detail="reports")
    assert world.server.root() == transcript_root(run.events)
    assert [summary.region for summary in summaries] == run.partition.cells[run.regions].tolist()
    assert [summary.crowd for summary in summaries] == run.partition.crowds[run.regions].tolist()
    assert [summary.moves for summary in summaries] == run.moves.tolist()
    assert len(world.server.closings) > 3
    assert max(summary.moves for summary in summaries) == 1
    assert [summary.trims for summary in summaries] == run.partition.path_trims[run.regions].tolist()
    for summary in summaries:
        assert summary.outcome == "finished"
        assert summary.epsilon == 6.0 * (1 + summary.trims)
        assert ("Only this device knows" in summary.text()) == bool(summary.moves)
        assert summary.exposure == 6.0 * min(summary.rounds, TASK.max_rounds)
        for words in ("Your region: lat [", "Your crowd:", "epsilon =", "delta =", "What was revealed", "exposure"):
            assert words in summary.text()
    last = [summary for summary in summaries if summary.rounds == len(world.server.closings)]
    assert last
    assert {summary.checkpoint for summary in last} == {world.server.root()}


def test_values_are_those_of_the_pinned_plan_and_are_booked() -> None:
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE, releases=(MEAN, MEAN)))
    summaries = asyncio.run(run_agents(world, points))
    server, first = world.server, world.server.partition_rounds + 1
    keys = [world.secrets[f"device{which}"] for which in range(SIZE)]
    run = simulate(points, TASK, secrets=keys, detail="reports")
    codes = dict(zip(run.moved.participants.tolist(), run.moved.codes.tolist(), strict=True))
    assert codes
    for number, query in enumerate(server.queries[first - 1 :], start=first):
        assert isinstance(query, ValueQuery)
        expected: dict[tuple[int, int], int] = {}
        for which, point in enumerate(points):
            region = summaries[which].region
            assert region is not None
            state = State(
                phase="finished", round=first - 1, cell=region, code=codes.get(which, 1), moves=int(which in codes),
                answered=first - 1,
            )  # fmt: skip
            report = Participant(TASK, point, keys[which], ALLOW_ALL, plan=server.plan, state=state).receive(query)
            assert isinstance(report, ValueReport)
            expected[region, report.answer] = expected.get((region, report.answer), 0) + 1
        closed = server.closings[number - 1]
        assert isinstance(closed, ValueClosed)
        rows = zip(closed.cells, closed.counts, strict=True)
        assert {(cell, output): count for cell, row in rows for output, count in row} == expected
    assert server.phase == "finished"
    for summary in summaries:
        assert summary.epsilon == 6.0 * (1 + summary.trims) + 2.0
        assert summary.exposure == 6.0 * min(summary.rounds, TASK.max_rounds) + 2.0
        assert len(summary.values) == 2
        assert "Through noise: mean of" in summary.text()


def test_many_agents_on_one_channel_read_every_public_message_once() -> None:
    world = World(FakeServer(capacity=SIZE))
    asyncio.run(run_agents(world, crowd(SIZE)))
    gets = [sent.url for sent in world.network.sent if sent.method == "GET" and "/state" not in sent.url]
    assert len(gets) == len(set(gets))
    polls = sum("/state" in sent.url for sent in world.network.sent)
    assert polls < SIZE + 5 * len(world.server.closings)


# -- a bad network ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_lost_repeated_and_refused_requests_change_nothing(seed: int) -> None:
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE, releases=(MEAN,)), seed=seed)
    fates: list[Any] = ["", "", "lost", "answer-lost", "twice", (503, 3), (429, 1), (502, 0)]
    draw = np.random.default_rng(seed)
    world.network.fate = lambda number, request: fates[draw.integers(len(fates))]
    summaries = asyncio.run(run_agents(world, points))
    assert all(summary.outcome == "finished" for summary in summaries)
    assert one_answer_each(world)
    quiet = World(FakeServer(capacity=SIZE, releases=(MEAN,)), seed=seed)
    asyncio.run(run_agents(quiet, points))
    assert quiet.server.root() == world.server.root()


def test_retry_after_is_obeyed_and_jitter_comes_on_top() -> None:
    world = World(FakeServer())
    world.network.fate = lambda number, request: (503, 40) if number % 2 == 0 else ""
    with world.vault("device") as vault:
        assert asyncio.run(world.agent(vault, (0.3, 0.3)).run()).outcome == "finished"
    refused, again = world.network.sent[0::2], world.network.sent[1::2]
    for first, second in zip(refused, again, strict=True):
        assert (first.url, first.body) == (second.url, second.body)
        assert 40 <= second.time - first.time < 40 + Retry().first


def test_backoff_doubles_under_full_jitter_and_ends_with_the_owners_patience() -> None:
    world = World(FakeServer(), retry=Retry(first=1.0, longest=8.0, patience=100.0))
    world.jitter = lambda: 0.75
    world.network.fate = lambda number, request: "lost"
    with world.vault("device") as vault:
        with pytest.raises(Unreachable, match=r"100 s \(ConnectError\)"):
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert world.clock.slept[:6] == [0.75, 1.5, 3.0, 6.0, 6.0, 6.0]
        assert 90 < world.clock.now <= 100
        world.network.fate = lambda number, request: ""
        assert asyncio.run(world.agent(vault, (0.3, 0.3)).run()).outcome == "finished"


def test_a_poll_that_has_landed_is_not_taken_for_a_new_one() -> None:
    """Found as an endless loop: an agent that got a finished poll never gave the event loop a chance to remove it."""
    world = World(FakeServer())
    channel = world.channel()

    async def twice() -> int:
        await channel.status(world.server.name)
        await channel.status(world.server.name)  # nothing else has run in between
        await channel.aclose()
        return sum("/state" in sent.url for sent in world.network.sent)

    assert asyncio.run(twice()) == 2


def test_polls_follow_the_servers_hint() -> None:
    world = World(FakeServer(capacity=2))
    world.jitter = lambda: 0.5

    async def lonely() -> Summary:
        with world.vault("device") as vault:
            waiting = asyncio.ensure_future(world.agent(vault, (0.3, 0.3)).run())
            while world.clock.now < 30:
                await asyncio.sleep(0)
            world.server.start()
            return await waiting

    asyncio.run(lonely())
    polls = [sent.time for sent in world.network.sent if "/state" in sent.url and sent.time < 30]
    assert len(polls) > 5
    assert set(np.diff(polls[1:]).round(9)) == {2.5}  # poll_after 2, and half of a half of it


# -- crashes ---------------------------------------------------------------------------------------------------------


class DyingDisk(MemoryDisk):
    """A disk on which the device dies before or after its n-th step; the lock of the dead is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.die_at = -1

    def _step(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.die_at:
            raise DeviceDies

    def write(self, path: Path, data: bytes) -> None:
        self._step()
        super().write(path, data)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        self._step()


async def play_with_deaths(
    world: World, points: list[Point], disk: DyingDisk, fate: dict[int, str]
) -> tuple[list[Summary], int]:
    """Device 0 has its own channel and dies as told; it is started again every time. Returns its requests too."""
    requests = 0
    names = {f"device{number}": number for number in range(len(points))}
    secret = b"\x07" * 32
    world.secrets["device0"] = secret

    def count(number: int, request: httpx2.Request) -> str:
        nonlocal requests
        if request.headers.get("device") != "0":
            return ""
        requests += 1
        return fate.get(requests - 1, "")

    world.network.fate = count

    async def immortal() -> Summary:
        while True:
            channel = world.channel(device="0")
            vault: Vault | None = None
            try:
                vault = Vault.open("device0", disk=disk, entropy=lambda size: secret)
                summary = await world.agent(vault, points[0], channel=channel).run()
                assert summary.outcome == "finished"  # else the others would wait for it
                return summary
            except DeviceDies:
                disk.die_at = -1
            finally:
                await channel.aclose()
                if vault is not None:
                    vault.close()

    shared = world.channel()
    vaults = [world.vault(name) for name in names if name != "device0"]
    others = [world.agent(vault, point, channel=shared).run() for vault, point in zip(vaults, points[1:], strict=True)]
    summaries = await asyncio.wait_for(asyncio.gather(immortal(), *others), HANG)
    await shared.aclose()
    return list(summaries), requests


@pytest.mark.parametrize(("crowd_size", "small"), [(TASK.k - 1, True), (TASK.k, False)])
def test_the_owner_is_told_that_a_crowd_is_below_k(crowd_size: int, small: bool) -> None:
    text = Summary(outcome="finished", task=TASK, crowd=crowd_size, rounds=1, epsilon=TASK.epsilon).text()
    assert f"Your crowd: {crowd_size} answered for this region" in text
    assert (f"The crowd of k = {TASK.k} was missed: too few took part, or some dropped out." in text) == small
    assert ("(1 other)" in text) != small  # k = 2


@pytest.mark.parametrize("outcome", ["lost", "cancelled", "refused", "unfinished"])
def test_no_crowd_is_spoken_of_without_a_region(outcome: Outcome) -> None:
    text = Summary(outcome=outcome, task=TASK, rounds=1, epsilon=TASK.epsilon).text()
    assert "What you spent: epsilon = 6 (delta = 0)" in text
    assert "published in a region" not in text


def test_the_owner_is_told_both_losses_by_the_public_trims_and_not_by_the_own_moves() -> None:
    text = Summary(outcome="finished", task=TASK, crowd=9, moves=1, trims=3, rounds=5, epsilon=25.0).text()
    assert "epsilon = 7 (delta = 0) between any two positions inside" in text  # a report of 6 and a value of 1
    assert "at most 25 (delta = 0) for a moved position against any position inside" in text


def crash_world() -> World:
    return World(FakeServer(task=SMALL, capacity=FEW, releases=(MEAN,)))


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_a_device_that_dies_between_any_two_steps_goes_on_where_it_was(every: int) -> None:
    points = crowd(FEW)
    world, disk = crash_world(), DyingDisk()
    expected, requests = asyncio.run(play_with_deaths(world, points, disk, {}))
    root, steps = world.server.root(), disk.steps
    assert expected[0].rounds >= 3
    assert requests > 12
    assert steps > 20
    deaths: list[tuple[int, dict[int, str]]] = [(step, {}) for step in range(steps)]
    deaths += [(-1, {number: kind}) for number in range(requests) for kind in ("die-before", "die-after")]
    for die_at, fate in deaths[::every]:
        world, disk = crash_world(), DyingDisk()
        disk.die_at = die_at
        found, _ = asyncio.run(play_with_deaths(world, points, disk, fate))
        assert world.server.root() == root, (die_at, fate)
        assert found == expected, (die_at, fate)
        assert one_answer_each(world), (die_at, fate)


def test_a_device_that_dies_at_every_request_still_arrives() -> None:
    points = crowd(FEW)
    world, disk = crash_world(), DyingDisk()
    expected, _ = asyncio.run(play_with_deaths(world, points, disk, {}))
    root = world.server.root()
    world, disk = crash_world(), DyingDisk()
    fate = {number: ("die-after", "die-before")[number % 2] for number in range(0, 200, 5)}
    found, requests = asyncio.run(play_with_deaths(world, points, disk, fate))
    assert requests > 20
    assert world.server.root() == root
    assert found == expected
    assert one_answer_each(world)


def test_every_question_is_in_the_vault_before_its_answer_leaves() -> None:
    """Looks into the stored bytes at the moment of every PUT; an agent that saves later must be caught."""

    def unsaved(save_late: bool) -> int:
        world, missing = World(FakeServer(task=SMALL, capacity=1, releases=(MEAN,))), 0
        vault = world.vault("device")
        path, real = vault.path, vault.put
        late: list[Any] = []
        if save_late:  # the planted bug: saved only before the next save

            def put(membership: Any, ledger: Any = None) -> None:
                if late:
                    real(*late.pop())
                late.append((membership, ledger))
                vault.contents = vault.contents.with_membership(membership, ledger)

            vault.put = put  # type: ignore[method-assign]

        def look(number: int, request: httpx2.Request) -> str:
            nonlocal missing
            if request.method == "PUT" and "/reports/" in str(request.url):
                entry = Vault.open(path, disk=_copy(world.disk)).contents.memberships[0]
                body = request.read()
                query = world.server.queries[-1]
                if isinstance(query, type(world.server.queries[0])):
                    digest = hashlib.sha256(world.server.answer("GET", _query_path(request), {}, b"")[1]).digest()
                    assert decode(body, Report).round == query.round
                    missing += entry.state.question != digest
                else:
                    missing += len(entry.released) == 0
            return ""

        world.network.fate = look
        asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        return missing

    assert unsaved(save_late=False) == 0
    assert unsaved(save_late=True) > 0


def _copy(disk: MemoryDisk) -> MemoryDisk:
    copy = MemoryDisk()
    copy.files = dict(disk.files)
    return copy


def _query_path(request: httpx2.Request) -> str:
    return request.url.path.split("/reports/")[0] + "/query"


# -- what the server may say -----------------------------------------------------------------------------------------


def test_a_device_that_was_away_does_not_answer_a_closed_round() -> None:
    world = World(FakeServer(task=SMALL, capacity=2))
    with world.vault("device") as vault:
        world.network.fate = lambda number, request: "die-before" if request.url.path.endswith("/query") else ""
        world.server.expected = 0
        world.server.participants["other"] = ""
        with pytest.raises(DeviceDies):
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        world.server.close()
        world.network.fate = lambda number, request: ""
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert summary.outcome == "lost"
        assert world.network.puts() == {}
        assert "nothing" in summary.text()
        line = vault.contents.ledger.line(SMALL.id)
        assert line is not None
        assert line.settled
        assert vault.contents.ledger.charged("epsilon") == 0


def test_an_answer_that_came_too_late_counts_as_spent() -> None:
    world = World(FakeServer(task=SMALL))

    def slow(number: int, request: httpx2.Request) -> str:
        if "/reports/" in str(request.url):
            world.server.close()
        return ""

    world.network.fate = slow
    world.server.expected = 5
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert (summary.outcome, summary.rounds, summary.epsilon) == ("lost", 1, 8.0)
        assert vault.contents.ledger.charged("exposure") == 8


def test_a_cancelled_campaign_ends_and_settles() -> None:
    world = World(FakeServer(task=SMALL))

    def cancel(number: int, request: httpx2.Request) -> str:
        world.server.cancelled |= "/rounds/" in str(request.url)
        return ""

    world.network.fate = cancel
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert summary.outcome == "cancelled"
        again = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert again == summary


def test_a_finished_device_asks_for_nothing_more() -> None:
    world = World(FakeServer())
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        before = len(world.network.sent)
        assert asyncio.run(world.agent(vault, (0.3, 0.3)).run()) == summary
        assert len(world.network.sent) == before


@pytest.mark.parametrize(
    ("token", "expected", "advice"),
    [("", "bad-token", "administrator"), ("wrong", "bad-token", "administrator"), ("used", "token-used", "new token")],
)
def test_a_bad_token_is_explained_and_the_reservation_taken_back(token: str, expected: str, advice: str) -> None:
    world = World(FakeServer(tokens={"used": "someone", "good": ""}))
    lines: list[str] = []
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), token=token, notify=lines.append).run())
        assert (summary.outcome, summary.token) == ("refused", expected)
        assert advice in summary.text()
        assert lines[0].startswith("Joining task")  # it did not join
        assert vault.contents.memberships == ()
        assert vault.contents.ledger.charged("epsilon") == 0
        assert asyncio.run(world.agent(vault, (0.3, 0.3), token="good").run()).outcome == "finished"


def test_a_wiped_vault_needs_a_new_token_and_is_another_participant() -> None:
    world = World(FakeServer(task=SMALL, capacity=3, tokens={"first": "", "second": ""}))

    async def enrol(token: str) -> Summary:
        with world.vault(f"device{len(world.secrets)}") as vault:
            running = asyncio.ensure_future(world.agent(vault, (0.3, 0.3), token=token).run())
            for _ in range(200):
                await asyncio.sleep(0)
                if running.done():
                    return running.result()
            running.cancel()
            return Summary(outcome="unfinished")

    assert asyncio.run(enrol("first")).outcome == "unfinished"
    wiped = asyncio.run(enrol("first"))
    assert (wiped.outcome, wiped.token) == ("refused", "token-used")
    assert "wiped" in wiped.reason
    assert asyncio.run(enrol("second")).outcome == "unfinished"
    assert len(world.server.participants) == 2


def test_enrolment_after_the_first_round_has_begun_is_refused() -> None:
    world = World(FakeServer(capacity=5))
    world.server.start()
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert (summary.outcome, summary.token) == ("refused", "enrolment-closed")


def test_the_only_enrolling_task_is_found_from_the_servers_url() -> None:
    world = World(FakeServer())
    with world.vault("device") as vault:
        agent = Agent(URL + "/", vault, position=(0.3, 0.3), policy=ALLOW_ALL, channel=world.channel())
        assert asyncio.run(agent.run()).outcome == "finished"
        late = Agent(URL, vault, position=(0.3, 0.3), policy=ALLOW_ALL, channel=world.channel())
        with pytest.raises(InvalidInput, match="one task that enrols; got none"):
            asyncio.run(late.run())


# -- what the owner allows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "token"),
    [
        (msgspec.structs.replace(ALLOW_ALL, max_epsilon=54.9), "over-budget"),  # 6 x (1 + 8) and 1 for the value
        (msgspec.structs.replace(ALLOW_ALL, min_k=3), "small-crowd"),
        (msgspec.structs.replace(ALLOW_ALL, min_side=(112.0,)), "small-cell"),  # who enrols is known to be in the box
    ],
)
def test_a_task_that_the_policy_forbids_is_not_joined(policy: Policy, token: str) -> None:
    world = World(FakeServer(releases=(MEAN,)))
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), policy=policy).run())
        assert (summary.outcome, summary.token) == ("refused", token)
        assert {sent.method for sent in world.network.sent} == {"GET"}
        assert vault.contents.memberships == ()
        allowed = world.agent(vault, (0.3, 0.3), policy=msgspec.structs.replace(ALLOW_ALL, max_epsilon=55.0))
        assert asyncio.run(allowed.run()).outcome == "finished"


def test_the_caps_of_the_vault_hold_over_all_tasks() -> None:
    world = World(FakeServer(task=SMALL))
    with world.vault("device") as vault:
        vault.set_caps(max_epsilon=71, max_exposure=None)
        with pytest.raises(BudgetExceeded, match="to 72; the cap of this vault is 71") as refused:
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert f"epsilon (delta = 0; for {MOVED}, or" in str(refused.value)  # 8 inside, 72 for a moved position
        vault.set_caps(max_epsilon=72, max_exposure=7)
        with pytest.raises(BudgetExceeded, match="your cap leaves 7"):
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert {sent.method for sent in world.network.sent} == {"GET"}
        vault.set_caps(max_epsilon=72, max_exposure=None)
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert vault.contents.ledger.left("epsilon") == 72 - 8 * (1 + summary.trims)


def test_a_position_outside_the_domain_is_refused_before_anything_is_sent() -> None:
    world = World(FakeServer())
    with world.vault("device") as vault:
        for position in [(0.3, 1.5), (float("nan"), 0.0)]:
            with pytest.raises(OutsideDomain):
                asyncio.run(world.agent(vault, position).run())
        with pytest.raises(InvalidInput, match="shape"):
            asyncio.run(world.agent(vault, (0.3,)).run())
        assert {sent.method for sent in world.network.sent} == {"GET"}
        assert vault.contents.memberships == ()


@pytest.mark.parametrize(("later", "end"), [((), 30), ((20.0,), 30), ((60.0,), 60)])
def test_the_owners_smallest_cell_holds_after_a_restart(
    later: tuple[float, ...], end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that joined with a limit never names a smaller cell, if it is started again without the limit or not."""
    world, points = World(FakeServer(capacity=SIZE)), crowd(SIZE)
    with world.vault("device0") as vault, monkeypatch.context() as patched:
        patched.setattr(Agent, "_enrol", dies)
        first = world.agent(vault, points[0], policy=msgspec.structs.replace(ALLOW_ALL, min_side=(30.0,)))
        with pytest.raises(DeviceDies):
            asyncio.run(first.run())
    again, others = (msgspec.structs.replace(ALLOW_ALL, min_side=sides) for sides in (later, (float(end),)))
    ends = run_agents(world, points, policies=[again] + [others] * (SIZE - 1))
    summaries = asyncio.run(asyncio.wait_for(ends, 60))  # one that named a smaller cell would wait for the others
    assert (summaries[0].outcome, summaries[0].token) == ("refused", "small-cell")
    name = pseudonym(world.secrets["device0"], TASK.id).hex()
    sent = [body for url, bodies in world.network.puts().items() if url.endswith(name) for body in bodies]
    named = [decode(body, Report).cell for body in sent]
    assert TASK.hierarchy.sides(named).min() >= end


async def dies(*_: object) -> None:
    raise DeviceDies


FARE = Release.ask("mean", "own:fare", epsilon=1.5, parameters=[0, 80])


def test_own_values_leave_through_noise_only_and_are_booked() -> None:
    points, fares = crowd(SIZE), np.random.default_rng(4).uniform(0, 80, SIZE).tolist()
    world = World(FakeServer(capacity=SIZE, releases=(MEAN, FARE)))
    summaries = asyncio.run(run_agents(world, points, fares))
    secrets = [world.secrets[f"device{number}"] for number in range(SIZE)]
    run = simulate(np.array(points), TASK, secrets=secrets, detail="reports")
    rounds = play_values(run, points, world.server.plan, secrets, values=fares)
    assert world.server.root() == transcript_root([*run.events, *value_events(run, world.server.plan, rounds)])
    for summary in summaries:
        assert summary.epsilon == 6.0 * (1 + summary.trims) + 2.5
        assert "region, with any two values of fare from 0 to 80" in summary.text()
        assert "mean of fare (epsilon = 1.5, delta = 0 between any two values of fare from 0 to 80)" in summary.text()


@pytest.mark.parametrize(
    ("releases", "value", "why"),
    [
        ((FARE,), None, "asks for fare from 0 to 80: give your value"),
        ((FARE,), 80.1, "outside the public range, fare from 0 to 80"),
        ((FARE,), float("nan"), "outside the public range"),
        ((MEAN,), 3.0, "asks for no value of your own"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_sent(
    releases: tuple[Release, ...], value: float | None, why: str
) -> None:
    world = World(FakeServer(releases=releases))
    with world.vault("device") as vault:
        with pytest.raises(InvalidInput, match=why):
            asyncio.run(world.agent(vault, (0.3, 0.3), value=value).run())
        assert {sent.method for sent in world.network.sent} == {"GET"}
        assert vault.contents.memberships == ()


def test_a_value_is_fixed_for_a_task_and_a_restart_needs_the_same() -> None:
    world = World(FakeServer(releases=(FARE,)))
    with world.vault("device") as vault:
        asyncio.run(world.agent(vault, (0.3, 0.3), value=12.0).run())
        for other in (12.5, None):
            with pytest.raises(InvalidInput, match="another position or value"):
                asyncio.run(world.agent(vault, (0.3, 0.3), value=other).run())
        assert asyncio.run(world.agent(vault, (0.3, 0.3), value=12.0).run()).outcome == "finished"
        assert [own.value for own in vault.contents.own()] == [12.0]


def test_what_is_sent_and_when_does_not_depend_on_the_value() -> None:
    """All but the noisy answer: the same requests, in the same order, of the same size."""
    seen = []
    for value in (0.0, 37.0, 80.0):
        world = World(FakeServer(releases=(FARE,)))
        world.secrets["device"] = b"s" * 32
        with world.vault("device") as vault:
            asyncio.run(world.agent(vault, (0.3, 0.3), value=value).run())
        seen.append([(sent.method, sent.url, len(sent.body)) for sent in world.network.sent])
    assert seen[0] == seen[1] == seen[2]


def test_the_position_is_fixed_for_a_task() -> None:
    world = World(FakeServer())
    with world.vault("device") as vault:
        asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        with pytest.raises(InvalidInput, match="another position"):
            asyncio.run(world.agent(vault, (0.3, 0.4)).run())


# -- what leaves -----------------------------------------------------------------------------------------------------


def forms(number: float, code: int) -> list[bytes]:
    """Ways in which a coordinate, or the deepest cell, could be written."""
    text = f"{number:.17g}"
    packed = [struct.pack(kind, number) for kind in ("<d", ">d", "<f", ">f")]
    cell = [code.to_bytes(8, "big"), code.to_bytes(8, "little"), str(code).encode(), f"{code:x}".encode()]
    return [*packed, text[:8].encode(), packed[1].hex().encode(), *cell]


def test_the_position_is_in_no_request() -> None:
    task = msgspec.structs.replace(TASK, hierarchy=BinaryTree(TASK.box, 40), max_rounds=40)
    world = World(FakeServer(task=task, capacity=SIZE, releases=(MEAN,)))
    points: list[Point] = [(0.001 + 0.9 * x, 0.001 + 0.9 * y) for x, y in crowd(SIZE)]
    asyncio.run(run_agents(world, points))
    codes = task.hierarchy.codes(np.array(points))
    wire = b"\n".join(sent.url.encode() + sent.headers + sent.body for sent in world.network.sent)
    stored = b"".join(world.disk.files.values())
    for point, code in zip(points, codes.tolist(), strict=True):
        for number in point:
            assert struct.pack(">d", number) in stored  # the search finds it where it is
            for form in forms(number, code):
                assert form not in wire


def timeline(position: tuple[float, ...]) -> tuple[list[tuple[str, str, bytes, float, int]], Summary]:
    """Everything but the bodies that a device with this position sends, and when."""
    world = World(FakeServer(task=SMALL, capacity=FEW, releases=(MEAN,)))
    draw = np.random.default_rng(5)
    fates: list[Any] = ["", "", "", "lost", "answer-lost", (503, 2)]
    world.network.fate = lambda number, request: fates[draw.integers(len(fates))]
    points = [position, *crowd(FEW)[1:]]

    async def all_at_once() -> list[Summary]:
        vaults = [world.vault(f"device{number}") for number in range(FEW)]
        agents = [world.agent(vault, point, spread=1.0) for vault, point in zip(vaults, points, strict=True)]
        return await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), HANG)

    summaries = asyncio.run(all_at_once())
    sent = [(s.method, s.url, s.headers, s.time, len(s.body)) for s in world.network.sent]
    return sent, summaries[0]


def test_what_is_sent_when_does_not_depend_on_the_place_inside_the_region() -> None:
    lower, upper = (0.01, 0.01), (0.24, 0.49)
    first, summary = timeline(lower)
    region = summary.region
    assert region is not None
    boxes = SMALL.hierarchy.boxes(np.array([region], dtype=np.uint64))[0]
    assert (boxes[0] <= lower).all()
    assert (upper < boxes[1]).all()
    second, other = timeline(upper)
    assert other.region == region
    assert first == second


def test_answers_are_sent_late_by_jitter_so_that_their_time_does_not_tell_how_long_the_device_computed() -> None:
    """Following a verdict takes a moved device a little longer; the wait hides it."""

    def waits(spread: float) -> list[float]:
        world = World(FakeServer(task=SMALL, capacity=1, releases=(MEAN,)))
        world.jitter = lambda: 0.5
        asyncio.run(world.agent(world.vault("device"), (0.3, 0.3), spread=spread).run())
        times = [(sent.time, "/reports/" in sent.url) for sent in world.network.sent]
        return [now - before for (before, _), (now, answer) in pairwise(times) if answer]

    assert waits(1.0) == [0.5] * len(waits(1.0))
    assert len(waits(1.0)) >= 2
    assert set(waits(0.0)) == {0.0}
