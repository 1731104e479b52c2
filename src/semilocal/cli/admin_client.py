"""What the command line asks an administrator's questions of: a running server over HTTP, or a database.

Knows both ways to one set of calls. Knows no arguments of the command line.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, TypeAlias

import msgspec

from ..errors import InvalidInput, MissingExtra
from ..service import rounds
from ..service.admin import MAX_TOKENS, create_campaign, new_tokens
from ..service.campaign import CampaignForm
from ..service.results import geojson, results
from ..service.stores.base import open_store

Rows: TypeAlias = list[dict[str, Any]]  # inside the classes, ``list`` is a call
Names: TypeAlias = list[str]

__all__ = ["DatabaseOffice", "HttpOffice", "Office"]


class Office(Protocol):
    """An administrator's calls; tasks are named by hex digits. To be used in a ``with`` statement."""

    def __enter__(self) -> Office:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Let go of connections."""

    def key(self) -> bytes:
        """The server's public key."""

    def create(self, form: CampaignForm) -> str:
        """Create a campaign; its task."""

    def list(self) -> Rows:
        """All campaigns: task, name, phase, enrolled."""

    def show(self, task: str) -> dict[str, Any]:
        """Where a campaign stands."""

    def statement(self, task: str) -> str:
        """The promise in plain words."""

    def start(self, task: str) -> None:
        """End enrolment."""

    def close(self, task: str) -> None:
        """Cancel."""

    def tokens(self, task: str, count: int) -> Names:
        """New enrolment tokens."""

    def results(self, task: str) -> dict[str, Any]:
        """What a finished campaign publishes."""

    def geojson(self, task: str) -> dict[str, Any] | None:
        """The regions; None if they cannot be drawn on a map."""


class DatabaseOffice:
    """Directly on a database."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url, worker="office")

    def __enter__(self) -> DatabaseOffice:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def key(self) -> bytes:
        return rounds.server_key(self._store)

    def create(self, form: CampaignForm) -> str:
        campaign = form.build()
        if not create_campaign(self._store, campaign, now=time.time()):
            raise InvalidInput(
                "there is a campaign with this task; change the task, for example its delta, to run it again"
            )
        return campaign.task.id.hex()

    def list(self) -> Rows:
        rows = []
        for task, status in self._store.statuses().items():
            campaign = self._store.campaign(task)
            assert campaign is not None
            rows.append({"task": task.hex(), "name": campaign.name, "phase": status.phase, "enrolled": status.enrolled})
        return rows

    def show(self, task: str) -> dict[str, Any]:
        status = self._store.status(bytes.fromhex(task))
        if status is None:
            raise InvalidInput(f"there is no campaign {task}")
        document: dict[str, Any] = msgspec.to_builtins(status)
        return {"task": task, **document}

    def statement(self, task: str) -> str:
        campaign = self._store.campaign(bytes.fromhex(task))
        if campaign is None:
            raise InvalidInput(f"there is no campaign {task}")
        return campaign.statement()

    def start(self, task: str) -> None:
        rounds.start(self._store, bytes.fromhex(task), time.time())

    def close(self, task: str) -> None:
        rounds.cancel(self._store, bytes.fromhex(task))

    def tokens(self, task: str, count: int) -> Names:
        whole, rest = divmod(count, MAX_TOKENS)
        sizes = [MAX_TOKENS] * whole + [rest] * bool(rest)
        return [token for size in sizes for token in new_tokens(self._store, bytes.fromhex(task), count=size)]

    def results(self, task: str) -> dict[str, Any]:
        return results(self._store, bytes.fromhex(task))

    def geojson(self, task: str) -> dict[str, Any] | None:
        campaign = self._store.campaign(bytes.fromhex(task))
        if campaign is None or campaign.task.box.dimensions != 2 or campaign.task.rule == "each":
            return None
        return geojson(self._store, bytes.fromhex(task))


class HttpOffice:
    """At a running server.

    Parameters
    ----------
    url : str
        Of the server, such as ``http://127.0.0.1:8000``.
    token : str
        The admin token.
    """

    def __init__(self, url: str, token: str) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtra("httpx", "service") from None
        self._errors = httpx.TransportError
        self._url = url.rstrip("/")
        self._client = httpx.Client(base_url=self._url, headers={"authorization": f"Bearer {token}"}, timeout=60)

    def __enter__(self) -> HttpOffice:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _send(self, method: str, path: str, body: bytes | None = None) -> Any:
        try:
            answer = self._client.request(method, path, content=body)
        except self._errors as error:
            raise InvalidInput(
                f"the server at {self._url} does not answer: {error}; is `semilocal serve` running?"
            ) from None
        if answer.status_code >= 400:
            try:
                problem = answer.json()
            except ValueError:
                problem = {"detail": "not a semilocal server?", "token": "unknown"}
            raise InvalidInput(f"{method} {path}: {answer.status_code} {problem['detail']} [{problem['token']}]")
        return answer

    def key(self) -> bytes:
        return bytes.fromhex(self._send("GET", "/key").json()["server_key"])

    def create(self, form: CampaignForm) -> str:
        return str(self._send("POST", "/tasks", msgspec.json.encode(form)).json()["task"])

    def list(self) -> Rows:
        rows: Rows = self._send("GET", "/tasks").json()
        return rows

    def show(self, task: str) -> dict[str, Any]:
        document: dict[str, Any] = self._send("GET", f"/tasks/{task}/state").json()
        return document

    def statement(self, task: str) -> str:
        return str(self._send("GET", f"/tasks/{task}/statement").text)

    def start(self, task: str) -> None:
        self._send("POST", f"/tasks/{task}/start")

    def close(self, task: str) -> None:
        self._send("POST", f"/tasks/{task}/close")

    def tokens(self, task: str, count: int) -> Names:
        out: Names = []
        while len(out) < count:
            body = msgspec.json.encode({"count": min(MAX_TOKENS, count - len(out))})
            out += self._send("POST", f"/tasks/{task}/tokens", body).json()["tokens"]
        return out

    def results(self, task: str) -> dict[str, Any]:
        document: dict[str, Any] = self._send("GET", f"/tasks/{task}/results").json()
        return document

    def geojson(self, task: str) -> dict[str, Any] | None:
        document = self.results(task)
        if (
            not document["regions"]
            or len(document["regions"][0]["lower"]) != 2
            or document["regions"][0]["crowd"] is None
        ):
            return None
        out: dict[str, Any] = self._send("GET", f"/tasks/{task}/regions.geojson").json()
        return out
