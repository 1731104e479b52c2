"""The administrator's client: one set of calls, to a running server or to the application in this process.

Knows the administrator's routes (``spec/http.md``). Knows no arguments of the command line. With a
database, the application runs in process and gets the same requests. Answers are bounded in size and time, redirects
are not followed, and what is not an answer of a semilocal server is refused with a reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import secrets
import time
from types import TracebackType
from typing import Any

import msgspec

from ..errors import InvalidInput, Lost, MissingExtra, Refused
from ..protocol.messages import Event, decode, decode_event
from ..protocol.plan import Plan
from ..protocol.promise import promise
from ..protocol.task import Task
from ..service.campaign import CampaignForm
from ..service.pair.form import PairForm
from .documents import CampaignState, Created, Key, OperatorKeys, PairState, Results, Row, Tokens, read_document

__all__ = ["AdminClient"]

PAGE = 10_000  # tokens that a server makes at once
TIMEOUT = 60.0
LONGEST_ANSWER = 120.0  # seconds for one answer, however steadily it drips in
MOST_BYTES = 256 << 20
CONNECT = 3.0
JSON, MSGPACK, GEOJSON = "application/json", "application/msgpack", "application/geo+json"
_NO_ROUTE = "no-such-route"


class AdminClient:
    """An administrator's calls; tasks are named by hex digits. To be used in a ``with`` statement.

    Parameters
    ----------
    url : str
        Of the server, such as ``http://127.0.0.1:8000``.
    token : str
        The admin token; empty for what everybody may read.
    database : str, optional
        Run the application on this database in process instead; needs no token.
    """

    def __init__(self, url: str = "", token: str = "", *, database: str = "") -> None:
        try:
            import httpx2

            from ..device.transport import HttpxWire
        except ImportError:
            raise MissingExtra("httpx2", "service") from None
        self._runner = asyncio.Runner()
        self._service: Any = None
        options: dict[str, Any] = {}
        if database:
            url, token = "http://in.process", secrets.token_urlsafe(24)
            options["transport"] = httpx2.ASGITransport(self._application(database, token))
        self.url, self._token = url.rstrip("/"), token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(TIMEOUT, connect=CONNECT)
        try:
            self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, follow_redirects=False, **options)
            httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise InvalidInput(f"{self.url} is not an address of a server: {error}") from None
        self._wire = HttpxWire(self._client, most_bytes=MOST_BYTES, seconds=LONGEST_ANSWER)

    def _application(self, database: str, token: str) -> Any:
        from ..service.admin import admin_hash
        from ..service.app import create_app
        from ..service.keys import ENVIRONMENT, key_file, open_keys, registered_key
        from ..service.stores.base import open_store
        from ..service.worker import Service

        store = open_store(database, worker="office")
        if registered_key(store) is None:  # no server has used it: campaigns need a key to pin
            open_keys(store, file=key_file(database), environment=os.environ.get(ENVIRONMENT, ""))
        self._service = Service(store, clock=time.time, interval=None)
        return create_app(self._service, admin=admin_hash(token))

    def __enter__(self) -> AdminClient:
        if self._service is not None:
            self._runner.run(self._service.start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._runner.run(self._client.aclose())
        if self._service is not None:
            self._runner.run(self._service.stop())
            self._service.store.close()
        self._runner.close()

    def request(self, method: str, path: str, body: object = None, *, admin: bool = False, accept: str = JSON) -> bytes:
        """Send one request; the body of the answer, or a refusal in words.

        Raises
        ------
        Refused
            If the server refuses, with its reason.
        InvalidInput
            If it does not answer, or is none of ours: ``accept`` is the media type of a good answer.
        """
        from ..device.answers import describe, problem_of

        if admin and not self._token:
            raise InvalidInput(
                "this needs the admin token: set SEMILOCAL_ADMIN_TOKEN or give --admin-token; `semilocal serve` shows "
                "it at its first start"
            )
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._runner.run(self._wire.request(method, self.url + path, content, {}))
        except Lost as error:
            raise InvalidInput(
                f"the server at {self.url} does not answer ({error}); is `semilocal serve` running there?"
            ) from None
        problem = problem_of(answer)
        if problem is not None:
            raise Refused(problem.token, f"{method} {path}: {answer.status} {problem.detail} [{problem.token}]")
        if answer.status in (200, 201) and answer.media_type == accept:
            return answer.body
        advice = "is this a semilocal server?"
        if 300 <= answer.status < 400:
            advice = "redirects are not followed, or the token would go elsewhere: give the address itself with --url"
        raise InvalidInput(f"{method} {path}: {self.url} answered {describe(answer)}; {advice}")

    def _document(self, path: str, *, admin: bool = False, accept: str = JSON) -> Any:
        return self._parsed(self.request("GET", path, admin=admin, accept=accept), path)

    def _parsed(self, data: bytes, path: str) -> Any:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise InvalidInput(f"{self.url}{path}: the answer is cut off or no JSON; try again") from None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The server's public key."""
        return bytes.fromhex(read_document(self._document("/key"), Key, "the key").server_key)

    def create(self, form: CampaignForm) -> str:
        """Create a campaign; its task."""
        answer = self._parsed(self.request("POST", "/tasks", form, admin=True), "/tasks")
        return read_document(answer, Created, "the answer").task

    def operator(self) -> OperatorKeys:
        """Who runs a server of a pair, and its keys."""
        return read_document(self._document("/operator"), OperatorKeys, "the operator")

    def create_pair(self, form: PairForm) -> str:
        """Create a pair of two servers; its task."""
        answer = self._parsed(self.request("POST", "/pairs", form, admin=True), "/pairs")
        return read_document(answer, Created, "the answer").task

    def confirm(self, task: str) -> None:
        """Agree to a pair of two servers."""
        self.request("POST", f"/tasks/{task}/confirm", admin=True)

    def campaigns(self) -> list[Row]:
        """All campaigns."""
        return read_document(self._document("/tasks"), list[Row], "the list of campaigns")

    def find(self, name: str) -> str:
        """The task of the campaign with this task id, the beginning of one, or name."""
        rows = self.campaigns()
        exact = [row.task for row in rows if row.task == name]
        found = exact or [row.task for row in rows if row.task.startswith(name) or row.name == name]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{row.task[:12]} ({row.name})" for row in rows[:20]) or "none"
        advice = "; give the beginning of its id" if found else ""
        raise InvalidInput(
            f"{len(found)} campaigns match {name!r}; there are: {listed}{', …' * (len(rows) > 20)}{advice}"
        )

    def name(self, task: str) -> str:
        """The name of a campaign, for people."""
        return next((row.name for row in self.campaigns() if row.task == task), task[:12])

    def state(self, task: str) -> CampaignState | PairState:
        """Where a campaign stands, with the reports of the open round for who has the admin token."""
        what = "progress" if self._token else "state"
        document = self._document(f"/tasks/{task}/{what}", admin=bool(self._token))
        if isinstance(document, dict) and document.get("kind") == "pair":
            return read_document(document, PairState, "the state of the pair")
        return read_document(document, CampaignState, "the state of the campaign")

    def task(self, task: str) -> bytes:
        """The bytes of the task; its id is checked."""
        data = self.request("GET", f"/tasks/{task}", accept=MSGPACK)
        if hashlib.sha256(data).hexdigest() != task:
            raise InvalidInput(f"{self.url} gave another task than {task[:12]}…")
        return data

    def transcript(self, task: str) -> bytes:
        """What the two servers of a pair published, signed by both."""
        return self.request("GET", f"/tasks/{task}/transcript", accept=MSGPACK)

    def events(self, task: str) -> list[Event]:
        """All messages of the closed rounds, from the public transcript."""
        from ..transcript.download import download
        from ..transcript.file import EVENTS, read_frames

        stream = io.BytesIO()
        download(self._public, task, stream)
        stream.seek(0)
        frames = (frame for frame in read_frames(stream) if frame.kind == EVENTS)
        return [decode_event(data) for frame in frames for data in frame.events()]

    def _public(self, path: str) -> bytes | None:
        try:
            return self.request("GET", path, accept=JSON if path.endswith("/state") else MSGPACK)
        except Refused:
            return None

    def statement(self, task: str) -> str:
        """The promise, worded here from the task and the plan: not in the server's words."""
        from ..sharing.kinds import is_pair_task
        from ..sharing.pair import PairTask

        data = self.task(task)
        if is_pair_task(data):
            return PairTask.from_bytes(data).statement()
        return promise(decode(data, Task), self.plan(task)).text()

    def plan(self, task: str) -> Plan:
        """The plan of releases."""
        return decode(self.request("GET", f"/tasks/{task}/plan", accept=MSGPACK), Plan)

    def start(self, task: str) -> None:
        """End enrolment and open round 1."""
        self.request("POST", f"/tasks/{task}/start", admin=True)

    def close(self, task: str) -> None:
        """Cancel a campaign."""
        self.request("POST", f"/tasks/{task}/close", admin=True)

    def tokens(self, task: str, count: int) -> list[str]:
        """New one-time enrolment tokens."""
        out: list[str] = []
        while len(out) < count:
            path, asked = f"/tasks/{task}/tokens", min(PAGE, count - len(out))
            answer = self._parsed(self.request("POST", path, {"count": asked}, admin=True), path)
            page = read_document(answer, Tokens, "the list of tokens").tokens
            if len(page) != asked:
                raise InvalidInput(f"the server made {len(page)} tokens instead of {asked}")
            out += page
        return out

    def results(self, task: str) -> tuple[dict[str, Any], Results]:
        """What a finished campaign publishes: as it came, for a file, and as what a command shows of it."""
        document = self._document(f"/tasks/{task}/results")
        return document, read_document(document, Results, "the results")

    def geojson(self, task: str) -> dict[str, Any] | None:
        """The regions as they came, for a file; None if they cannot be drawn on a map."""
        try:
            document: dict[str, Any] = self._document(f"/tasks/{task}/regions.geojson", accept=GEOJSON)
        except Refused as error:
            if error.token == _NO_ROUTE:
                return None
            raise
        return document
