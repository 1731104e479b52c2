"""An agent keeps a device's word over a bad network and through crashes, and follows the campaign to its end."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal import BinaryTree, Policy
from semilocal.device.agent import Agent
from semilocal.device.channel import Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.summary import Outcome, Summary
from semilocal.device.vault import Vault, unpack
from semilocal.errors import BudgetExceeded, InvalidInput, OutsideDomain, Unreachable
from semilocal.protocol.keys import pseudonym
from semilocal.protocol.messages import Report, decode, decode_report
from semilocal.protocol.participant import Participant
from semilocal.protocol.plan import Release
from semilocal.testing import ALLOW_ALL, play
from semilocal.transcript.checkpoints import transcript_root
from tests.helpers import HANG
from tests.helpers.fake_server import (
    CHAIN,
    MEAN,
    SMALL,
    TASK,
    URL,
    DeviceDies,
    FakeServer,
    Point,
    World,
    crowd,
    run_agents,
)

SIZE = 24
FEW = 10


def one_answer_each(world: World) -> bool:
    return all(len(bodies) == 1 for bodies in world.network.puts().values())


def vault_reports(world: World) -> list[int]:
    """Rounds that device 0 of :func:`play_with_deaths` reported in."""
    name = pseudonym(b"\x07" * 32, world.server.task.id).hex()
    return [number for number, who in world.server.stored if who == name]


# -- the whole way ---------------------------------------------------------------------------------------------------


def test_agents_over_http_give_the_transcript_of_participants_in_a_loop() -> None:
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE))
    summaries = asyncio.run(run_agents(world, points))
    secrets = [world.secrets[f"device{number}"] for number in range(SIZE)]
    people = [Participant(TASK, point, key, ALLOW_ALL) for point, key in zip(points, secrets, strict=True)]
    played = play(TASK, people, chain=CHAIN)
    assert world.server.root() == transcript_root(played.events)
    assert [summary.region for summary in summaries] == [one.region for one in people]
    assert [summary.members for summary in summaries] == [one.members for one in people]
    assert [summary.lines for summary in summaries] == [one.lines for one in people]
    assert len(world.server.closings) > 3
    assert len({summary.region for summary in summaries}) > 1
    for summary, one in zip(summaries, people, strict=True):
        assert summary.outcome == "finished"
        assert summary.epsilon == TASK.randomizer.epsilon * one.inside == one.spent <= 6.0
        inside = f"{len(summary.lines)} of them" if summary.lines else "about lines outside"
        for words in ("Your region: lat [", "at least 2 participants", "epsilon =", "delta =", "transcript's root"):
            assert words in summary.text()
        assert not summary.answered or len(summary.lines) == summary.answered or inside in summary.text()
        assert bool(summary.lines) == ("you answered about here: between lat" in summary.text())
    assert {summary.checkpoint for summary in summaries} == {world.server.root()}


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


@pytest.mark.parametrize("outcome", ["cancelled", "refused", "unfinished"])
def test_without_a_report_nothing_is_spent(outcome: Outcome) -> None:
    text = Summary(outcome=outcome, task=TASK).text()
    assert "What you spent: nothing. No report has left this device." in text
    assert "participants" not in text


def test_the_owner_sees_the_lines_it_answered_about_and_the_odds() -> None:
    region = TASK.hierarchy.ends
    middle = sum(region) // 2
    text = Summary(
        outcome="finished", task=TASK, region=region, members=9, answered=5, lines=(middle,), epsilon=3.0
    ).text()
    assert "The line you answered about here: between lat [0, 0.5] × lon [0, 1] and lat [0.5, 1] × lon [0, 1]." in text
    assert "You answered 5 questions. All but 1 of them are about lines outside of your region" in text
    assert "What you spent: epsilon = 3 (delta = 0) between any two places of one's region" in text


def crash_world() -> World:
    return World(FakeServer(task=SMALL, capacity=FEW, releases=(MEAN,)))


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_a_device_that_dies_between_any_two_steps_goes_on_where_it_was(every: int) -> None:
    points = crowd(FEW)
    world, disk = crash_world(), DyingDisk()
    expected, requests = asyncio.run(play_with_deaths(world, points, disk, {}))
    root, steps = world.server.root(), disk.steps
    assert len(vault_reports(world)) >= 3
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


def test_every_question_is_in_the_vault_before_its_answer_leaves() -> None:
    """Looks into the stored bytes at the moment of every PUT; an agent that saves later must be caught."""

    def unsaved(save_late: bool) -> int:
        world, missing = World(FakeServer(task=SMALL, capacity=1, releases=(MEAN,))), 0
        vault = world.vault("device")
        path, real = vault.path, vault.put
        late: list[Any] = []
        if save_late:  # the planted bug: saved only before the next save

            def put(entry: Any, ledger: Any = None) -> None:
                if late:
                    real(*late.pop())
                late.append((entry, ledger))
                vault.contents = vault.contents.with_entry(entry, ledger)

            vault.put = put  # type: ignore[method-assign]

        def look(number: int, request: httpx2.Request) -> str:
            nonlocal missing
            if request.method == "PUT" and "/reports/" in str(request.url):
                entry = unpack(world.disk.files[path], path).memberships[0]
                report = decode_report(request.read())
                if isinstance(report, Report):
                    query = request.url.path.split("/reports/")[0] + "/query"
                    digest = hashlib.sha256(world.server.answer("GET", query, {}, b"")[1]).digest()
                    missing += entry.state.question != digest
                    missing += report.answer is not None and entry.state.book[-1:] == ()
                else:
                    missing += len(entry.state.values) == 0
            return ""

        world.network.fate = look
        asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        return missing

    assert unsaved(save_late=False) == 0
    assert unsaved(save_late=True) > 0


# -- what the server may say -----------------------------------------------------------------------------------------


def test_a_device_that_was_away_does_not_answer_a_closed_round_and_goes_on() -> None:
    """It dies at the query of round 1 and comes back when two rounds are closed: it is late, then."""
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE))

    async def scene() -> list[Summary]:
        channel = world.channel()
        vaults = [world.vault(f"device{number}") for number in range(SIZE)]
        agents = [world.agent(vault, point, channel=channel) for vault, point in zip(vaults, points, strict=True)]
        agents[0] = world.agent(vaults[0], points[0], channel=world.channel(away="yes"))
        world.network.fate = lambda number, request: (
            "die-before" if "away" in request.headers and request.url.path.endswith("/query") else ""
        )
        running = [asyncio.ensure_future(agent.run()) for agent in agents]
        with pytest.raises(DeviceDies):
            await running[0]
        while len(world.server.stored) < SIZE - 1:
            await asyncio.sleep(0)
        world.server.close()  # the deadline of round 1
        while len(world.server.closings) < 2:
            await asyncio.sleep(0)
        world.server.expected = 10**9  # round 3 stays open until it is back
        running[0] = asyncio.ensure_future(world.agent(vaults[0], points[0]).run())
        name = pseudonym(world.secrets["device0"], TASK.id).hex()
        while (3, name) not in world.server.stored:
            await asyncio.sleep(0)
        world.server.expected = None
        world.server.close_if_complete()
        return list(await asyncio.wait_for(asyncio.gather(*running), HANG))

    summaries = asyncio.run(scene())
    assert {summary.outcome for summary in summaries} == {"finished"}
    name = pseudonym(world.secrets["device0"], TASK.id)
    rounds = sorted(number for number, who in world.server.stored if who == name.hex())
    assert rounds[0] == 3
    assert summaries[0].late
    assert "you not counted" in summaries[0].text()
    assert world.server.curator.home[name] == summaries[0].region
    assert one_answer_each(world)


def test_an_answer_that_came_too_late_is_booked_and_its_sender_keeps_its_region() -> None:
    """Every answer of device 0 comes after the deadline. What it sent was seen, so it counts as spent."""
    points = crowd(FEW)
    world = World(FakeServer(task=SMALL, capacity=FEW))
    name: list[str] = []

    def slow(number: int, request: httpx2.Request) -> str:
        if "/reports/" in str(request.url) and str(request.url).endswith(name[0]):
            report = decode_report(request.read())
            if isinstance(report, Report) and report.answer is not None and report.round == world.server.open_round:
                world.server.close()
        return ""

    world.network.fate = slow
    world.secrets["device0"] = b"\x07" * 32
    name.append(pseudonym(world.secrets["device0"], SMALL.id).hex())
    summaries = asyncio.run(run_agents(world, points))
    assert summaries[0].outcome in ("finished", "stopped")
    assert summaries[0].answered > 0
    assert not any(who == name[0] and decode_report(body).answer is not None
                   for (_, who), body in world.server.stored.items())  # fmt: skip
    assert summaries[0].epsilon == SMALL.randomizer.epsilon * len(summaries[0].lines)
    assert {summary.outcome for summary in summaries[1:]} == {"finished"}
    entry = world.vault("device0").contents.membership(SMALL.id)
    assert entry is not None
    assert list(entry.reported) == vault_reports(world)  # a check of the log does not accuse an honest server


def test_a_device_whose_announcement_got_lost_gives_no_value_and_is_refused_nothing() -> None:
    """Device 0 announces its parts too late, always. The log does not have it where it is: a value would be a 422."""
    world = World(FakeServer(task=SMALL, capacity=FEW, releases=(MEAN,)))
    world.secrets["device0"] = b"\x07" * 32
    name = pseudonym(world.secrets["device0"], SMALL.id).hex()
    lost = []

    def slow(number: int, request: httpx2.Request) -> str:
        if str(request.url).endswith(f"/reports/{name}"):
            report = decode_report(request.read())
            if isinstance(report, Report) and report.answer is None and report.round == world.server.open_round > 1:
                if world.server.awaited() < world.server.waits_for() - 1:
                    return "lost"  # until all others have reported
                lost.append(report.round)
                world.server.close()
        return ""

    world.network.fate = slow
    summaries = asyncio.run(run_agents(world, crowd(FEW)))
    assert lost
    assert (summaries[0].token, summaries[0].given) == ("", 0.0)
    values = {who for (number, who) in world.server.stored if number > world.server.partition_rounds}
    assert len(values) == FEW - 1
    assert name not in values
    assert {summary.outcome for summary in summaries[1:]} == {"finished"}


def test_who_comes_too_late_for_the_roster_is_told_that_it_is_not_counted() -> None:
    """The first report of device 0 comes after the deadline of round 1; it announces itself later."""
    world = World(FakeServer(task=SMALL, capacity=FEW))
    world.secrets["device0"] = b"\x07" * 32
    name = pseudonym(b"\x07" * 32, SMALL.id)

    def slow(number: int, request: httpx2.Request) -> str:
        if "/rounds/1/reports/" + name.hex() not in str(request.url) or world.server.open_round > 1:
            return ""
        if len(world.server.stored) < FEW - 1:
            return "lost"  # until all others have reported
        world.server.close()
        return ""

    world.network.fate = slow
    summaries = asyncio.run(run_agents(world, crowd(FEW)))
    assert (1, name.hex()) not in world.server.stored
    assert summaries[0].late
    assert "you not counted" in summaries[0].text()


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
        assert vault.contents.ledger.charged == 0
        assert asyncio.run(world.agent(vault, (0.3, 0.3), token="good").run()).outcome == "finished"


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
        (msgspec.structs.replace(ALLOW_ALL, max_epsilon=6.9), "over-budget"),  # 6 for the map and 1 for the value
        (msgspec.structs.replace(ALLOW_ALL, min_k=3), "small-crowd"),
        (msgspec.structs.replace(ALLOW_ALL, min_side=(112.0,)), "small-region"),  # who enrols is known to be in the box
    ],
)
def test_a_task_that_the_policy_forbids_is_not_joined(policy: Policy, token: str) -> None:
    world = World(FakeServer(releases=(MEAN,)))
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), policy=policy).run())
        assert (summary.outcome, summary.token) == ("refused", token)
        assert {sent.method for sent in world.network.sent} == {"GET"}
        assert vault.contents.memberships == ()
        allowed = world.agent(vault, (0.3, 0.3), policy=msgspec.structs.replace(ALLOW_ALL, max_epsilon=7.0))
        assert asyncio.run(allowed.run()).outcome == "finished"


def test_the_cap_of_the_vault_holds_over_all_tasks() -> None:
    world = World(FakeServer(task=SMALL))
    with world.vault("device") as vault:
        vault.set_cap(7)
        with pytest.raises(BudgetExceeded, match="to 8; the cap of this vault is 7") as refused:
            asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert "between any two places of one's region" in str(refused.value)
        assert {sent.method for sent in world.network.sent} == {"GET"}
        vault.set_cap(8)
        summary = asyncio.run(world.agent(vault, (0.3, 0.3)).run())
        assert vault.contents.ledger.left == 8 - Fraction(summary.epsilon)


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


@pytest.mark.parametrize(("later", "end"), [((), 60), ((20.0,), 60), ((80.0,), 80)])
def test_the_owners_smallest_side_holds_after_a_restart(
    later: tuple[float, ...], end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that joined with a limit names no smaller region, if it is started again without the limit or not."""
    world, points = World(FakeServer(capacity=SIZE)), crowd(SIZE)
    with world.vault("device0") as vault, monkeypatch.context() as patched:
        patched.setattr(Agent, "_enrol", dies)
        first = world.agent(vault, points[0], policy=msgspec.structs.replace(ALLOW_ALL, min_side=(60.0,)))
        with pytest.raises(DeviceDies):
            asyncio.run(first.run())
    again = msgspec.structs.replace(ALLOW_ALL, min_side=later)
    summaries = asyncio.run(run_agents(world, points, policies=[again] + [ALLOW_ALL] * (SIZE - 1)))
    assert summaries[0].outcome == "stopped"
    assert {summary.outcome for summary in summaries[1:]} == {"finished"}
    assert len({summary.region for summary in summaries[1:]}) > 1
    assert "small-region" in summaries[0].reason
    assert summaries[0].region is not None
    name = pseudonym(world.secrets["device0"], TASK.id).hex()
    sent = [body for url, bodies in world.network.puts().items() if url.endswith(name) for body in bodies]
    named = np.array([decode(body, Report).region for body in sent], dtype=np.uint64)
    assert TASK.hierarchy.interval_sides(*named.T).min() >= end


