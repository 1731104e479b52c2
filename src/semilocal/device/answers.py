"""What a server's answers mean: where a task stands, what is refused, what was stored, how long to wait.

Knows the documents of ``spec/http.md``. Knows no retries and no secrets.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

from ..errors import printable
from .transport import Response

__all__ = [
    "LONGEST_WAIT", "MALFORMED", "ServerProblem", "ServerStatus", "check_acknowledgement", "describe", "problem_of",
    "read_phase", "read_status", "seconds_of",
]  # fmt: skip

LONGEST_WAIT = 300.0  # seconds a server may ask a device to wait
MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
_PROBLEM = "application/problem+json"
_PROBLEM_TYPE = "urn:semilocal:problem:"


class ServerStatus(msgspec.Struct, frozen=True):
    """Where a task is, as its server says (``spec/http.md`` 5). A hint when to look, never a reason to answer."""

    task: str
    phase: Literal["enrolling", "collecting", "releasing", "finished", "cancelled"]
    round: int
    closed: int
    poll_after: float
    kind: str | None = None
    enrolled: int = 0
    deadline: int | None = None
    now: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will be asked."""
        return self.phase in ("finished", "cancelled")

    def asks(self, number: int) -> bool:
        """Whether there is something to read or to do in this round, or never will be."""
        over = self.ended or self.phase == "releasing" or self.closed >= number
        return over or (self.phase == "collecting" and self.round >= number)

    def past(self, number: int) -> bool:
        """Whether this round is closed, or never will be."""
        return self.ended or self.closed >= number


class ServerProblem(msgspec.Struct, frozen=True):
    """A refusal of the server (``spec/http.md`` 2)."""

    type: str
    token: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,64}$")]
    status: int
    detail: str = ""


class _Phase(msgspec.Struct):
    phase: str


class _Acknowledgement(msgspec.Struct):
    digest: str


def problem_of(response: Response) -> ServerProblem | None:
    """What the server says is wrong, in plain text; None if it does not come from the server."""
    if response.status < 400 or response.media_type != _PROBLEM:
        return None
    try:
        problem = msgspec.json.decode(response.body, type=ServerProblem)
    except MALFORMED:
        return None
    if problem.type != _PROBLEM_TYPE + problem.token or problem.status != response.status:
        return None
    return msgspec.structs.replace(problem, detail=printable(problem.detail))


def describe(response: Response) -> str:
    """Status and media type of an answer that is not understood."""
    return f"status {response.status} with {printable(response.media_type, most=60) or 'no media type'}"


def check_acknowledgement(body: bytes, content: bytes) -> None:
    """Raise ValueError unless an answer is for this content and no other."""
    if msgspec.json.decode(body, type=_Acknowledgement).digest != hashlib.sha256(content).hexdigest():
        raise ValueError("the digest of something else")


def read_status(body: bytes) -> ServerStatus:
    """Where a task stands; raises one of ``MALFORMED`` if the bytes do not say."""
    return msgspec.json.decode(body, type=ServerStatus)


def read_phase(body: bytes) -> str:
    """The phase of a task of two servers, likewise."""
    return msgspec.json.decode(body, type=_Phase).phase


def seconds_of(header: str | None) -> float:
    """Retry-After in seconds, within bounds; 0 if there is none or it is a date, which a clock need not share."""
    plain = header is not None and header.isascii() and header.isdigit()
    return min(float(header[:10]), LONGEST_WAIT) if plain and header is not None else 0.0
