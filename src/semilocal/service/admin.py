"""What an administrator does, on a store: used by the routes and by the command line on a database.

Knows campaigns and the store. The time is an argument. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
import math
import secrets

import msgspec

from ..errors import InvalidInput
from ..protocol.keys import SECRET_BYTES
from .campaign import Campaign, new_token, token_hash
from .keys import registered_key
from .rounds import CHAIN, chain_for
from .stores.base import Store

__all__ = [
    "MAX_TOKENS", "admin_hash", "check_admin_token", "create_campaign", "first_admin_token", "new_tokens", "with_chain",
]  # fmt: skip

MAX_TOKENS = 10_000


def with_chain(store: Store, campaign: Campaign) -> Campaign:
    """The campaign with the end of this server's hash chain in its task: its part of the draws, fixed beforehand."""
    store.first_setting(CHAIN, secrets.token_bytes(SECRET_BYTES))
    task = msgspec.structs.replace(campaign.task, chain=chain_for(store, campaign.task).end)
    return msgspec.structs.replace(campaign, task=task)


def create_campaign(store: Store, campaign: Campaign, *, now: float) -> bool:
    """Add a campaign in phase "enrolling"; False if its task is there already.

    The task has the chain of :func:`with_chain`, or none (for tests: then the server has no part in the draws).
    """
    if campaign.task.chain and campaign.task.chain != chain_for(store, campaign.task).end:
        raise InvalidInput("the task has the hash chain of another server")
    pinned = campaign.task.server_key
    if pinned and pinned != registered_key(store):
        raise InvalidInput("the task pins the key of another server; take this server's key (GET /key), or none")
    seconds = campaign.enrolment_seconds
    deadline = None if seconds is None else math.ceil(now) + seconds
    return store.create(campaign, needed=campaign.capacity, deadline=deadline)


def new_tokens(store: Store, task: bytes, *, count: int) -> list[str]:
    """Fresh one-time tokens; only their hashes are stored."""
    if not 1 <= count <= MAX_TOKENS:
        raise InvalidInput(f"count must be 1 to {MAX_TOKENS}; got {count}")
    tokens = [new_token() for _ in range(count)]
    store.add_tokens(task, [token_hash(token) for token in tokens])
    return tokens


def admin_hash(token: str) -> bytes:
    """What is stored of an admin token (at least 128 random bits, so a plain hash cannot be searched)."""
    return hashlib.sha256(b"semilocal/1/admin" + token.encode()).digest()


def check_admin_token(token: str) -> None:
    """Refuse a token that cannot hold 128 bits: its hash could be searched, and so could the token over HTTP."""
    if len(token) < 22 or len(set(token)) < 8:
        raise InvalidInput(
            f"the admin token must hold at least 128 random bits: 22 characters or more; got {len(token)} with "
            f"{len(set(token))} different ones. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )


def first_admin_token(store: Store) -> tuple[bytes, str | None]:
    """The stored hash, and the token itself if it was made just now: it is not shown again."""
    token = "sla_" + secrets.token_urlsafe(32)
    mine = admin_hash(token)
    stored = store.first_setting("admin", mine)
    return stored, token if stored == mine else None
