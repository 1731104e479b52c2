"""Everything a device derives from its secret: its noise, the places it is moved to, and its name in a task.

Noise is derived, not drawn, so a retry, a crash and a restart give the same bytes; answering the same question twice
with fresh noise would let an observer average it away. HMAC-SHA-256 is the keyed function; a change of task, round or
cell (or plan, release or region) changes everything.

Knows secrets and labels. Knows no messages.
"""

from __future__ import annotations

import hashlib
import hmac

__all__ = [
    "SECRET_BYTES", "access_key", "derive", "move_entropy", "pseudonym", "report_entropy", "rounding_word",
    "upload_entropy", "value_entropy",
]  # fmt: skip

SECRET_BYTES = 32
_REPORT = b"semilocal/1/report"
_VALUE = b"semilocal/1/value"
_UPLOAD = b"semilocal/1/upload"
_ROUNDING = b"semilocal/1/rounding"
_MOVE = b"semilocal/1/move"
_KEY = b"semilocal/1/key"
_PSEUDONYM = b"semilocal/1/pseudonym"


def derive(secret: bytes, label: bytes, length: int) -> bytes:
    """``length`` bytes that only the holder of the secret can tell: HMAC-SHA-256(secret, counter ‖ label), joined."""
    stream = hmac.digest(secret, bytes(4) + label, hashlib.sha256)
    for block in range(1, -(-length // 32)):
        stream += hmac.digest(secret, block.to_bytes(4, "big") + label, hashlib.sha256)
    return stream[:length]


def report_entropy(secret: bytes, task: bytes, round_: int, cell: int, words: int) -> bytes:
    """Entropy of the one report a device ever gives for this task, round and cell: ``8 * words`` bytes."""
    return derive(secret, _REPORT + task + round_.to_bytes(4, "big") + cell.to_bytes(8, "big"), 8 * words)


def value_entropy(secret: bytes, task: bytes, plan: bytes, index: int, region: int, words: int) -> bytes:
    """Entropy of the one value a device ever gives for this plan (digest), release and region: ``8 * words`` bytes."""
    return derive(secret, _VALUE + task + plan + index.to_bytes(4, "big") + region.to_bytes(8, "big"), 8 * words)


def upload_entropy(secret: bytes, task: bytes, code: int, length: int, *, value: int | None = None) -> bytes:
    """Entropy of the one upload a device ever makes for this task of two servers, this deepest cell and this value."""
    more = b"" if value is None else value.to_bytes(8, "big")
    return derive(secret, _UPLOAD + task + code.to_bytes(8, "big") + more, length)


def rounding_word(secret: bytes, task: bytes) -> int:
    """The word that says which way a device rounds its value for this task of two servers: 64 bits."""
    return int.from_bytes(derive(secret, _ROUNDING + task, 8), "big")


def move_entropy(secret: bytes, task: bytes, round_: int, cell: int) -> bytes:
    """Entropy of the place that a device is moved to when this cell is trimmed in this round: 8 bytes."""
    return derive(secret, _MOVE + task + round_.to_bytes(4, "big") + cell.to_bytes(8, "big"), 8)


def pseudonym(secret: bytes, task: bytes) -> bytes:
    """A device's name in a task: 16 bytes, not linkable between tasks."""
    return derive(secret, _PSEUDONYM + task, 16)


def access_key(secret: bytes, task: bytes) -> bytes:
    """What proves to a server that a request comes from the device that enrolled: 32 bytes, for this task only."""
    return derive(secret, _KEY + task, 32)
