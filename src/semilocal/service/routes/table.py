"""A row of the table of routes, and what every handler gets.

Knows HTTP. Knows no route.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from ..http import RateLimit, Request, Response
from ..keys import admin_hash
from ..metrics import Metrics
from ..worker import Service

JSON, BYTES, TEXT = "application/json", "application/msgpack", "text/plain"


class Context(NamedTuple):
    """What handlers work with."""

    service: Service
    metrics: Metrics
    admin: bytes  # ``admin_hash`` of the admin token
    by_key: RateLimit  # how often one key may report, and one token may be tried
    by_token: RateLimit
    description: dict[str, Any]  # the OpenAPI document

    def is_admin(self, request: Request) -> bool:
        """Whether a request has the admin token."""
        header = request.headers.get("authorization", "")
        token = header[7:] if header[:7].lower() == "bearer " else ""
        return hmac.compare_digest(admin_hash(token), self.admin)


Handler = Callable[[Context, Request], Awaitable[Response]]


class Operation(NamedTuple):
    """One method of one path: how it is handled, and how it is described."""

    method: str  # the path has names in braces
    path: str
    handler: Handler
    summary: str
    # tokens of ``PROBLEMS`` that it can answer with, beside those that follow from the path, ``auth`` and ``form``
    problems: tuple[str, ...] = ()
    answer: str = JSON  # media type of a good answer; empty if it has no body
    success: tuple[int, ...] = (200,)  # statuses of a good answer
    body: str = ""  # media type of the request's body; empty if there is none
    auth: str = ""  # "admin" is checked before the handler is called
    query: tuple[str, ...] = ()  # names in the query string
    # how it is handled for a task of two servers; without one there is no such route for them
    of_pair: Handler | None = None
    form: type[msgspec.Struct] | None = None  # what a JSON body is read as; the description has its schema

    @property
    def refusals(self) -> tuple[str, ...]:
        """All tokens that it can answer with, each once."""
        named = [("{task}", "no-such-task"), ("{round}", "no-such-round")]
        found = ["no-such-route"] * ("{" in self.path) + [token for name, token in named if name in self.path]
        found += ["unauthorized"] * bool(self.auth) + ["malformed"] * bool(self.form or self.query)
        return tuple(dict.fromkeys((*found, *self.problems, "unavailable", "too-large", "method-not-allowed")))
