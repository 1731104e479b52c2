"""Downloads the transcript of a campaign from its server: closed rounds, in order, as they are streamed.

What the server publishes is written as it came, its checkpoints included; nothing is believed here and nothing is
repaired. :mod:`semilocal.transcript.verify` judges the file afterwards.

Knows the public routes (``spec/http.md``). Sends no key and no pseudonym of the one who asks.
"""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..errors import InvalidInput, Unavailable
from ..protocol.messages import ValueQuery, decode, decode_query, decode_report
from ..protocol.task import Task
from .checkpoints import Checkpoint, Seal, next_head
from .file import TranscriptWriter

__all__ = ["download", "save_transcript"]

Get = Callable[[str], bytes | None]
_PAGE = 1000
_TIMEOUT = 60.0


def save_transcript(url: str, campaign: str, path: str | os.PathLike[str]) -> int:
    """Write the transcript of a campaign to a file; returns the number of closed rounds.

    Parameters
    ----------
    url : str
        The server.
    campaign : str
        The task's id in hex, or the campaign's name.
    """
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as stream:
            rounds = download(_getter(url), campaign, stream)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return rounds


def download(get: Get, campaign: str, stream: BinaryIO) -> int:
    """Write the transcript to a stream.

    Parameters
    ----------
    get : callable
        ``get(path)`` gives the body of a public route, or None if there is none (404).
    """
    name = campaign if re.fullmatch("[0-9a-f]{64}", campaign) else _find(get, campaign)
    base = f"/tasks/{name}"
    task = decode(_need(get, base), Task)
    if task.id.hex() != name:
        raise Unavailable("the server gave another task than the one asked for")
    closed = int(msgspec.json.decode(_need(get, f"{base}/state"))["closed"])
    plan: bytes | None = None
    with TranscriptWriter(stream, task) as writer:
        for number in range(1, closed + 1):
            round_ = f"{base}/rounds/{number}"
            query = _need(get, f"{round_}/query")
            if plan is None and _is_value_query(query):
                plan = _need(get, f"{base}/plan")
                writer.add([plan])
            writer.add([query])
            for page in _pages(get, round_):
                writer.add(page)
            writer.add([_need(get, f"{round_}/closed")])
            writer.put_seal(_seal(get, round_, writer.head))
    return closed


def _seal(get: Get, round_: str, head: bytes) -> Seal:
    """The server's seal, or its checkpoint unsigned."""
    sealed = get(f"{round_}/seal")
    if sealed is not None:
        return decode(sealed, Seal)
    point = decode(_need(get, f"{round_}/checkpoint"), Checkpoint)
    return Seal(point, next_head(head, point))


def _pages(get: Get, round_: str) -> Iterator[list[bytes]]:
    after = ""
    while True:
        query = f"?limit={_PAGE}" + (f"&after={after}" if after else "")
        page = msgspec.msgpack.decode(_need(get, f"{round_}/reports{query}"), type=list[bytes])
        if not page:
            return
        yield page
        last = decode_report(page[-1]).pseudonym.hex()
        if last <= after:
            raise Unavailable("the server's pages of reports do not go on")
        after = last


def _is_value_query(data: bytes) -> bool:
    return isinstance(decode_query(data), ValueQuery)


def _find(get: Get, campaign: str) -> str:
    found = [row["task"] for row in msgspec.json.decode(_need(get, "/tasks")) if row["name"] == campaign]
    if len(found) != 1:
        raise InvalidInput(f"there are {len(found)} campaigns called {campaign!r}; give the task's id, 64 hex digits")
    return str(found[0])


def _need(get: Get, path: str) -> bytes:
    data = get(path)
    if data is None:
        raise Unavailable(f"the server has no {path}")
    return data


def _getter(url: str) -> Get:
    base = url.rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise InvalidInput(f"the server must be an http:// or https:// address; got {url!r}")

    def get(path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(base + path, timeout=_TIMEOUT) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                raise Unavailable(f"{base + path} answered {error.code}") from None
        except OSError as error:
            raise Unavailable(f"{base} cannot be reached: {error}") from None

    return get
