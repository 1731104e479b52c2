"""Tests of services may be coroutines: they run in the event loop of their fixtures, one server or two."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from semilocal.service.app import App
from semilocal.service.stores.base import Store
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from semilocal.testing import MockClock, running_app
from tests.helpers import HANG
from tests.helpers.running_pair import Pair, opened, running_pair

Running = tuple[httpx2.AsyncClient, Service, App]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "served(**options): how the application of a test runs")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.function).parameters}
    runner = pyfuncitem.funcargs["loop"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(asyncio.wait_for(pyfuncitem.function(**given), HANG))
    return True


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def lasting(loop: asyncio.Runner, context: Any) -> Iterator[Any]:
    """What an asynchronous context gives, for as long as a test lasts."""
    yield loop.run(context.__aenter__())
    loop.run(context.__aexit__(None, None, None))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(str(tmp_path / "service.db"))
    yield store
    store.close()


@pytest.fixture
def running(loop: asyncio.Runner, sqlite: SQLiteStore, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A client of the application on a fresh database, its service, and itself."""
    mark = request.node.get_closest_marker("served")
    options: dict[str, Any] = {"clock": MockClock(), **(mark.kwargs if mark else {})}
    yield from lasting(loop, running_app(sqlite, options.pop("clock"), **options))


@pytest.fixture
def client(running: Running) -> httpx2.AsyncClient:
    return running[0]


@pytest.fixture
def service(running: Running) -> Service:
    return running[1]


@pytest.fixture
def app(running: Running) -> App:
    return running[2]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two fresh databases: of the leader and of the helper."""
    with opened(tmp_path) as both:
        yield both


@pytest.fixture
def servers(loop: asyncio.Runner, stores: tuple[Store, Store]) -> Iterator[Pair]:
    """A leader and a helper."""
    yield from lasting(loop, running_pair(stores, MockClock()))
