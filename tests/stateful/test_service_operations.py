"""Random operation lists against the service, with a mock clock, dropped requests and responses, and crashes.

A model keeps what every step must give; after every step: nobody is counted twice in a round, closings are those of the
model's reports, closed rounds never change, an honest device sends one report per round at most, and a replay of all
events equals the live state. 140 programs in the suite, 8,000 with SEMILOCAL_LONG=1; what fails is kept in ``kept.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal import Box, Report, Task
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import decode, decode_query, decode_report, encode
from semilocal.protocol.plan import Release
from semilocal.service.rounds import advance, create_campaign, start
from semilocal.service.stores.base import Applied, Item, Store, open_store
from semilocal.testing import MockClock, build_app, cluster, secrets_of
from tests.helpers.asgi import DirectClient
from tests.helpers.long import SEED, times
from tests.helpers.postgres import Postgres
from tests.helpers.programs import Program, programs, search
from tests.helpers.service import Device, open_campaign, roster_report
from tests.helpers.stored import verify
from tests.stateful.kept import KEPT

DEVICES = 14
_numbers = itertools.count(1)

OPERATIONS = (
    "answer", "answer", "answer", "everybody", "again", "other", "late", "early", "garbage", "stolen-key",
    "wrong-region", "drop-request", "drop-response", "crash", "closers", "clock", "clock", "tick", "enrol-late",
)  # fmt: skip


class Harness:
    """A server that can crash, devices, and the model."""

    def __init__(self, url: str, wrap: Callable[[Store], Store], number: int) -> None:
        self.url, self.wrap = url, wrap
        self.clock = MockClock()
        self.task = Task.build(
            Box((0, 0), (1, 1), (f"x{number}", "y")), epsilon=6.0, delta=0.2, k=2, max_depth=3, window=60, quorum=0.9
        )
        self.campaign = open_campaign(
            self.task, releases=(Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]),)
        )
        self.accepted: dict[int, dict[bytes, bytes]] = {}
        self.finished: dict[str, bytes] = {}
        self.sent: dict[tuple[bytes, int], bytes] = {}
        self.strangers: set[int] = set()
        self.verified = 0
        self.stack = contextlib.AsyncExitStack()

    async def open(self) -> None:
        self.store = self.wrap(open_store(self.url, worker="0"))
        self.app, self.service = build_app(self.store, self.clock)
        await self.service.start()
        self.client = await self.stack.enter_async_context(DirectClient(self.app))

    async def close(self) -> None:
        await self.service.stop()
        await self.stack.aclose()
        self.store.close()

    async def begin(self) -> None:
        await self.open()
        assert create_campaign(self.store, self.campaign, now=self.clock())
        seeds = secrets_of(DEVICES, seed=1)
        self.devices = [
            Device(self.client, self.task, point, secret, plan=self.campaign.plan)
            for point, secret in zip(cluster(DEVICES), seeds, strict=True)
        ]
        for device in self.devices:
            assert (await device.enrol()).status_code == 201
        assert start(self.store, self.task.id, self.clock())

    # -- what happens ------------------------------------------------------------------------------------------

    async def get(self, path: str) -> httpx2.Response:
        return await self.client.get(f"/tasks/{self.task.id.hex()}{path}")

    async def state(self) -> dict[str, Any]:
        return dict((await self.get("/state")).json())

    async def catch_up(self, device: Device) -> bytes | None:
        """The device reads what it missed; returns the report it wants to send, if any."""
        state = await self.state()
        machine = device.machine
        while not machine.partitioned and machine.round <= state["closed"]:
            await device.read(machine.round, machine.round)
        if state["kind"] is None:
            return None
        query = decode_query((await self.get(f"/rounds/{state['round']}/query")).content)
        report = machine.receive(query)
        if report is None:
            return None
        body = encode(report)
        assert self.sent.setdefault((device.pseudonym, state["round"]), body) == body, "two reports in one round"
        return body

    async def put(self, device: Device, body: bytes, round_: int, key: bytes | None = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {(key or device.key).hex()}"}
        for _ in range(3):
            answer = await self.client.put(device.path(round_), content=body, headers=headers)
            if answer.status_code != 429:
                return answer
            self.clock.advance(0.5)
        raise AssertionError("too fast for ever")

    def expect(self, round_: int, name: bytes, body: bytes, *, is_open: bool) -> set[int]:
        stored = self.accepted.get(round_, {}).get(name)
        if stored is not None:
            return {200} if stored == body else {409}
        return {201} if is_open else {410}

    async def step(self, operation: str, which: int, extra: int) -> None:
        device = self.devices[which]
        state = await self.state()
        number = state["round"]
        if state["phase"] == "finished" and operation in ("everybody", "clock", "tick", "crash"):
            return
        if operation in ("answer", "drop-response", "again"):
            await self.answer(device, twice=operation == "again")
        elif operation == "everybody":
            for each in self.devices:
                await self.answer(each, twice=False)
        elif operation == "drop-request":
            await self.catch_up(device)  # it made its answer, and nothing arrives
        elif operation == "other":
            stored = self.accepted.get(number, {}).get(device.pseudonym)
            if stored is not None and msgspec.msgpack.decode(stored)[0] == "report":
                other = msgspec.structs.replace(decode(stored, Report), nonce=bytes(16))
                assert (await self.put(device, encode(other), number)).status_code == 409
        elif operation == "late" and state["closed"]:
            old = 1 + extra % state["closed"]
            stored = self.accepted.get(old, {}).get(device.pseudonym)
            body = (
                stored
                or self.sent.get((device.pseudonym, old))
                or encode(roster_report(self.task, device.pseudonym, round=old))
            )
            expected = self.expect(old, device.pseudonym, body, is_open=False)
            assert (await self.put(device, body, old)).status_code in expected
        elif operation == "early" and state["phase"] == "collecting":
            body = encode(roster_report(self.task, device.pseudonym, round=number + 1))
            assert (await self.put(device, body, number + 1)).status_code == 404
        elif operation == "garbage":
            body = self.sent.get((device.pseudonym, number), b"\x98\xa6report")
            spoiled = bytes([extra]) + body[1:] if extra % 2 else body[: extra % len(body)]
            if spoiled != body:
                assert (await self.put(device, spoiled, max(number, 1))).status_code == 422
        elif operation == "stolen-key":
            other_device = self.devices[(which + 1) % DEVICES]
            mine = self.sent.get((device.pseudonym, number))
            if mine is not None and state["phase"] != "finished":
                assert (await self.put(device, mine, number, key=other_device.key)).status_code == 401
        elif operation == "wrong-region":
            await self.wrong_region(device, state)
        elif operation == "crash":
            await self.crash()
        elif operation == "closers":
            await self.closers()
        elif operation == "clock":
            self.clock.advance(extra / 4)
        elif operation == "tick":
            await self.service.tick()
        elif operation == "enrol-late":
            stranger = Device(self.client, self.task, [0.5, 0.5], bytes([extra]) * 32)
            code = 200 if extra in self.strangers else 201 if state["phase"] == "collecting" else 410
            answer = await stranger.enrol()
            assert answer.status_code == code, answer.text
            if answer.status_code == 201:
                self.strangers.add(extra)
        await self.check()

    async def answer(self, device: Device, *, twice: bool) -> None:
        for _ in range(1 + twice):
            body = await self.catch_up(device)
            if body is None:
                return
            number = int(msgspec.msgpack.decode(body)[2])
            expected = self.expect(number, device.pseudonym, body, is_open=True)
            if not self.announced(device, body):
                expected = {422}
            answer = await self.put(device, body, number)
            assert answer.status_code in expected, (answer.status_code, answer.text, expected)
            if expected == {422}:
                return
            self.accepted.setdefault(number, {}).setdefault(device.pseudonym, body)

    def announced(self, device: Device, body: bytes) -> bool:
        """Whether a value comes from somebody who announced the region; other reports announce it themselves."""
        report = decode_report(body)
        mine = [decode_report(found[device.pseudonym]) for found in self.accepted.values() if device.pseudonym in found]
        return isinstance(report, Report) or report.region in {one.region for one in mine}

    async def wrong_region(self, device: Device, state: dict[str, Any]) -> None:
        """A region that is none, and an answer of somebody who was not drawn."""
        number = state["round"]
        if state["kind"] != "query" or device.pseudonym in self.accepted.get(number, {}):
            return
        lower, upper = self.task.hierarchy.ends
        wrong = roster_report(self.task, device.pseudonym, round=number, lower=lower + 1, upper=upper - 1)
        assert (await self.put(device, encode(wrong), number)).status_code == 422
        live = self.service.live_campaigns.get(self.task.id)
        assert live is not None
        assert live.curator is not None
        for region in live.curator.logs:
            if device.pseudonym not in live.curator.asked_now(region):
                wrong = Report(self.task.id, number, device.pseudonym, *region, 1, bytes(16))
                assert (await self.put(device, encode(wrong), number)).status_code == 422

    async def crash(self) -> None:
        """The process is gone: nothing of the application survives but the database."""
        old_service, old_stack, old_store = self.service, self.stack, self.store
        self.stack = contextlib.AsyncExitStack()
        await self.open()
        for device in self.devices:
            device.client = self.client
        await old_service.stop()
        await old_stack.aclose()
        old_store.close()

    async def closers(self) -> None:
        """Two closers on connections of their own, at once."""
        others = [self.wrap(open_store(self.url, worker=f"closer{n}")) for n in range(2)]
        before = await self.status_closed()
        done = await asyncio.gather(
            *(asyncio.to_thread(advance, other, self.task.id, self.clock()) for other in others)
        )
        for other in others:
            other.close()
        # Where nobody is left to wait for, the second one finds the next round due at once.
        assert await self.status_closed() - before == sum(step is not None for step in done)

    async def status_closed(self) -> int:
        status = await asyncio.to_thread(self.store.status, self.task.id)
        assert status is not None
        return status.closed

    # -- what must hold ----------------------------------------------------------------------------------------

    async def check(self) -> None:
        status = self.store.status(self.task.id)
        assert status is not None
        stored = self.store.reports(self.task.id, max(status.round, 1), after=b"", limit=1000)
        assert {row.pseudonym for row in stored} == self.accepted.get(max(status.round, 1), {}).keys(), (
            "a report is lost"
        )
        for number in range(1, status.closed + 1):
            for what in ("query", "closed", "checkpoint", "reports"):
                data = (await self.get(f"/rounds/{number}/{what}")).content
                assert self.finished.setdefault(f"{number}/{what}", data) == data, "a closed round changed"
            reports = msgspec.msgpack.decode(self.finished[f"{number}/reports"])
            mine = self.accepted.get(number, {})
            assert reports == [mine[name] for name in sorted(mine)], "the transcript is not what was acknowledged"
        if status.closed > self.verified:  # the whole transcript anew
            self.verified = status.closed
            self.check_closings(status.closed)
            verify(self.store, self.task.id)

    def check_closings(self, closed: int) -> None:
        curator = Curator(self.task, self.campaign.plan)
        for number in range(1, closed + 1):
            query = curator.query()
            assert query is not None
            assert encode(query) == self.finished[f"{number}/query"]
            reports = [decode_report(body) for _, body in sorted(self.accepted.get(number, {}).items())]
            assert encode(curator.close(reports)) == self.finished[f"{number}/closed"]


def play(url: str, steps: Program, wrap: Callable[[Store], Store] = lambda store: store, *, number: int = 0) -> Harness:
    """Run a program on a fresh database, or on one that has no task of this number; raises on a broken promise."""

    async def main() -> Harness:
        harness = Harness(url, wrap, number)
        await harness.begin()
        try:
            for step in steps:
                await harness.step(*step)
        finally:
            await harness.close()
        return harness

    return asyncio.run(main())


def play_alone(steps: Program, wrap: Callable[[Store], Store] = lambda store: store) -> Harness:
    """The same on a database of its own, in memory: a program kills its server again and again, never the machine."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        return play(f"sqlite:///{folder}/service.db", steps, wrap)


