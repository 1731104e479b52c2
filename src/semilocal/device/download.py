"""Downloads the transcript of a campaign from its server: closed rounds, in order, as they are streamed.

What the server publishes is written as it came, its checkpoints included; nothing is believed here and nothing is
repaired. :mod:`semilocal.transcript.verify` judges the file afterwards. What is not an answer of a semilocal server
ends the download with a reason. One client for all: a transcript of a million reports is a thousand requests over one
connection.

Knows the public routes (``spec/http.md``). Sends no key and no pseudonym of the one who asks.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias, TypeVar

import msgspec

from ..errors import InvalidInput, Lost, ServerViolation, Unavailable, printable
from ..protocol.messages import MAX_ROUND, Checkpoint, Seal, ValueQuery, decode, decode_query, decode_report
from ..protocol.task import Task
from ..sharing import is_pair_task
from ..transcript.checkpoints import next_head
from ..transcript.file import TranscriptWriter
from ..whole_file import whole_file
from .channel import JSON, MSGPACK, describe, problem_of
from .transport import HttpxWire, new_client

T = TypeVar("T")
_PAGE = 1000
Get: TypeAlias = Callable[[str], bytes | None]
SECONDS = 120.0  # for one answer, however steadily it drips in
MOST_BYTES = 64 << 20  # of one answer
MOST_TOTAL = 64 << 30  # of all answers together


class Getter:
    """Gives the body of a public route of a server, or None if the server says that there is none.

    To be used in a ``with`` statement, and called with the path of a route. A server that does not answer, answers too
    slowly (``seconds`` for one answer), too much (``most_bytes`` in one, ``most_total`` in all), or something else, is
    ``Unavailable``.
    """

    def __init__(
        self, url: str, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES, most_total: int = MOST_TOTAL
    ) -> None:
        self._base = url.rstrip("/")
        if not re.fullmatch(r"https?://[^/\s].*", self._base):
            raise InvalidInput(f"the server must be an http:// or https:// address; got {url!r}")
        self._client = new_client(connections=1)
        self._wire = HttpxWire(self._client, most_bytes=most_bytes, seconds=seconds)
        self._runner, self._left = asyncio.Runner(), most_total

    def __enter__(self) -> Getter:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def __call__(self, path: str) -> bytes | None:
        """The body of a route."""
        address = self._base + path
        try:
            answer = self._runner.run(self._wire.request("GET", address, None, {}))
        except (Lost, ServerViolation) as error:
            raise Unavailable(f"{address} gave no whole answer ({error}); try again later") from None
        if 300 <= answer.status < 400:
            raise Unavailable(f"{address} answered with a redirect, which is not followed; give the address itself")
        problem = problem_of(answer)
        if problem is not None and problem.status == 404:
            return None
        if problem is not None:
            raise Unavailable(f"{address} answered {problem.status}: {problem.detail}")
        is_json = path == "/tasks" or path.endswith("/state")
        if answer.status != 200 or answer.media_type != (JSON if is_json else MSGPACK):
            raise Unavailable(f"{address} gave {describe(answer)}: no semilocal server, or something before it")
        self._left -= len(answer.body)
        if self._left < 0:
            raise Unavailable(f"{address} makes more than all answers together may have; that is not a transcript")
        return answer.body


class _State(msgspec.Struct):
    closed: Annotated[int, msgspec.Meta(ge=0, le=MAX_ROUND)]


class _Row(msgspec.Struct):
    task: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    name: str


def save_transcript(url: str, campaign: str, path: str | os.PathLike[str]) -> int:
    """Write the transcript of a campaign, by its task's id in hex or its name; returns the closed rounds, 0 for two
    servers.
    """
    with whole_file(Path(os.path.realpath(path))) as part, part.open("wb") as stream, Getter(url) as get:
        return download(get, campaign, stream)


def download(get: Get, campaign: str, stream: BinaryIO) -> int:
    """Write the transcript to a stream. ``get(path)`` gives the body of a public route, or None if there is none (404).

    A server that does not give what a transcript needs, or gives something else, is ``Unavailable``.
    """
    try:
        return _download(get, campaign, stream)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"the server's answer is not what a transcript needs: {printable(str(error))}") from None


def _download(get: Get, campaign: str, stream: BinaryIO) -> int:
    name = campaign if re.fullmatch("[0-9a-f]{64}", campaign) else _find(get, campaign)
    base = f"/tasks/{name}"
    definition = _need(get, base)
    if is_pair_task(definition):
        signed = get(f"{base}/transcript")
        if signed is None:
            raise Unavailable("the two servers have not published the transcript of this task yet")
        stream.write(signed)
        return 0
    task = _read(definition, lambda data: decode(data, Task), base)
    if task.id.hex() != name:
        raise Unavailable("the server gave another task than the one asked for")
    closed = msgspec.json.decode(_need(get, f"{base}/state"), type=_State).closed
    plan: bytes | None = None
    with TranscriptWriter(stream, task) as writer:
        for number in range(1, closed + 1):
            round_ = f"{base}/rounds/{number}"
            query = _need(get, f"{round_}/query")
            if plan is None and isinstance(_read(query, decode_query, round_), ValueQuery):
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
    if (sealed := get(f"{round_}/seal")) is not None:
        return _read(sealed, lambda data: decode(data, Seal), f"{round_}/seal")
    path = f"{round_}/checkpoint"
    point = _read(_need(get, path), lambda data: decode(data, Checkpoint), path)
    return Seal(point, next_head(head, point))


def _pages(get: Get, round_: str) -> Iterator[list[bytes]]:
    after = ""
    while True:
        query = f"?limit={_PAGE}" + (f"&after={after}" if after else "")
        page = msgspec.msgpack.decode(_need(get, f"{round_}/reports{query}"), type=list[bytes])
        if not page:
            return
        if len(page) > _PAGE:
            raise Unavailable(f"the server sent {len(page):,} reports in a page; at most {_PAGE:,} were asked for")
        yield page
        last = _read(page[-1], decode_report, f"{round_}/reports").pseudonym.hex()
        if last <= after:
            raise Unavailable("the server's pages of reports do not go on")
        after = last


def _find(get: Get, campaign: str) -> str:
    rows = msgspec.json.decode(_need(get, "/tasks"), type=list[_Row])
    found = [row.task for row in rows if row.name == campaign]
    if len(found) != 1:
        raise InvalidInput(f"there are {len(found)} campaigns called {campaign!r}; give the task's id, 64 hex digits")
    return found[0]


def _need(get: Get, path: str) -> bytes:
    data = get(path)
    if data is None:
        raise Unavailable(f"the server has no {path}")
    return data


def _read(data: bytes, read: Callable[[bytes], T], path: str) -> T:
    """What a message of the server says."""
    try:
        return read(data)
    except InvalidInput as error:
        raise Unavailable(f"{path}: {printable(str(error))}") from None
