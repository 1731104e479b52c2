"""A vault belongs to the server it enrolled at: another address or another signing key needs the owner's word."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from semilocal import Task
from semilocal.device.agent import Agent
from semilocal.device.summary import Summary
from semilocal.device.vault import Vault
from semilocal.errors import InvalidInput
from semilocal.testing import ALLOW_ALL
from semilocal.transcript.checkpoints import public_key
from tests.helpers import HANG
from tests.helpers.fake_server import BOX, CHAIN, URL, DeviceDies, FakeServer, World

KEY, OTHER = hashlib.sha256(b"the server").digest(), hashlib.sha256(b"another one").digest()


def task(k: int, key: bytes | None) -> Task:
    """A task of its own for every k."""
    signer = b"" if key is None else public_key(key)
    return Task.build(BOX, epsilon=8.0, delta=0.4, k=k, max_depth=4, max_rounds=200, chain=CHAIN.end, server_key=signer)


def join(vault: Vault, k: int, key: bytes | None, *, url: str = URL, new_server: bool = False) -> tuple[World, Summary]:
    """Join and finish a task of a server at an address."""
    world = World(FakeServer(task(k, key), signing_key=key))
    address = f"{url}/tasks/{world.server.name}"
    agent = Agent(address, vault, position=(0.3, 0.3), policy=ALLOW_ALL, channel=world.channel(), new_server=new_server)
    return world, asyncio.run(asyncio.wait_for(agent.run(), HANG))


@pytest.fixture
def vault() -> Vault:
    """Of a device that took part in one task at ``http://server`` with the first key."""
    opened = World(FakeServer()).vault("device")
    assert join(opened, 1, KEY)[1].outcome == "finished"
    return opened


def test_the_same_server_with_the_same_key_is_joined_without_a_word(vault: Vault) -> None:
    assert join(vault, 2, KEY)[1].outcome == "finished"
    assert join(vault, 3, KEY, url="http://SERVER:80/")[1].outcome == "finished"
    assert len(vault.contents.memberships) == 3


@pytest.mark.parametrize(
    ("key", "url", "words"),
    [
        (KEY, "http://elsewhere", "http://elsewhere is not the server"),
        (KEY, "https://server", "https://server is not the server"),
        (KEY, "http://server:8080", "http://server:8080 is not the server"),
        (OTHER, URL, "signs with another key"),
        (None, URL, "is not signed"),
    ],
)
def test_another_address_or_key_needs_the_owners_word(vault: Vault, key: bytes | None, url: str, words: str) -> None:
    before = vault.contents
    with pytest.raises(InvalidInput, match=words) as refused:
        join(vault, 2, key, url=url)
    assert "--new-server" in str(refused.value)
    assert vault.contents == before  # nothing reserved, nothing enrolled
    assert join(vault, 2, key, url=url, new_server=True)[1].outcome == "finished"
    assert join(vault, 3, key, url=url)[1].outcome == "finished"  # said once, known from then on


def test_nothing_but_the_task_is_asked_of_a_server_that_the_vault_does_not_know(vault: Vault) -> None:
    world = World(FakeServer(task(2, OTHER), signing_key=OTHER))
    with pytest.raises(InvalidInput):
        asyncio.run(world.agent(vault, (0.3, 0.3)).run())
    assert {sent.method for sent in world.network.sent} == {"GET"}


def test_a_running_task_goes_on_elsewhere_only_with_the_owners_word() -> None:
    world = World(FakeServer(task(1, KEY), signing_key=KEY))
    world.network.fate = lambda number, request: "die-before" if "/rounds/1/reports/" in str(request.url) else ""

    def go_on(vault: Vault, url: str, new_server: bool = False) -> Summary:
        address, channel = f"{url}/tasks/{world.server.name}", world.channel()
        agent = Agent(address, vault, position=(0.3, 0.3), policy=ALLOW_ALL, channel=channel, new_server=new_server)
        return asyncio.run(asyncio.wait_for(agent.run(), HANG))

    with world.vault("device") as vault:
        with pytest.raises(DeviceDies):
            go_on(vault, URL)
        world.network.fate = lambda number, request: ""
        before, sent = vault.contents, len(world.network.sent)
        with pytest.raises(InvalidInput, match="this task was joined at http://server"):
            go_on(vault, "http://elsewhere")
        assert vault.contents == before
        assert len(world.network.sent) == sent  # it was not even asked
        assert go_on(vault, "http://elsewhere", new_server=True).outcome == "finished"
        assert vault.contents.memberships[0].server == "http://elsewhere"


def test_a_first_key_at_a_server_that_had_none_is_pinned_from_then_on() -> None:
    opened = World(FakeServer()).vault("device")
    assert join(opened, 1, None)[1].outcome == "finished"
    assert join(opened, 2, KEY)[1].outcome == "finished"
    with pytest.raises(InvalidInput, match="signs with another key"):
        join(opened, 3, OTHER)
