"""A clock that you move by hand, and the service in this process, without a socket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import optional

if TYPE_CHECKING:
    import httpx2

    from ..service.app import App
    from ..service.keys import Keyring
    from ..service.stores.base import Store
    from ..service.worker import Service

ADMIN_TOKEN = "sla_0123456789-admin-token-of-the-tests"
SIGNING_KEY = hashlib.sha256(b"the signing key of tests").digest()


class MockClock:
    """Time that moves when you say so, or when a device waits. The service calls it; a device sleeps on it.

    Examples
    --------
    >>> clock = MockClock(100.0)
    >>> clock.advance(5)
    >>> clock(), clock.time()
    (105.0, 105.0)
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def time(self) -> float:
        """Seconds now."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass at once, and note how long."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class RunningApp(NamedTuple):
    """An HTTP client that talks to the application in process, the worker behind it, and the application."""

    client: httpx2.AsyncClient
    service: Service
    app: App


@contextlib.asynccontextmanager
async def running_app(
    store: Store, clock: Callable[[], float], *, interval: float | None = None, **options: Any
) -> AsyncIterator[RunningApp]:
    """Run the service in this process, without a socket.

    Parameters
    ----------
    store : Store
        As from ``service.stores.base.open_store``.
    clock : callable
        ``time.time``, or a :class:`MockClock`.
    interval : float, optional
        Seconds between the looks of the worker at deadlines; without it, call ``service.tick()``.
    **options
        Of ``service.worker.Service``.

    Notes
    -----
    Routes of the administrator take :data:`ADMIN_TOKEN`. Faults of the application are raised in your test.
    """
    app, service = build_app(store, clock, interval=interval, **options)
    await service.start()
    try:
        async with client_of(app) as client:
            yield RunningApp(client, service, app)
    finally:
        await service.stop()


def build_app(
    store: Store, clock: Callable[[], float], *, interval: float | None = None, **options: Any
) -> tuple[App, Service]:
    """The application over a store, and the worker behind it, not started; see :func:`running_app`."""
    from ..service.app import App
    from ..service.keys import admin_hash
    from ..service.worker import Service

    if "keys" not in options:
        options["keys"] = keys_for_tests(store)
    options.setdefault("monotonic", clock)
    options.setdefault("patience", 60.0)  # a busy machine is not a hung database
    service = Service(store, clock=clock, interval=interval, **options)
    return App(service, admin=admin_hash(ADMIN_TOKEN)), service


def keys_for_tests(store: Store) -> Keyring:
    """A signing key for tests, registered in the store; the same every time."""
    from ..service.keys import Keyring

    keys = Keyring.of([SIGNING_KEY])
    store.set_setting("server-key", keys.current)
    return keys


def client_of(app: App) -> httpx2.AsyncClient:
    """A client that talks to the application in process."""
    loaded = optional("httpx2", "service")
    client: httpx2.AsyncClient = loaded.AsyncClient(
        transport=loaded.ASGITransport(app=app), base_url="http://service.test"
    )
    return client