async def dies(*_: object) -> None:
    raise DeviceDies


FARE = Release.ask("mean", "own:fare", epsilon=1.5, parameters=[0, 80])


def test_own_values_leave_through_noise_only_and_are_booked() -> None:
    points, fares = crowd(SIZE), np.random.default_rng(4).uniform(0, 80, SIZE).tolist()
    world = World(FakeServer(capacity=SIZE, releases=(MEAN, FARE)))
    summaries = asyncio.run(run_agents(world, points, fares))
    for summary in summaries:
        assert summary.epsilon == TASK.randomizer.epsilon * len(summary.lines) + 2.5
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


def test_position_and_value_are_fixed_for_a_task_and_a_finished_device_asks_for_nothing_more() -> None:
    world = World(FakeServer(releases=(FARE,)))
    with world.vault("device") as vault:
        summary = asyncio.run(world.agent(vault, (0.3, 0.3), value=12.0).run())
        before = len(world.network.sent)
        for place, other in (((0.3, 0.3), 12.5), ((0.3, 0.3), None), ((0.3, 0.4), 12.0)):
            with pytest.raises(InvalidInput, match="another position or value"):
                asyncio.run(world.agent(vault, place, value=other).run())
        assert asyncio.run(world.agent(vault, (0.3, 0.3), value=12.0).run()) == summary
        assert len(world.network.sent) == before
        assert [entry.value for entry in vault.contents.memberships] == [12.0]


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


