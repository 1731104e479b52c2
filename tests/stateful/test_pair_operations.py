"""Random programs over a pair: uploads, lost requests and answers, a helper that is away, and servers that die.

A server dies at a write to its database, before it or after it, or between two requests; the other one goes on with
what it has in memory. Whatever happens, everybody who got a receipt for a good upload is counted once, a junk envelope
is refused and counted as that, and both servers end with the transcript that follows from their secrets alone.
60 programs in the suite, 2,000 with SEMILOCAL_LONG=1; what fails is kept in ``kept.py``.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal.pooled import play as simulate
from semilocal.service.pair.play import PairSecrets
from semilocal.service.stores.pairs import PairTables, UploadRow
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import accepted_digest
from semilocal.sharing.wire import SignedTree, Upload
from semilocal.testing import MockClock
from tests.helpers.long import SEED, times
from tests.helpers.pairs import SIGNING, SimulatedPair, crowd, pooled_task, report_id, upload_of
from tests.helpers.programs import Program, programs, search
from tests.helpers.running_pair import SEEDS, Crashing, Pair, opened
from tests.stateful.kept import KEPT

PEOPLE = 8
UPLOADS = 20  # are open for that many seconds at most
TASK = pooled_task(max_depth=3)
PLACES = [int(code) for code in TASK.hierarchy.codes(crowd(PEOPLE))]
OPERATIONS = (
    "upload", "upload", "upload", "upload", "again", "other", "junk", "tick", "tick", "clock", "lose-request",
    "lose-answer", "away", "back", "kill", "die", "die", "end",
)  # fmt: skip

_upload = cache(upload_of)


class Harness:
    """Both servers, the devices, and what must come out."""

    def __init__(self, servers: Pair, pair: PairTask, clock: MockClock) -> None:
        self.servers, self.pair, self.clock = servers, pair, clock
        self.good: set[int] = set()  # who has a receipt, with an upload that both servers can open
        self.junk: set[int] = set()
        self.lost: list[str] = []  # what happens to the next exchanges between the servers

    def upload(self, device: int) -> Upload:
        return _upload(self.pair, PLACES[device], device)

    async def step(self, operation: str, device: int, number: int) -> None:
        servers = self.servers
        if operation in ("upload", "again", "junk", "other"):
            await self.send(device, operation)
        elif operation == "tick":
            await servers.tick()
        elif operation == "clock":
            self.clock.advance(number / 16)
        elif operation in ("lose-request", "lose-answer"):
            self.lost.append(operation)
        elif operation in ("away", "back"):
            servers.wire.on = operation == "back"
        elif operation == "kill":
            await self.restart(number % 2)
        elif operation == "die":
            await self.die(number % 2, at=number // 4 % 8, after=bool(number // 2 % 2))
        else:
            answer = await servers.start(self.pair)
            assert answer.status_code == 200, answer.text

    async def send(self, device: int, operation: str) -> None:
        """A device uploads: something good or junk at first, then the same or another thing."""
        sent = device in self.good | self.junk
        junk = operation == "junk" or (operation == "again" and device in self.junk)
        upload, phase = self.upload(device), (await self.servers.state(self.pair))["phase"]
        if operation == "other":
            upload = _upload(self.pair, PLACES[device - 1], device)
        elif junk:
            upload = msgspec.structs.replace(upload, helper_envelope=bytes(len(upload.helper_envelope)))
        if operation == "other" and (not sent or PLACES[device - 1] == PLACES[device]):
            return
        answer = await self.servers.put(self.pair, upload)
        if phase == "done" or (phase != "open" and not sent):
            allowed = {410}  # at the end nothing is known of uploads any more
        elif not sent:
            allowed = {201}
            (self.junk if junk else self.good).add(device)
        elif operation == "other" or junk != (device in self.junk):
            allowed = {409}
        else:
            allowed = {200, 422} if junk else {200}  # junk is told so as soon as the helper has seen it
        assert answer.status_code in allowed, (answer.status_code, answer.text, allowed)

    async def restart(self, server: int) -> None:
        await self.servers.end(server)
        await self.servers.begin(server)

    async def die(self, server: int, *, at: int, after: bool) -> None:
        """Do what is due until a write of one server kills it; then it comes back."""
        store = self.servers.stores[server]
        sound = store.pairs
        crashing = Crashing(sound, at, after=after)
        store.pairs = crashing  # type: ignore[assignment]
        await self.restart(server)
        await self.servers.tick()
        store.pairs = sound
        await self.restart(server)

    def bend(self, request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        if self.lost and self.lost.pop() == "lose-answer":
            raise httpx2.ReadError("the answer got lost")
        return answer

    def block(self, request: httpx2.Request) -> bool:
        if self.lost and self.lost[-1] == "lose-request":
            self.lost.pop()
            return True
        return False

    async def finish(self) -> None:
        """Everything works again: both servers come to the end."""
        self.lost.clear()
        self.servers.wire.on = True
        assert (await self.servers.start(self.pair)).status_code == 200
        for _ in range(6):
            await self.servers.tick()
        states = [await self.servers.state(self.pair, server) for server in (0, 1)]
        assert [state["phase"] for state in states] == ["done", "done"], states
        assert [state["accepted"] for state in states] == [len(self.good)] * 2, "somebody was lost or doubled"
        assert states[0]["refused"] == len(self.junk)
        path = f"/tasks/{self.pair.id.hex()}/transcript"
        found = [(await client.get(path)).content for client in self.servers.clients.values()]
        assert found[0] == found[1]
        ids = sorted(report_id(device) for device in self.good)
        secrets = [PairSecrets(key, seed).noise_secret(self.pair.id) for key, seed in zip(SIGNING, SEEDS, strict=True)]
        codes = self.pair.pooled.hierarchy.codes(crowd(PEOPLE)[sorted(self.good)])
        counted = SimulatedPair(self.pair.pooled, codes, accepted_digest(ids), (secrets[0], secrets[1]))
        expected = simulate(self.pair.pooled, counted)
        assert SignedTree.from_bytes(found[0]).published()[0].to_bytes() == expected.to_bytes(), "a number changed"


def play(program: Program) -> None:
    """Run a program over a fresh pair."""

    async def main(folder: Path) -> None:
        clock = MockClock()
        with opened(folder) as stores:
            servers = Pair(stores, (clock, clock))
            for number in (1, 0):
                await servers.begin(number)
            try:
                pair = await servers.opened(TASK, upload_seconds=UPLOADS)
                harness = Harness(servers, pair, clock)
                servers.wire.bend, servers.wire.block = harness.bend, harness.block
                for step in program:
                    await harness.step(*step)
                await harness.finish()
            finally:
                for number in (0, 1):
                    await servers.end(number)

    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        asyncio.run(main(Path(folder)))


def test_random_programs_over_a_pair() -> None:
    assert search("a pair", play, programs(OPERATIONS, devices=PEOPLE, count=times(60, long=2_000), seed=SEED))


def test_kept_programs() -> None:
    for what, program in KEPT:
        if what == "a pair":
            play(program)


def test_a_leader_that_forgets_an_upload_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    honest, count = PairTables.add, 0

    def forgetful(tables: PairTables, task: bytes, rows: list[UploadRow]) -> Any:
        nonlocal count
        count += 1
        if count % 5 == 0 and rows[0].onward:
            return ["stored"] * len(rows), False
        return honest(tables, task, rows)

    monkeypatch.setattr(PairTables, "add", forgetful)
    with pytest.raises(AssertionError):
        search("a pair", play, programs(OPERATIONS, devices=PEOPLE, count=20, seed=1), kept=tmp_path / "kept.py")