def test_random_programs_on_sqlite() -> None:
    some = programs(OPERATIONS, devices=DEVICES, count=times(130, long=7_500), seed=SEED)
    assert search("one server", play_alone, some)


def test_kept_programs() -> None:
    for what, program in KEPT:
        if what == "one server":
            play_alone(program)


def test_a_device_whose_first_report_never_arrived_comes_late_and_is_counted_nowhere() -> None:
    others = [("answer", which, 0) for which in range(1, DEVICES)]
    harness = play_alone((("drop-request", 0, 0), *others, ("clock", 0, 240), ("closers", 0, 0), ("answer", 0, 0)))
    name = harness.devices[0].pseudonym
    assert name not in harness.accepted[1]
    assert decode(harness.accepted[2][name], Report).answer is None


@pytest.fixture(scope="module")
def cluster_url(postgres: Postgres) -> str:
    return postgres.new_database()


def test_random_programs_on_postgresql(cluster_url: str) -> None:
    some = programs(OPERATIONS, devices=DEVICES, count=times(10, long=500), seed=SEED + 1)
    assert search("one server", lambda program: play(cluster_url, program, number=next(_numbers)), some)


WHOLE: Program = (("everybody", 0, 0), ("clock", 0, 255), ("tick", 0, 0)) * 60  # more than any campaign takes