# -- what leaves -----------------------------------------------------------------------------------------------------


def forms(number: float, code: int) -> list[bytes]:
    """Ways in which a coordinate, or the deepest cell, could be written."""
    text = f"{number:.17g}"
    packed = [struct.pack(kind, number) for kind in ("<d", ">d", "<f", ">f")]
    cell = [code.to_bytes(8, "big"), code.to_bytes(8, "little"), str(code).encode(), f"{code:x}".encode()]
    return [*packed, text[:8].encode(), packed[1].hex().encode(), *cell]


def test_the_position_is_in_no_request() -> None:
    task = msgspec.structs.replace(TASK, hierarchy=BinaryTree(TASK.box, 40))
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
    first, summary = timeline((0.01, 0.01))
    assert summary.region is not None
    lower, upper = summary.region
    ends = np.array([lower, upper - 1], dtype=np.uint64)
    for place in SMALL.hierarchy.middles(ends).tolist():
        second, other = timeline(tuple(place))
        assert other.region == summary.region
        assert first == second


def test_answers_are_sent_late_by_jitter_so_that_their_time_does_not_tell_how_long_the_device_computed() -> None:
    """Following the log takes a device in a large region a little longer; the wait hides it."""

    def waits(spread: float) -> list[float]:
        world = World(FakeServer(task=SMALL, capacity=1, releases=(MEAN,)))
        world.jitter = lambda: 0.5
        asyncio.run(world.agent(world.vault("device"), (0.3, 0.3), spread=spread).run())
        times = [(sent.time, "/reports/" in sent.url) for sent in world.network.sent]
        return [now - before for (before, _), (now, answer) in pairwise(times) if answer]

    assert waits(1.0) == [0.5] * len(waits(1.0))
    assert len(waits(1.0)) >= 2
    assert set(waits(0.0)) == {0.0}
