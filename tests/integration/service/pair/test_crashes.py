"""Either server may die at any point: the other waits, it comes back, and the result is the same.

A crash is a write to the database that is not answered: it was not done, or it was done and nobody noticed. Afterwards
the whole server is built anew from its database. Some points in the suite, all of them with SEMILOCAL_LONG=1.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semilocal.service.pair.pool import Chunks
from semilocal.service.stores.base import Store
from semilocal.sharing.pair import PairTask
from semilocal.sharing.wire import SignedTree
from semilocal.testing import MockClock
from tests.helpers.pairs import crowd
from tests.helpers.running_pair import Crashing, Pair, opened, running_pair

LONG = os.environ.get("SEMILOCAL_LONG") == "1"
PEOPLE = 60


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PairTask]:
    """A pair whose uploads are all there, not yet forwarded."""
    folder = tmp_path_factory.mktemp("filled")

    async def body(stores: tuple[Store, Store]) -> PairTask:
        async with running_pair(stores, MockClock()) as servers:
            pair = await servers.opened()
            await servers.fill(pair, crowd(PEOPLE))
            assert (await servers.start(pair)).status_code == 200
            return pair

    with opened(folder) as stores:
        return folder, asyncio.run(body(stores))


async def until_done(servers: Pair, pair: PairTask, dead: Callable[[], bool]) -> SignedTree | None:
    """Let both servers work until the end, or until one is dead."""
    for _ in range(6):
        await servers.tick()
        if dead():
            return None
        states = [await servers.state(pair, server) for server in (0, 1)]
        if all(state["phase"] == "done" and state["waits_for"] is None for state in states):
            found = [await client.get(f"/tasks/{pair.id.hex()}/transcript") for client in servers.clients.values()]
            assert found[0].content == found[1].content
            assert [state["accepted"] for state in states] == [PEOPLE, PEOPLE]
            return SignedTree.from_bytes(found[0].content)
    raise AssertionError(f"not done: {states}")


def play(folder: Path, pair: PairTask, *, side: int, at: int, after: bool) -> tuple[SignedTree, int]:
    """Crash once, start anew, and come to the end; the transcript, and how many writes there were before the crash."""

    async def body(stores: tuple[Store, Store]) -> tuple[SignedTree, int]:
        sound = stores[side].pairs
        crashing = Crashing(sound, at, after=after)
        stores[side].pairs = crashing  # type: ignore[assignment]
        async with running_pair(stores, MockClock()) as servers:
            result = await until_done(servers, pair, lambda: crashing.dead)
        stores[side].pairs = sound
        if result is None:
            async with running_pair(stores, MockClock()) as servers:
                result = await until_done(servers, pair, lambda: False)
        assert result is not None
        return result, crashing.writes

    with opened(folder) as stores:
        return asyncio.run(body(stores))


@pytest.mark.parametrize("side", [0, 1], ids=["leader", "helper"])
def test_a_server_that_dies_at_any_write_changes_nothing(
    filled: tuple[Path, PairTask], tmp_path: Path, side: int
) -> None:
    source, pair = filled
    shutil.copytree(source, tmp_path / "whole")
    expected, writes = play(tmp_path / "whole", pair, side=side, at=-1, after=False)
    assert writes > 10
    points = [(at, after) for at in range(writes) for after in (False, True)]
    for number, (at, after) in enumerate(points if LONG else random.Random(side).sample(points, 10)):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        found, _ = play(folder, pair, side=side, at=at, after=after)
        assert found == expected, (at, after)
        shutil.rmtree(folder)


@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_an_evaluation_that_fails_once_changes_nothing(
    filled: tuple[Path, PairTask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    source, pair = filled
    shutil.copytree(source, tmp_path / "whole")
    expected, _ = play(tmp_path / "whole", pair, side=0, at=-1, after=False)
    honest, calls = Chunks.evaluate, 0

    def failing(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls - 1 == at:
            raise MemoryError
        return honest(*given)

    monkeypatch.setattr(Chunks, "evaluate", failing)
    shutil.copytree(source, tmp_path / "dying")
    found, _ = play(tmp_path / "dying", pair, side=0, at=-1, after=False)
    assert calls > at
    assert found == expected
