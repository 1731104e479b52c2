"""Public answers of a server over HTTP: bounded in size and time, from that server and no other, of the expected type.

A proxy, a captive portal or a server that means harm may answer with a page, a redirect, half an answer or one without
an end. Each of these becomes a reason in one line. Knows HTTP, and which routes are JSON.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from ..errors import InvalidInput, Unavailable, printable

__all__ = ["Get", "getter"]

Get: TypeAlias = Callable[[str], bytes | None]
SECONDS = 120.0  # for one answer, however steadily it drips in
SILENCE = 60.0  # seconds without a byte
MOST_BYTES = 64 << 20  # of one answer
MOST_TOTAL = 64 << 30  # of all answers together
_CHUNK = 1 << 16
_PROBLEM = "application/problem+json"


def getter(url: str, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES, most_total: int = MOST_TOTAL) -> Get:
    """A function that gives the body of a public route of a server, or None if the server says that there is none.

    Parameters
    ----------
    url : str
        The server.
    seconds, most_bytes : float, int
        For one answer.
    most_total : int
        Bytes of all answers together.

    Raises
    ------
    Unavailable
        By the function, if the server does not answer, answers too slowly, too much, or something else.
    """
    base = url.rstrip("/")
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).hostname:
        raise InvalidInput(f"the server must be an http:// or https:// address; got {url!r}")
    left = most_total

    def get(path: str) -> bytes | None:
        nonlocal left
        address, wanted = base + path, _media_type_of(path)
        deadline = _Deadline(seconds)
        try:
            with deadline, deadline.opener().open(address, timeout=min(SILENCE, seconds)) as answer:
                kind = answer.headers.get_content_type()
                if answer.status != 200 or kind != wanted:
                    raise Unavailable(_no_answer(address, answer.status, kind))
                body = _read(answer, min(most_bytes, left), address)
            if deadline.over:  # what was read may be cut off by ourselves
                raise TimeoutError
        except urllib.error.HTTPError as error:
            with error:
                kind = error.headers.get_content_type()
                if error.code == 404 and kind == _PROBLEM:
                    return None
                if kind == _PROBLEM:
                    raise Unavailable(f"{address} answered {error.code}") from None
                raise Unavailable(_no_answer(address, error.code, kind)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            if deadline.over:
                raise Unavailable(f"{address} took longer than {seconds:g} s; try again later") from None
            if isinstance(error, http.client.IncompleteRead):
                raise Unavailable(f"{address} broke off after {len(error.partial):,} bytes; try again") from None
            reason = printable(str(getattr(error, "reason", "") or error) or type(error).__name__)
            raise Unavailable(f"{base} cannot be reached: {reason}") from None
        left -= len(body)
        return body

    return get


def _media_type_of(path: str) -> str:
    return "application/json" if path == "/tasks" or path.endswith("/state") else "application/msgpack"


def _no_answer(address: str, status: int, kind: str) -> str:
    if 300 <= status < 400:
        return f"{address} answered with a redirect ({status}), which is not followed; give the address itself"
    return f"{address} answered {status} with {printable(kind, most=60)}: no semilocal server, or something before it"


def _read(answer: Any, most: int, address: str) -> bytes:
    length = answer.headers.get("Content-Length")
    parts, size = [], 0
    while part := answer.read1(_CHUNK):
        size += len(part)
        if size > most:
            raise Unavailable(f"{address} sent more than {most:,} bytes; that is no transcript")
        parts.append(part)
    if length is not None and length.isdigit() and size < int(length):
        raise http.client.IncompleteRead(b"".join(parts))
    return b"".join(parts)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class _Deadline:
    """Closes the connections of an opener when the time is over: a read that hangs or drips then ends."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._close)
        self._timer.daemon = True
        self._sockets: list[socket.socket] = []

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._ends

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _close(self) -> None:
        for opened in self._sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def opener(self) -> urllib.request.OpenerDirector:
        """An opener that follows no redirects and whose sockets are watched."""
        watched = self._sockets

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                watched.append(self.sock)

        class Secure(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                watched.append(self.sock)

        class PlainHandler(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(Plain, req)

        class SecureHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(Secure, req)

        return urllib.request.build_opener(_NoRedirects, PlainHandler, SecureHandler)
