"""Small parts of the service: limits, the writer, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from semilocal.errors import Overloaded, StoreUnavailable
from semilocal.service.campaign import fresh_tokens, token_hash, used_by
from semilocal.service.http import RateLimit
from semilocal.service.rounds import reports_needed
from semilocal.service.stores.base import Applied, Enrolment
from semilocal.service.writer import Writer
from tests.helpers.service import sample_task


def test_a_rate_limit_remembers_a_bounded_number_of_keys() -> None:
    limit = RateLimit(rate=1.0, burst=1, keys=100)
    for number in range(1000):
        assert limit.allow(str(number).encode(), 0.0)
        assert len(limit) <= 100
    assert not limit.allow(b"999", 0.5)
    assert limit.allow(b"999", 1.6)


class Slow:
    """A store that writes down its batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.broken = False

    def apply(self, batch: Sequence[Any]) -> Applied:
        if self.broken:
            raise StoreUnavailable("away")
        self.batches.append(len(batch))
        return Applied(["stored"] * len(batch), set())


async def put(writer: Writer, item: Enrolment) -> str:
    return await writer.put(item)


def test_the_writer_gathers_batches_answers_everybody_and_refuses_when_full() -> None:
    item = Enrolment(bytes(32), bytes(16), bytes(32), None, None)

    async def main() -> None:
        store = Slow()
        writer = Writer(store.apply, lambda tasks: None, max_queue=50, max_batch=20)
        with pytest.raises(Overloaded):
            await writer.put(item)
        writer.start()
        answers = await asyncio.gather(*(put(writer, item) for _ in range(60)), return_exceptions=True)
        assert answers[:50] == ["stored"] * 50
        assert all(isinstance(answer, Overloaded) for answer in answers[50:])
        assert sum(store.batches) == 50
        assert max(store.batches) <= 20
        store.broken = True
        lost = await asyncio.gather(*(put(writer, item) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in lost)
        store.broken = False
        assert await writer.put(item) == "stored"
        waiting = [asyncio.create_task(put(writer, item)) for _ in range(5)]
        await asyncio.sleep(0)
        await writer.stop()
        assert [await task for task in waiting] == ["stored"] * 5
        with pytest.raises(Overloaded):
            await writer.put(item)

    asyncio.run(main())


def test_whoever_gives_up_waiting_disturbs_nobody() -> None:
    item = Enrolment(bytes(32), bytes(16), bytes(32), None, None)

    async def main() -> None:
        writer = Writer(Slow().apply, lambda tasks: None)
        writer.start()
        tasks = [asyncio.create_task(put(writer, item)) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert done[1::2] == ["stored"] * 5
        await writer.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("quorum", "expected", "needed"), [(1.0, 10, 10), (0.7, 10, 7), (0.71, 10, 8), (0.5, 1, 1), (1.0, 0, 0)]
)
def test_a_quorum_is_rounded_up(quorum: float, expected: int, needed: int) -> None:
    assert reports_needed(sample_task(quorum=quorum), expected) == needed


def test_tokens_do_not_lead_from_the_database_to_a_pseudonym() -> None:
    token, other = fresh_tokens(2)
    assert len(set(fresh_tokens(100))) == 100
    mark = used_by(token, b"p" * 16, b"v" * 32)
    assert mark != used_by(token, b"q" * 16, b"v" * 32)
    assert mark != used_by(other, b"p" * 16, b"v" * 32)
    assert token_hash(token) != mark


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_steps_locks_nobody_out(step: float) -> None:
    """Also if somebody passes a clock that steps: the bucket is full or as it was, never in debt."""
    limit = RateLimit(rate=2.0, burst=20)
    for _ in range(10):
        assert limit.allow(b"key", 10_000.0)
    assert limit.allow(b"key", 10_000.0 + step)
    for _ in range(8):
        assert limit.allow(b"key", 10_000.0 + step)
