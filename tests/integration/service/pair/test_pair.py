"""Two services over HTTP, in process: from the proposal to the signed transcript, and what is refused on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from semilocal.pooled import replay
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import MockClock
from tests.helpers.pairs import crowd
from tests.helpers.running_pair import Pair, running_pair


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    opened = [open_store(f"sqlite:///{tmp_path / name}.db") for name in ("leader", "helper")]
    yield opened[0], opened[1]
    for store in opened:
        store.close()


def run(stores: tuple[Store, Store], test: Callable[[Pair], Awaitable[None]], clock: MockClock | None = None) -> None:
    async def body() -> None:
        async with running_pair(stores, clock or MockClock()) as pair:
            await test(pair)

    asyncio.run(body())


def test_a_pair_counts_a_crowd(stores: tuple[Store, Store]) -> None:
    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(300))
        signed = await servers.finish(pair)
        assert signed.is_signed_by("leader")
        assert signed.is_signed_by("helper")
        (published,) = signed.published()
        tree = replay(published)
        assert tree.people == 300
        assert len(tree.cells) > 5
        assert not published.simulated
        assert (await servers.state(pair))["phase"] == "done"
        assert (await servers.state(pair, 1))["phase"] == "done"

    run(stores, body)
