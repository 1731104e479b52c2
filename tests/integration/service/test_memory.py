"""The server's memory does not grow with the reports that arrive, and little with people when a round is closed."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from pathlib import Path

from semilocal import Task
from semilocal.protocol.messages import encode
from semilocal.service.http import RateLimit
from semilocal.service.rounds import advance, check_report, create_campaign, start
from semilocal.service.stores.base import Enrolment
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.testing import MockClock, build_app
from tests.helpers.asgi import DirectClient
from tests.helpers.service import open_campaign, roster_report, sample_task
from tests.helpers.stored import verify


def names(count: int) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(1, count + 1)]


def crowd(store: SQLiteStore, task: Task, count: int) -> None:
    create_campaign(store, open_campaign(task), now=0)
    for first in range(0, count, 5000):
        batch = [
            Enrolment(task.id, n, hashlib.sha256(n * 2).digest(), None, None)
            for n in names(count)[first : first + 5000]
        ]
        store.apply(batch)
    start(store, task.id, 0.0)


def test_reports_that_arrived_leave_nothing_behind(tmp_path: Path) -> None:
    """3,000 further reports leave less than 20 bytes each; a planted list of them leaves more than 100."""
    task, store = sample_task(), SQLiteStore(str(tmp_path / "service.db"))
    crowd(store, task, 9001)
    kept: list[bytes] = []

    async def main() -> tuple[int, int, int]:
        app, service = build_app(store, MockClock())
        app.context = app.context._replace(by_key=RateLimit(rate=20.0, burst=60, keys=100))
        await service.start()
        client = DirectClient(app)

        async def send_all(some: list[bytes], *, keep: bool = False) -> int:
            for first in range(0, len(some), 100):
                await asyncio.gather(*(one(name) for name in some[first : first + 100]))
                if keep:
                    kept.extend(bytes(200) for _ in range(100))
            return tracemalloc.get_traced_memory()[0]

        async def one(name: bytes) -> None:
            path = f"/tasks/{task.id.hex()}/rounds/1/reports/{name.hex()}"
            headers = {"authorization": f"Bearer {(name * 2).hex()}"}
            answer = await client.put(path, content=encode(roster_report(task, name)), headers=headers)
            assert answer.status_code == 201

        everybody = names(9000)
        tracemalloc.start()
        try:
            first = await send_all(everybody[:3000])
            second = await send_all(everybody[3000:6000])
            third = await send_all(everybody[6000:], keep=True)
        finally:
            tracemalloc.stop()
        await service.stop()
        return first, second, third

    first, second, third = asyncio.run(main())
    store.close()
    assert second - first < 20 * 3000
    assert third - second > 100 * 3000


def test_closing_a_round_takes_at_most_two_kilobytes_for_a_participant(tmp_path: Path) -> None:
    """A curator knows who is in which region, and answers of a round are counted together."""
    peaks = []
    for count in (6_000, 30_000):
        task, store = sample_task(delta=count / 1e6), SQLiteStore(str(tmp_path / f"{count}.db"))
        crowd(store, task, count)
        for first in range(0, count, 5000):
            some = names(count)[first : first + 5000]
            bodies = [encode(roster_report(task, name)) for name in some]
            keys = [hashlib.sha256(name * 2).digest() for name in some]
            rows = zip(bodies, some, keys, strict=True)
            store.apply([check_report(body, task.id, 1, name, key, None) for body, name, key in rows])
        tracemalloc.start()
        assert advance(store, task.id, 1e6)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        verify(store, task.id)
        store.close()
    assert peaks[1] - peaks[0] < 2000 * 24_000
