"""A device checks the seals of a task that pins a key: signature, chain, round. A bad one stops it."""

from __future__ import annotations

import asyncio
import hashlib
from fractions import Fraction

import httpx2
import msgspec
import pytest

from semilocal import Task
from semilocal.device.summary import Summary
from semilocal.protocol.messages import Seal
from semilocal.transcript.checkpoints import public_key, seal_round
from tests.helpers.fake_server import BOX, CHAIN, MEAN, SMALL, DeviceDies, FakeServer, World, crowd, refusal, run_agents

KEY, OTHER = hashlib.sha256(b"the server").digest(), hashlib.sha256(b"another one").digest()
SIGNED = Task.build(
    BOX, epsilon=8.0, delta=0.4, k=1, max_depth=6, max_rounds=200, chain=CHAIN.end, server_key=public_key(KEY)
)
SIZE = 12


class Sealing(FakeServer):
    """Shows another seal for one round."""

    bad_round, forge = 0, staticmethod(lambda seals, number: seals[number - 1])

    def seals(self) -> list[Seal]:
        seals = super().seals()
        if len(seals) >= self.bad_round > 0:
            seals[self.bad_round - 1] = self.forge(seals, self.bad_round)
        return seals


def other_key(seals: list[Seal], number: int) -> Seal:
    head = seals[number - 2].head if number > 1 else SIGNED.id
    return seal_round(head, seals[number - 1].checkpoint, key=OTHER)


def unsigned(seals: list[Seal], number: int) -> Seal:
    return msgspec.structs.replace(seals[number - 1], signature=b"")


def other_history(seals: list[Seal], number: int) -> Seal:
    """Signed with the right key, but it does not continue what was shown before."""
    return seal_round(hashlib.sha256(b"elsewhere").digest(), seals[number - 1].checkpoint, key=KEY)


def other_round(seals: list[Seal], number: int) -> Seal:
    point = msgspec.structs.replace(seals[number - 1].checkpoint, round=number + 1)
    return seal_round(seals[number - 2].head if number > 1 else SIGNED.id, point, key=KEY)


def other_task(seals: list[Seal], number: int) -> Seal:
    point = msgspec.structs.replace(seals[number - 1].checkpoint, task=bytes(32))
    return seal_round(seals[number - 2].head if number > 1 else SIGNED.id, point, key=KEY)


FORGERIES = {
    "bad-signature": other_key, "not-signed": unsigned, "wrong-chain": other_history, "wrong-seal": other_round,
    "wrong-seal ": other_task,
}  # fmt: skip


def play(server: FakeServer) -> tuple[World, list[Summary]]:
    world = World(server)
    return world, asyncio.run(run_agents(world, crowd(SIZE)))


def test_good_seals_are_followed_and_the_last_root_is_pinned() -> None:
    world, summaries = play(FakeServer(SIGNED, releases=(MEAN,), capacity=SIZE, signing_key=KEY))
    assert {summary.outcome for summary in summaries} == {"finished"}
    seals = world.server.seals()
    with world.vault("device0") as vault:
        entry = vault.contents.memberships[0]
        last = seals[entry.seals.round - 1]
        assert entry.seals.round == len(entry.closings) == len(seals)
        assert (entry.seals.head, entry.checkpoint) == (last.head, last.checkpoint.root)
    asked = [sent.url for sent in world.network.sent]
    assert len([url for url in asked if url.endswith("/rounds/1/seal")]) == 1  # shared by all devices of a process


@pytest.mark.parametrize("token", FORGERIES)
@pytest.mark.parametrize("number", [1, 2])
def test_a_bad_seal_stops_the_device_before_its_next_answer(token: str, number: int) -> None:
    server = Sealing(SIGNED, capacity=SIZE, signing_key=KEY)
    server.bad_round, server.forge = number, FORGERIES[token]
    world, summaries = play(server)
    assert {(summary.outcome, summary.token) for summary in summaries} == {("refused", token.strip())}
    assert not [url for url in world.network.puts() if f"/rounds/{number + 1}/" in url]
    for place in range(SIZE):
        with world.vault(f"device{place}") as vault:
            line = vault.contents.ledger.line(SIGNED.id)
            assert line is not None
            assert Fraction(line.spent) <= SIGNED.epsilon
            assert len(vault.contents.memberships[0].closings) <= number - 1  # the closing was not followed


def test_a_server_that_pins_a_key_and_never_signs_is_refused() -> None:
    _, summaries = play(FakeServer(SIGNED, capacity=SIZE))
    assert {(summary.outcome, summary.token) for summary in summaries} == {("refused", "not-signed")}


def test_a_seal_that_is_late_is_waited_for() -> None:
    world = World(FakeServer(SIGNED, signing_key=KEY))
    late = iter(range(5))

    def fate(number: int, request: httpx2.Request) -> object:
        seal = str(request.url).endswith("/rounds/1/seal")
        return refusal(404, "not-closed-yet") if seal and next(late, None) is not None else ""

    world.network.fate = fate
    with world.vault("device") as vault:
        assert asyncio.run(world.agent(vault, (0.3, 0.3)).run()).outcome == "finished"
    assert next(late, None) is None


def test_a_task_without_a_key_needs_no_seals() -> None:
    world, summaries = play(FakeServer(SMALL, capacity=SIZE))
    assert {summary.outcome for summary in summaries} == {"finished"}
    assert not [sent.url for sent in world.network.sent if sent.url.endswith("/seal")]


def test_after_a_restart_the_chain_goes_on_where_it_was() -> None:
    """All devices die at the query of round 4; what they had followed when they last reported is in their vaults."""
    world = World(FakeServer(SIGNED, signing_key=KEY, capacity=SIZE))
    world.network.fate = lambda number, request: "die-before" if "/rounds/4/query" in str(request.url) else ""
    with pytest.raises(DeviceDies):
        asyncio.run(run_agents(world, crowd(SIZE)))
    with world.vault("device0") as vault:
        entry = vault.contents.memberships[0]
        assert 0 < entry.seals.round == len(entry.closings) <= 3
    world.network.fate = lambda number, request: ""
    assert {summary.outcome for summary in asyncio.run(run_agents(world, crowd(SIZE)))} == {"finished"}
    with world.vault("device0") as vault:
        entry = vault.contents.memberships[0]
        assert entry.seals.head == world.server.seals()[-1].head
        assert entry.seals.round == len(world.server.closings)
