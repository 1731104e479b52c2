"""Errors on the wire: stable tokens, their status, and the problem+json body.

Knows tokens. Knows no routes.
"""

from __future__ import annotations

import html

import msgspec

# token: (status, title)
PROBLEMS: dict[str, tuple[int, str]] = {
    "malformed": (400, "the request is not of the form that this route takes"),
    "unauthorized": (401, "no valid key"),
    "bad-signature": (401, "not signed by the other server of the pair"),
    "wrong-clock": (403, "the clocks of the two servers differ too much"),
    "wrong-role": (403, "this server does not have the role that the request needs"),
    "unknown-leader": (403, "the operator of this server has not allowed this leader"),
    "bad-token": (403, "the enrolment token is not known"),
    "no-such-route": (404, "there is no such route"),
    "no-such-task": (404, "there is no such task"),
    "no-such-round": (404, "there is no such round"),
    "no-such-slice": (404, "nobody named this region in this round"),
    "not-open-yet": (404, "not open yet"),
    "not-closed-yet": (404, "not closed yet"),
    "method-not-allowed": (405, "the method is not allowed here"),
    "too-slow": (408, "the request took too long"),
    "other-answer": (409, "another report is stored for this pseudonym and round"),
    "token-used": (409, "the enrolment token was used by someone else"),
    "pseudonym-taken": (409, "the pseudonym is enrolled with another key"),
    "task-exists": (409, "there is a campaign with this task"),
    "other-upload": (409, "another upload is stored for this report"),
    "other-request": (409, "this step was answered for another request"),
    "out-of-order": (409, "this step is not due"),
    "not-confirmed": (409, "not both operators have confirmed the pair"),
    "uploads-closed": (410, "uploads are closed"),
    "round-closed": (410, "the round is closed"),
    "enrolment-closed": (410, "enrolment is closed"),
    "campaign-ended": (410, "the campaign was cancelled"),
    "too-large": (413, "the request is too large"),
    "not-canonical": (422, "not the canonical bytes of a report"),
    "other-task": (422, "the report belongs to another task"),
    "other-round": (422, "the report belongs to another round"),
    "other-pseudonym": (422, "the report belongs to another pseudonym"),
    "unknown-region": (422, "there is no such region in this round"),
    "other-region": (422, "the region is not inside the one that was announced"),
    "not-drawn": (422, "an answer from a participant who was not drawn"),
    "bad-answer": (422, "no participant can have given this answer"),
    "other-report": (422, "the upload belongs to another report"),
    "bad-upload": (422, "no device of this pair can have sent this upload"),
    "other-version": (422, "the other server speaks another version"),
    "wrong-kind": (422, "the round takes reports of another kind"),
    "too-fast": (429, "too many requests"),
    "peer-away": (503, "the other server does not answer now"),
    "overloaded": (503, "too much to do"),
    "unavailable": (503, "not available now"),
}


class Problem(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, token: str, detail: str = "", *, retry_after: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (), field: str = "",
    ) -> None:  # fmt: skip
        super().__init__(token)
        self.token, self.detail, self.field = token, detail, field
        self.status, self.title = PROBLEMS[token]
        if retry_after is None and self.status in (429, 503):
            retry_after = 1
        self.headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store"), *headers]
        if retry_after is not None:
            self.headers.append((b"retry-after", str(retry_after).encode()))
        if self.status == 401:
            self.headers.append((b"www-authenticate", b"Bearer"))

    @property
    def body(self) -> bytes:
        """The problem+json document."""
        return msgspec.json.encode(
            {
                "type": f"urn:semilocal:problem:{self.token}",
                "token": self.token,
                "title": self.title,
                "status": self.status,
                "detail": self.detail or self.title,
                **({"field": self.field} if self.field else {}),
            }
        )

    def answer(self, accept: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and body: the document, or a page for a person whose browser followed a link to here."""
        if b"text/html" not in accept:
            return self.headers, self.body
        title, detail = self.title.capitalize(), self.detail
        if self.token == "no-such-route":
            title, detail = "There is no such page", "The address may be mistyped, or the page was moved."
        page = _PAGE.format(title=html.escape(title), detail=html.escape(detail))
        policy = b"default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
        more = [(b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", policy)]
        return [*more, *self.headers[1:]], page.encode()


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title} – semilocal</title>
<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css"></head>
<body><header class="top"><a class="brand" href="/">semilocal</a></header>
<main><h1>{title}</h1><p>{detail}</p><p><a href="/">All campaigns of this server</a></p></main></body></html>
"""
