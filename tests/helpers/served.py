"""The application behind uvicorn, on a real socket, in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from semilocal.service.server import bind
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import MockClock, build_app
from tests.helpers.service import open_campaign, sample_task

__all__ = ["SOON", "answer", "served"]

SOON = 120.0  # seconds after which a test gives up waiting for what must come


def _one_campaign(store: Store) -> None:
    store.create(open_campaign(sample_task()), needed=None, deadline=None)


@contextlib.contextmanager
def served(
    tmp_path: Path, *, prepare: Callable[[Store], None] = _one_campaign, keep_alive: int = 65,
    clock: Callable[[], float] | None = None,
) -> Iterator[tuple[str, int]]:  # fmt: skip
    """The application, with uvicorn's options as the service sets them; its address."""
    store = open_store(f"sqlite:///{tmp_path / 'service.db'}")
    prepare(store)
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        build_app(store, clock or MockClock(), interval=0.05)[0], lifespan="on", http="httptools", log_config=None,
        ws="none", timeout_keep_alive=keep_alive, proxy_headers=False, server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        store.close()


def answer(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    connection.settimeout(SOON)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)
