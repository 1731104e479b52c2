"""A client of an application in this process that leaves out what httpx2 does for a network.

Most of the time of a random program was the client's: addresses are parsed and quoted, and a library is looked for in
vain, for each of three hundred requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec


class DirectClient(httpx2.AsyncClient):
    """``get``, ``put`` and the others, with paths that need no quoting; bodies are bytes, or JSON."""

    def __init__(self, app: Any) -> None:
        super().__init__(transport=httpx2.ASGITransport(app=app))  # one for networks reads certificates
        self._app = app

    async def request(self, method: str, url: Any, **named: Any) -> httpx2.Response:
        """The answer of the application."""
        json = named.get("json")
        body = named.get("content") or (b"" if json is None else msgspec.json.encode(json))
        sent = {"content-length": str(len(body)), "content-type": "application/json", **(named.get("headers") or {})}
        path, _, query = url.partition("?")
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()], "http_version": "1.1",
            "scheme": "http", "root_path": "", "server": ("service.test", 80), "client": ("127.0.0.1", 123),
        }  # fmt: skip
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        answered, start, parts = asyncio.Event(), dict[str, Any](), list[bytes]()

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            start.update(message if message["type"] == "http.response.start" else {})
            parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        answered.set()
        return httpx2.Response(start["status"], headers=start["headers"], content=b"".join(parts))
