"""What an administrator's commands read from a server, as types: an answer that is something else is refused.

Text in it is for people and comes from elsewhere, so it is made plain here, once.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from ..errors import InvalidInput, printable

__all__ = [
    "CampaignState",
    "Created",
    "Key",
    "OperatorKeys",
    "PairState",
    "ReleaseDocument",
    "Results",
    "Row",
    "Tokens",
    "read_document",
]

T = TypeVar("T")
Hex32 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
MOST_DEPTH = 16


class Key(msgspec.Struct, frozen=True):
    """The server's public key."""

    server_key: Hex32


class OperatorKeys(msgspec.Struct, frozen=True):
    """Who runs a server of a pair, and its public keys."""

    name: str
    origin: str
    signing_key: Hex32
    sealing_key: Hex32
    role: str


class Created(msgspec.Struct, frozen=True):
    """A campaign that was created."""

    task: Hex32


class Tokens(msgspec.Struct, frozen=True):
    """New enrolment tokens."""

    tokens: list[Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.~-]{1,200}$")]]


class Row(msgspec.Struct, frozen=True):
    """A campaign in a list."""

    task: Hex32
    name: str
    phase: str
    enrolled: int


class CampaignState(msgspec.Struct, frozen=True):
    """Where a campaign stands; the numbers of the open round are for administrators."""

    phase: str
    round: int
    closed: Annotated[int, msgspec.Meta(ge=0, le=65_536)]
    enrolled: int
    now: int = 0
    deadline: int | None = None
    received: int | None = None
    expected: int | None = None
    needed: int | None = None
    fault: str | None = None
    kind: str | None = None
    task: str = ""
    name: str = ""


class PairState(msgspec.Struct, frozen=True):
    """Where a pair of two servers stands."""

    phase: str
    role: str
    received: int
    accepted: int | None = None
    refused: int | None = None
    deadline: int | None = None
    now: int = 0
    level: str | None = None
    progress: float | None = None
    waits_for: str | None = None
    fault: str | None = None
    kind: str = "pair"
    task: str = ""
    name: str = ""


class Region(msgspec.Struct, frozen=True):
    """A region with its crowd."""

    crowd: int


class ReleaseDocument(msgspec.Struct, frozen=True):
    """A release; all but the kind belong to means."""

    kind: str
    function: str = ""
    epsilon: float = 0.0
    adjacency: str = ""
    mean: float | None = None
    stderr: float | None = None
    interval: tuple[float, float] | None = None
    level: float = 0.95


class Results(msgspec.Struct, frozen=True):
    """What a finished campaign publishes."""

    regions: list[Region]
    releases: list[ReleaseDocument]


def read_document(document: Any, kind: type[T], what: str) -> T:
    """The document as a value of a type, with plain text.

    Raises
    ------
    InvalidInput
        If it is something else.
    """
    try:
        return msgspec.convert(_plain(document, MOST_DEPTH), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidInput(f"{what} is not what a semilocal server sends: {printable(str(error))}") from None


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return printable(value)
    if not depth:
        return None
    if isinstance(value, dict):
        return {printable(str(key)): _plain(item, depth - 1) for key, item in value.items()}
    return [_plain(item, depth - 1) for item in value] if isinstance(value, list) else value
