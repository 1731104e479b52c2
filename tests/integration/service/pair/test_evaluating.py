"""A server of a pair while it evaluates: it answers, it waits for a helper that is away, and its memory is bounded."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal.cli.admin import State
from semilocal.errors import InvalidInput
from semilocal.service.background import Background
from semilocal.service.faults import PUBLIC
from semilocal.service.pair.pool import Chunks, Job, Pool
from semilocal.service.stores.base import Store
from semilocal.sharing.machine import Leader
from semilocal.sharing.pair import PairTask
from semilocal.sharing.verify import Half
from semilocal.testing import MockClock
from tests.helpers import HANG
from tests.helpers.machines import half_of, in_database, people, store_reports
from tests.helpers.pairs import crowd, pair_task
from tests.helpers.running_pair import ADMIN, Pair, opened, run_pair

PEOPLE = 60


# -- the event loop ----------------------------------------------------------------------------------------------------


def order_of_events(stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, *, patience: float) -> list[str]:
    """What happens while the leader is stuck in the evaluation of a level, until a poll was answered."""
    events: list[str] = []
    began, polled = threading.Event(), threading.Event()
    whole = Leader.request

    def stuck(leader: Leader) -> bytes:
        if leader.due is not None and leader.due.name == "levels/1/check" and not began.is_set():
            events.append("evaluation begins")
            began.set()
            polled.wait(patience)
            events.append("evaluation ends")
        return whole(leader)

    monkeypatch.setattr(Leader, "request", stuck)

    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(PEOPLE))
        await servers.start(pair)
        counting = asyncio.ensure_future(servers.tick(2))
        assert await asyncio.to_thread(began.wait, HANG)
        state = await servers.state(pair)
        events.append("poll is answered")
        polled.set()
        assert state["phase"] == "levels"
        await counting
        assert (await servers.state(pair))["phase"] == "done"

    run_pair(stores, body)
    return events


def test_polls_are_answered_while_a_level_is_evaluated(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the order of events: the evaluation ends after a poll was answered, however long both take."""
    found = order_of_events(stores, monkeypatch, patience=HANG)
    assert found == ["evaluation begins", "poll is answered", "evaluation ends"]


