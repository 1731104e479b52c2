"""kill -9 of either of two servers at random moments: nothing lost, nothing counted twice, the same transcript on both.

The suite kills 20 times, SEMILOCAL_LONG=1 200 times. What comes out never depends on when a server dies: every upload
that was acknowledged takes part, and the published numbers follow from the secrets alone.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal.pooled import play
from semilocal.service.pair.play import PairSecrets
from semilocal.service.stores.base import open_store
from semilocal.service.stores.pairs import SEED
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import accepted_digest
from semilocal.sharing.sealing import verifying_key
from semilocal.sharing.wire import Receipt, SignedTree
from semilocal.testing import ADMIN_TOKEN, free_port
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.long import SEED as SLICE
from tests.helpers.long import times
from tests.helpers.pairs import SIGNING, SimulatedPair, crowd, pooled_task, report_id, upload_of

KILLS = times(20, long=200)
PEOPLE = 150
LEADER = verifying_key(SIGNING[0]).hex()
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
SEEDS = (b"leader".ljust(32), b"helper".ljust(32))


def persist(call: Callable[[], httpx2.Response], good: Callable[[httpx2.Response], bool]) -> httpx2.Response:
    """Ask until there is an answer that is worth something."""
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        try:
            answer = call()
            if good(answer):
                return answer
            assert answer.status_code in (404, 429, 503), answer.text
        except httpx2.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError("no answer")


class Servers:
    """Both servers as processes, and who kills them."""

    def __init__(self, folder: Path) -> None:
        self.urls = [f"sqlite:///{folder / name}.db" for name in ("leader", "helper")]
        for url, seed in zip(self.urls, SEEDS, strict=True):
            store = open_store(url)
            store.first_setting(SEED, seed)
            store.close()
        helper = free_port()
        options = [
            ["--role", "leader", "--operator", "Ay", "--peer", f"http://127.0.0.1:{helper}", "--processes", "1"],
            ["--role", "helper", "--operator", "Bee", "--processes", "1", "--peer-key", LEADER],
        ]
        ports = (None, helper)
        self.both = [
            ForkedServer(
                self.urls[n], port=ports[n], log=folder / f"{n}.log", options=options[n], signing_key=SIGNING[n]
            )
            for n in (0, 1)
        ]

    def start(self) -> None:
        for server in self.both:
            server.start(wait=False)
        for server in self.both:
            server.wait()

    def kill(self, number: int) -> None:
        self.both[number].kill()
        self.both[number].start(wait=False)

    def stop(self) -> None:
        for server in self.both:
            server.kill()


@pytest.mark.slow
def test_servers_that_are_killed_again_and_again_give_the_result_that_follows_from_their_secrets(
    tmp_path: Path,
) -> None:
    servers = Servers(tmp_path)
    servers.start()
    chance, kills, over = random.Random(5 + SLICE), 0, threading.Event()

    def fire() -> None:
        nonlocal kills
        while kills < KILLS and not over.is_set():
            time.sleep(chance.uniform(0.0, 1.5))
            servers.kill(chance.randrange(2))
            kills += 1

    firing = threading.Thread(target=fire)
    try:
        first = True
        number = 0
        while first or kills < KILLS:
            pair = confirmed(servers, number)
            if first:
                firing.start()
            signed = counted(servers, pair)
            if first:
                check(pair, signed)
            assert signed.published()[0].people == PEOPLE
            first, number = False, number + 1
        firing.join()
        assert kills == KILLS
        print(f"{kills} kills of leader and helper, {number} pairs: 0 lost, 0 doubled, 0 changed")
    finally:
        over.set()
        if firing.ident is not None:
            firing.join()
        servers.stop()


def test_a_server_can_be_killed_as_soon_as_it_was_started(tmp_path: Path) -> None:
    """A kill that reached nobody would leave the killer waiting for ever, and the test above with it."""
    server = ForkedServer(f"sqlite:///{tmp_path / 'one.db'}", log=tmp_path / "one.log")
    for _ in range(10):
        server.start(wait=False)
        process = server.process
        assert process is not None
        assert os.getpgid(process.pid) == process.pid
        server.kill()
        assert process.poll() is not None


def confirmed(servers: Servers, number: int) -> PairTask:
    """A pair that both operators have confirmed."""
    leader, helper = (server.url for server in servers.both)
    key = persist(lambda: httpx2.get(f"{helper}/operator"), is_good).json()["signing_key"]
    task = msgspec.to_builtins(pooled_task(label=f"{number}"))
    form: dict[str, Any] = {"name": "t", "pooled": task, "peer_key": key, "enrolment": "open", "capacity": PEOPLE}
    answer = persist(
        lambda: httpx2.post(f"{leader}/pairs", json=form, headers=ADMIN, timeout=HANG),
        lambda answer: answer.status_code in (201, 409),
    )
    if answer.status_code == 409:  # it was created, and the answer got lost
        rows = persist(lambda: httpx2.get(f"{leader}/tasks", headers=ADMIN), is_good).json()
        identity = rows[-1]["task"]
    else:
        identity = answer.json()["task"]
    for url in (leader, helper):
        persist(lambda url=url: httpx2.post(f"{url}/tasks/{identity}/confirm", headers=ADMIN), is_good)  # type: ignore[misc]
    return PairTask.from_bytes(persist(lambda: httpx2.get(f"{leader}/tasks/{identity}"), is_good).content)


def counted(servers: Servers, pair: PairTask) -> SignedTree:
    """Upload for everybody, and wait for the transcript, the same on both servers."""
    leader, helper = (f"{server.url}/tasks/{pair.id.hex()}" for server in servers.both)
    with httpx2.Client(timeout=HANG) as client:
        for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(PEOPLE)).tolist()):
            upload = upload_of(pair, code, number)
            data = upload.to_bytes()
            path = f"{leader}/uploads/{upload.id.hex()}"
            answer = persist(lambda path=path, data=data: client.put(path, content=data), is_good)  # type: ignore[misc]
            assert Receipt.from_bytes(answer.content).is_good(pair, data)
        found = [
            persist(lambda url=url: client.get(f"{url}/transcript"), is_good).content  # type: ignore[misc]
            for url in (leader, helper)
        ]
    assert found[0] == found[1]
    return SignedTree.from_bytes(found[0])


def check(pair: PairTask, signed: SignedTree) -> None:
    """The numbers that a simulation with the secrets of the first pair gives."""
    first, second = (
        PairSecrets(secret, seed).noise_secret(pair.id) for secret, seed in zip(SIGNING, SEEDS, strict=True)
    )
    digest = accepted_digest([report_id(number) for number in range(PEOPLE)])
    simulated = play(
        pair.pooled, SimulatedPair(pair.pooled, pair.pooled.hierarchy.codes(crowd(PEOPLE)), digest, (first, second))
    )
    assert signed.published()[0].to_bytes() == simulated.to_bytes()


def is_good(answer: httpx2.Response) -> bool:
    return answer.status_code in (200, 201)