def test_a_whole_campaign_with_a_crash_after_every_step() -> None:
    harness = play_alone(tuple(step for one in WHOLE for step in (one, ("crash", 0, 0))))
    assert "value-closed" in {
        msgspec.msgpack.decode(data)[0] for name, data in harness.finished.items() if "closed" in name
    }


class Planted:
    """A store with a fault."""

    def __init__(self, store: Store) -> None:
        self._store, self._count = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Forgetful(Planted):
    """Every third batch is acknowledged and not written."""

    def apply(self, batch: Sequence[Item]) -> Applied:
        self._count += 1
        if self._count > DEVICES and self._count % 3 == 0:
            return Applied(["stored"] * len(batch), set())
        return self._store.apply(batch)


class Obliging(Planted):
    """Other bytes under the same key are called the same."""

    def apply(self, batch: Sequence[Item]) -> Applied:
        applied = self._store.apply(batch)
        return Applied(
            ["again" if outcome == "other-answer" else outcome for outcome in applied.outcomes], applied.full
        )


def test_a_store_that_forgets_is_found() -> None:
    with pytest.raises(AssertionError):
        play_alone(WHOLE, Forgetful)  # type: ignore[arg-type]


def test_a_fault_is_found_by_chance_made_short_printed_and_kept(tmp_path: Path) -> None:
    some = programs(OPERATIONS, devices=DEVICES, count=200, seed=5)
    kept = tmp_path / "kept.py"
    with pytest.raises(AssertionError) as raised:
        search("one server", lambda program: play_alone(program, Obliging), some, kept=kept)  # type: ignore[arg-type]
    source = kept.read_text()
    assert source in str(raised.value)
    found: list[tuple[str, Program]] = []
    exec(source, {"KEPT": found})
    ((_, program),) = found
    assert len(program) == 2
    assert program[-1][0] == "other"
