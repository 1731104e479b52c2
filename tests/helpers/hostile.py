"""A server that answers whatever a test wants, byte by byte: pages, redirects, half an answer, one without an end."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

Pieces = Iterable[bytes]
Route = Callable[[], Pieces]

JSON, MSGPACK, PROBLEM = "application/json", "application/msgpack", "application/problem+json"


def answer(body: bytes, kind: str = JSON, *, status: int = 200, length: int | None = None, more: str = "") -> bytes:
    """A whole HTTP answer; ``length`` may be wrong, and ``more`` are headers that end with a line break."""
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\nConnection: close\r\n{more}\r\n"
    return head.encode() + body


def problem(status: int, token: str, detail: str) -> bytes:
    """A refusal in the form of our server."""
    fields = {"type": f"urn:semilocal:problem:{token}", "token": token, "status": status, "detail": detail}
    return answer(json.dumps(fields).encode(), PROBLEM, status=status)


def forever(piece: bytes) -> Iterator[bytes]:
    """The same piece again and again."""
    while True:
        yield piece


def endless(kind: str = JSON) -> Iterator[bytes]:
    """An answer whose body does not end."""
    yield f"HTTP/1.1 200 x\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()
    yield from forever(b'"' + b"x" * 65_536)


class Hostile:
    """Answers by path; ``otherwise`` (404 in our words) is for other paths.

    Attributes
    ----------
    asked : list of str
        Request lines, in the order they came.
    pause : float
        Seconds between two pieces of an answer.
    """

    def __init__(
        self, routes: Mapping[str, bytes | Route] | None = None, *, pause: float = 0.0, otherwise: bytes = b""
    ) -> None:
        self.routes: dict[str, bytes | Route] = dict(routes or {})
        self.asked: list[str] = []
        self.pause = pause
        self._otherwise = otherwise or problem(404, "no-such-route", "nothing here")
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(0.1)
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Hostile:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(0.2)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            line = self._read_head(connection)
            self.asked.append(line)
            path = line.split(" ")[1] if " " in line else ""
            route = self.routes.get(path, self._otherwise)
            for piece in [route] if isinstance(route, bytes) else route():
                self._send(connection, piece)
                if self._stop.wait(self.pause):
                    return

    def _send(self, connection: socket.socket, piece: bytes) -> None:
        while piece and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                piece = piece[connection.send(piece) :]

    def _read_head(self, connection: socket.socket) -> str:
        data = b""
        while b"\r\n\r\n" not in data and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                part = connection.recv(65_536)
                if not part:
                    break
                data += part
        return data.split(b"\r\n", 1)[0].decode("latin-1")