def test_an_evaluation_in_the_event_loop_would_be_seen(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault that the test above must catch."""

    run = Background.run

    async def here(self: Background, where: str, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs) if where == "evaluating" else await run(self, where, call, *args, **kwargs)

    monkeypatch.setattr(Background, "run", here)
    found = order_of_events(stores, monkeypatch, patience=0.05)
    assert found == ["evaluation begins", "evaluation ends", "poll is answered"]


# -- a helper that is away ---------------------------------------------------------------------------------------------


def played(stores: tuple[Store, Store], *, away: int) -> tuple[bytes, list[str]]:
    """The transcript, and what the leader said while the helper was away for so many seconds in the middle."""
    said: list[str] = []
    clock = MockClock()

    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(PEOPLE))
        await servers.start(pair)
        if away:
            servers.wire.block = lambda request: "levels/2" in request.url.path
            await servers.tick()
            servers.wire.block, servers.wire.on = None, False
        for _ in range(away):
            clock.advance(1.0)
            await servers.tick()
            state = await servers.state(pair)
            assert (state["phase"], state["level"], state["fault"]) == ("levels", "levels/2/check", None)
            said.append(state["waits_for"])
        servers.wire.on = True
        await servers.tick(2)
        assert (await servers.state(pair))["phase"] == "done"
        transcripts.append((await servers.leader.get(f"/tasks/{pair.id.hex()}/transcript")).content)

    transcripts: list[bytes] = []
    run_pair(stores, body, clock=clock)
    return transcripts[0], said


def test_a_helper_that_is_away_for_a_minute_between_levels_changes_nothing(
    stores: tuple[Store, Store], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found, said = played(stores, away=60)
    assert len(said) == 60
    assert all("does not answer" in words for words in said)
    with opened(tmp_path_factory.mktemp("undisturbed")) as others:
        assert played(others, away=0) == (found, [])


# -- what does not go on -----------------------------------------------------------------------------------------------


def break_evaluation(monkeypatch: pytest.MonkeyPatch, server: int) -> threading.Event:
    """One server cannot evaluate, until the event is set."""
    mended = threading.Event()
    honest = Chunks.evaluate

    def broken(chunks: Chunks, job: Job, reports: Any) -> Any:
        if job.tree.server == server and not mended.is_set():
            raise InvalidInput("its reports are lost")
        return honest(chunks, job, reports)

    monkeypatch.setattr(Chunks, "evaluate", broken)
    return mended


async def fault_of(client: httpx2.AsyncClient, pair: PairTask) -> dict[str, Any]:
    """The state that the operator sees, as soon as there is a fault."""
    async with asyncio.timeout(HANG):
        while True:
            state = (await client.get(f"/tasks/{pair.id.hex()}/progress", headers=ADMIN)).json()
            if state["fault"] is not None:
                return dict(state)
            await asyncio.sleep(0.01)


async def test_the_operator_sees_which_part_cannot_be_evaluated_and_why(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = break_evaluation(monkeypatch, 0)
    pair = await servers.opened()
    await servers.fill(pair, crowd(PEOPLE))
    await servers.start(pair)
    await servers.tick()
    words = msgspec.convert(await fault_of(servers.leader, pair), State).text()
    assert "waits for the evaluation" in words
    assert words.endswith("part 1 of 1 cannot be evaluated: InvalidInput: its reports are lost")
    assert (await servers.state(pair))["fault"] == PUBLIC  # everybody else is told that, and no more
    mended.set()
    await servers.tick(2)
    state = (await servers.leader.get(f"/tasks/{pair.id.hex()}/progress", headers=ADMIN)).json()
    assert (state["phase"], state["fault"]) == ("done", None)


async def test_a_helper_that_cannot_evaluate_says_why_to_its_operator_only_and_can_be_cancelled(
    servers: Pair, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_evaluation(monkeypatch, 1)
    pair = await servers.opened()
    await servers.fill(pair, crowd(PEOPLE))
    await servers.start(pair)
    await servers.tick()
    assert "its reports are lost" in (await fault_of(servers.helper, pair))["fault"]
    waits = (await servers.state(pair))["waits_for"]
    assert "cannot evaluate now" in waits
    assert "lost" not in waits
    answer = await servers.helper.post(f"/tasks/{pair.id.hex()}/close", headers=ADMIN)
    assert answer.json() == {"phase": "cancelled"}
    await servers.tick()
    assert stores[1].pairs.shares(pair.id, 1, bytes(16), b"\xff" * 16) == []
    assert "cancelled" in (await servers.state(pair))["waits_for"]


def test_a_pair_that_is_cancelled_while_it_is_counted_is_no_fault(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables, honest = stores[0].pairs, Chunks.evaluate

    def cancelled(chunks: Chunks, job: Job, reports: Any) -> Any:
        tables.move(job.tree.pair, "levels", "cancelled")
        return honest(chunks, job, reports)

    monkeypatch.setattr(Chunks, "evaluate", cancelled)

    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(5))
        await servers.start(pair)
        await servers.tick(2)
        assert (await servers.state(pair))["phase"] == "cancelled"
        assert len(servers.pairs[0].faults) == servers.pairs[0].faults.total == 0
        assert tables.seed(pair.id) is None

    run_pair(stores, body)
    assert not [line for line in caplog.messages if "cannot go on" in line]


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 10_000, 1 << 30])
def test_a_process_keeps_no_more_states_than_its_memory_allows(stores: tuple[Store, Store], memory: int) -> None:
    pair = pair_task(max_depth=6)
    reports = people(pair, 50)
    secrets, pool = store_reports(stores[0], pair, reports), Pool(0)
    pool._here = kept = Chunks(memory)
    ids = [one.id for one in reports]
    bounded = in_database(stores[0], pair, secrets, pool, chunk=10)(1, ids)
    whole = half_of(pair, reports, 0)(1, ids)
    assert isinstance(whole, Half)
    for level in range(5):
        if level:
            rows = np.arange(1 << level)
            bounded.open(rows)
            whole.open(rows)
        mine, other = bounded.verify_init(), whole.verify_init()
        assert np.array_equal(mine.sums, other.sums)
        assert np.array_equal(mine.tags, other.tags)
        assert kept.kept_bytes() <= 16 * 50 + memory
    if memory > 1 << 20:
        assert kept.kept_bytes() == whole.kept_bytes == 16 * 50 * 16
    pool.forget(pair.id)
    assert kept.kept_bytes() == 0
