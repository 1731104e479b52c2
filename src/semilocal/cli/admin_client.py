"""The administrator's client: one set of calls, to a running server or to the application in this process.

Knows the administrator's routes (``spec/http.md``). Knows no arguments of the command line. With a
database, the application runs in process and gets the same requests.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from ..errors import InvalidInput, MissingExtra
from ..service.campaign import CampaignForm
from ..service.pair.form import PairForm

__all__ = ["AdminClient"]

Rows: TypeAlias = list[dict[str, Any]]
PAGE = 10_000  # tokens that a server makes at once
TIMEOUT = 60.0
CONNECT = 3.0


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
            import httpx
        except ImportError:
            raise MissingExtra("httpx", "service") from None
        self._errors = (httpx.TransportError, httpx.InvalidURL)
        self._runner = asyncio.Runner()
        self._service: Any = None
        options: dict[str, Any] = {}
        if database:
            url, token = "http://in.process", secrets.token_urlsafe(24)
            options["transport"] = httpx.ASGITransport(self._application(database, token))
        self.url, self._token = url.rstrip("/"), token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(TIMEOUT, connect=CONNECT)
        self._client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout, **options)

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

    def request(self, method: str, path: str, body: object = None, *, admin: bool = False) -> Any:
        """Send one request; the response, or a refusal in words."""
        if admin and not self._token:
            raise InvalidInput(
                "this needs the admin token: set SEMILOCAL_ADMIN_TOKEN or give --admin-token; `semilocal serve` shows "
                "it at its first start"
            )
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._runner.run(self._client.request(method, path, content=content))
        except self._errors as error:
            reason = str(error) or type(error).__name__
            raise InvalidInput(
                f"the server at {self.url} does not answer ({reason}); is `semilocal serve` running there?"
            ) from None
        if answer.status_code >= 400:
            try:
                problem = answer.json()
                words = f"{problem['detail']} [{problem['token']}]"
            except (ValueError, KeyError, TypeError):
                words = "is this a semilocal server?"
            raise InvalidInput(f"{method} {path}: {answer.status_code} {words}")
        return answer

    # -- calls ---------------------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The server's public key."""
        return bytes.fromhex(self.request("GET", "/key").json()["server_key"])

    def create(self, form: CampaignForm) -> str:
        """Create a campaign; its task."""
        return str(self.request("POST", "/tasks", form, admin=True).json()["task"])

    def operator(self) -> dict[str, str]:
        """Who runs a server of a pair, and its keys."""
        document: dict[str, str] = self.request("GET", "/operator").json()
        return document

    def create_pair(self, form: PairForm) -> str:
        """Create a pair of two servers; its task."""
        return str(self.request("POST", "/pairs", form, admin=True).json()["task"])

    def confirm(self, task: str) -> None:
        """Agree to a pair of two servers."""
        self.request("POST", f"/tasks/{task}/confirm", admin=True)

    def campaigns(self) -> Rows:
        """All campaigns: task, name, phase, enrolled."""
        rows: Rows = self.request("GET", "/tasks").json()
        return rows

    def find(self, name: str) -> str:
        """The task of the campaign with this task id, the beginning of one, or name."""
        rows = self.campaigns()
        exact = [row["task"] for row in rows if row["task"] == name]
        found = exact or [row["task"] for row in rows if row["task"].startswith(name) or row["name"] == name]
        if len(found) == 1:
            return str(found[0])
        known = ", ".join(f"{row['task'][:12]} ({row['name']})" for row in rows) or "none"
        raise InvalidInput(f"{len(found)} campaigns match {name!r}; there are: {known}")

    def state(self, task: str) -> dict[str, Any]:
        """Where a campaign stands."""
        document: dict[str, Any] = self.request("GET", f"/tasks/{task}/state").json()
        return document

    def progress(self, task: str) -> dict[str, Any]:
        """Where a campaign stands, with the reports of the open round for who has the admin token."""
        if not self._token:
            return self.state(task)
        document: dict[str, Any] = self.request("GET", f"/tasks/{task}/progress", admin=True).json()
        return document

    def task(self, task: str) -> bytes:
        """The bytes of the task."""
        return bytes(self.request("GET", f"/tasks/{task}").content)

    def transcript(self, task: str) -> bytes:
        """What the two servers of a pair published, signed by both."""
        return bytes(self.request("GET", f"/tasks/{task}/transcript").content)

    def closings(self, task: str) -> list[bytes]:
        """The closings of all closed rounds."""
        closed = int(self.state(task)["closed"])
        return [bytes(self.request("GET", f"/tasks/{task}/rounds/{n}/closed").content) for n in range(1, closed + 1)]

    def statement(self, task: str) -> str:
        """The privacy statement."""
        return str(self.request("GET", f"/tasks/{task}/statement").text)

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
            body = {"count": min(PAGE, count - len(out))}
            out += self.request("POST", f"/tasks/{task}/tokens", body, admin=True).json()["tokens"]
        return out

    def results(self, task: str) -> dict[str, Any]:
        """What a finished campaign publishes."""
        document: dict[str, Any] = self.request("GET", f"/tasks/{task}/results").json()
        return document

    def geojson(self, task: str) -> dict[str, Any] | None:
        """The regions; None if they cannot be drawn on a map."""
        try:
            document: dict[str, Any] = self.request("GET", f"/tasks/{task}/regions.geojson").json()
        except InvalidInput as error:
            if re.search(r"\[no-such-route\]", str(error)):
                return None
            raise
        return document
