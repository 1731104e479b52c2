"""How the leader talks to the helper: signed requests, signed answers, patience.

A request is signed over version, time, method, path and body; its answer over the request's signature, the status and
the body. So an answer cannot be taken for the answer to another request, and nobody in between can change either.

Knows HTTP and signatures. Knows no database.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Any

import msgspec

from ...errors import InvalidInput, PeerAway, Refused, optional, printable
from ...sharing.pair import Operator
from ...sharing.sealing import is_signed, sign
from ...sharing.wire import MAX_BODY

VERSION = 2
CLOCK_SECONDS = 300
ANSWER_HEADER = "semilocal-signature"
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 120.0
LONGEST_ANSWER = 600.0  # seconds for a whole answer, however steadily it drips in
SHORT_BODY = 65_536
_HEADER = re.compile(r"Semilocal-Peer ([0-9]{1,3}):([0-9]{1,12}):([0-9a-f]{64}):([0-9a-f]{128})")


def authorization(secret: bytes, method: str, path: str, body: bytes, *, now: float) -> tuple[str, bytes]:
    """The header of a request to the other server, and the signature in it."""
    digest = hashlib.sha256(body).digest()
    signature = sign(secret, "request", *_request(VERSION, int(now), method, path, digest))
    return f"Semilocal-Peer {VERSION}:{int(now)}:{digest.hex()}:{signature.hex()}", signature


def check_request(header: str, key: bytes, method: str, path: str, *, now: float) -> tuple[bytes, bytes]:
    """The signature of a request by the other server, and the digest that its body must have.

    The body need not be there yet: nobody else can make a server read one.
    """
    found = _HEADER.fullmatch(header)
    if found is None:
        raise Refused("bad-signature", "send Authorization: Semilocal-Peer version:time:digest:signature")
    version, time, digest, signature = int(found[1]), int(found[2]), bytes.fromhex(found[3]), bytes.fromhex(found[4])
    if version != VERSION:
        raise Refused("other-version", f"the leader speaks version {version}, this server version {VERSION}")
    if not is_signed(signature, key, "request", *_request(version, time, method, path, digest)):
        raise Refused("bad-signature", f"the request is not signed with the pair's leader key {key.hex()[:16]}…")
    if abs(now - time) > CLOCK_SECONDS:
        raise Refused(
            "wrong-clock",
            f"the leader's clock shows {time}, this server's {int(now)}; they may differ by {CLOCK_SECONDS} s",
        )
    return signature, digest


def answer_signature(secret: bytes, request: bytes, status: int, body: bytes) -> bytes:
    """The signature of an answer to a request with this signature."""
    return sign(secret, "answer", *_answer(request, status, body))


def _request(version: int, time: int, method: str, path: str, digest: bytes) -> tuple[bytes, ...]:
    return version.to_bytes(2, "big"), time.to_bytes(8, "big"), method.encode(), path.encode(), digest


def _answer(request: bytes, status: int, body: bytes) -> tuple[bytes, ...]:
    return request, status.to_bytes(2, "big"), hashlib.sha256(body).digest()


class Peer:
    """The other server, as the leader sees it."""

    def __init__(self, url: str, **options: Any) -> None:
        httpx2 = optional("httpx2", "service")
        self.url = url.rstrip("/")
        self._errors = (httpx2.HTTPError, httpx2.InvalidURL)
        timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        self._client = httpx2.AsyncClient(
            **{"base_url": self.url, "timeout": timeout, "trust_env": False, "follow_redirects": False, **options}
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def operator(self) -> Operator:
        """Who the other server says it is, with the sealing key for the next pair."""
        body, _ = await self._send("GET", "/operator", b"", {}, limit=SHORT_BODY)
        try:
            found = msgspec.json.decode(body)
            if found["role"] != "helper":
                raise PeerAway(f"the server at {self.url} must be a helper; it says {printable(str(found['role']))}")
            keys = bytes.fromhex(found["signing_key"]), bytes.fromhex(found["sealing_key"])
            return Operator(found["name"], found["origin"], *keys)
        except (msgspec.DecodeError, InvalidInput, KeyError, TypeError, ValueError, RecursionError) as error:
            reason = printable(str(error))
            raise PeerAway(f"the server at {self.url} does not say who its operator is: {reason}") from None

    async def step(self, path: str, body: bytes, *, secret: bytes, key: bytes, now: float) -> bytes:
        """Send a signed request; the answer's bytes, if they are signed by the other server."""
        header, signature = authorization(secret, "POST", path, body, now=now)
        headers = {"authorization": header, "content-type": "application/msgpack"}
        answer, signed = await self._send("POST", path, body, headers, limit=MAX_BODY)
        given = bytes.fromhex(signed) if re.fullmatch("([0-9a-f]{2})*", signed) else b""
        if not is_signed(given, key, "answer", *_answer(signature, 200, answer)):
            words = f"the answer from {self.url} is not signed with the helper's key {key.hex()[:16]}…"
            raise PeerAway(words, refuses=bool(signed))
        return answer

    async def _send(
        self, method: str, path: str, body: bytes, headers: dict[str, str], *, limit: int
    ) -> tuple[bytes, str]:  # fmt: skip
        """One request, without redirects: the body of a good answer and its signature; one too long is cut off."""
        try:
            async with (
                asyncio.timeout(LONGEST_ANSWER),
                self._client.stream(method, path, content=body, headers=headers) as answer,
            ):
                parts, length = [], 0
                async for part in answer.aiter_bytes():
                    length += len(part)
                    if length > limit:
                        raise PeerAway(f"the answer from {self.url} has more than {limit:,} bytes")
                    parts.append(part)
        except (*self._errors, TimeoutError) as error:
            reason = printable(str(error)) or type(error).__name__
            raise PeerAway(f"the helper at {self.url} does not answer ({reason})") from None
        if answer.status_code != 200:
            raise _refusal(answer.status_code, b"".join(parts))
        return b"".join(parts), answer.headers.get(ANSWER_HEADER, "")


def _refusal(status: int, body: bytes) -> PeerAway:
    """Why the other server refuses, without control characters; a proxy may have answered in its place."""
    try:
        problem = msgspec.json.decode(body)
        words = printable(f"{problem['detail']} [{problem['token']}]")
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, RecursionError):
        return PeerAway(f"the helper refuses: status {status}; is this a semilocal server?")
    return PeerAway(f"the helper refuses: {words}", refuses=status < 500 and status not in (408, 429))
