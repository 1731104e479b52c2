"""Connections that take what they can: half a request each, or as many bytes as anybody will have."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import HANG

REQUEST = b"GET /tasks HTTP/1.1\r\nHost: x\r\n\r\n"
HALVES = (b"GET /tasks HTTP/1.1\r\nHo", b"PUT /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nx", b"")
GREEDY = (
    (b"GET /", b"a" * 65_536),
    (b"GET / HTTP/1.1\r\nX: ", b"a" * 65_536),
    (REQUEST, REQUEST * 1000),
    (b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"a" * 65_536),
)


def trusting(certificate: Path | None) -> ssl.SSLContext | None:
    """A context that trusts one certificate; None without one."""
    return None if certificate is None else ssl.create_default_context(cafile=str(certificate))


def connect(port: int, context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=HANG)
    return plain if context is None else context.wrap_socket(plain, server_hostname="127.0.0.1")


@contextlib.contextmanager
def raised_file_limit() -> Iterator[int]:
    """Let this process open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def half_open(port: int, count: int, context: ssl.SSLContext | None = None) -> Iterator[list[socket.socket]]:
    """So many connections that sent half a request each, for as long as the block lasts."""
    with raised_file_limit(), contextlib.ExitStack() as stack:
        opened = []
        for number in range(count):
            connection = stack.enter_context(contextlib.closing(connect(port, context)))
            with contextlib.suppress(OSError):
                connection.sendall(HALVES[number % len(HALVES)])
            opened.append(connection)
        yield opened


@contextlib.contextmanager
def greedy(port: int, count: int, context: ssl.SSLContext | None = None) -> Iterator[None]:
    """So many connections that sent as much as was taken from them, up to 6 MB each."""
    with contextlib.ExitStack() as stack:
        for number in range(count):
            connection = stack.enter_context(contextlib.closing(connect(port, context)))
            start, piece = GREEDY[number % len(GREEDY)]
            with contextlib.suppress(OSError):
                connection.sendall(start)
                connection.settimeout(0.2)
                for _ in range(100):
                    connection.sendall(piece)
        yield
