"""What a device derives from its secret: its noise, its nonces, its name in a task; and the server's hash chain.

Noise is derived, not drawn, so a retry, a crash and a restart give the same bytes; answering the same question twice
with fresh noise would let an observer average it away. HMAC-SHA-256 is the keyed function; a change of task, round,
region or cut (or plan, release or region) changes everything.

Knows secrets and labels. Knows no messages.
"""

from __future__ import annotations

import hashlib
import hmac

from ..errors import InvalidInput

SECRET_BYTES = 32
_REPORT = b"semilocal/2/report"
_VALUE = b"semilocal/2/value"
_UPLOAD = b"semilocal/1/upload"
_ROUNDING = b"semilocal/1/rounding"
_NONCE = b"semilocal/2/nonce"
_CHAIN = b"semilocal/2/chain"
_KEY = b"semilocal/1/key"
_PSEUDONYM = b"semilocal/1/pseudonym"


def derive(secret: bytes, label: bytes, length: int) -> bytes:
    """``length`` bytes that only the holder of the secret can tell: HMAC-SHA-256(secret, counter ‖ label), joined."""
    stream = hmac.digest(secret, bytes(4) + label, hashlib.sha256)
    for block in range(1, -(-length // 32)):
        stream += hmac.digest(secret, block.to_bytes(4, "big") + label, hashlib.sha256)
    return stream[:length]


def report_entropy(
    secret: bytes, task: bytes, round_: int, region: tuple[int, int], cuts: tuple[int, ...], words: int
) -> bytes:
    """Entropy of the one answer a device ever gives for this task, round, region and cuts: ``8 * words`` bytes."""
    codes = b"".join(code.to_bytes(8, "big") for code in (*region, *cuts))
    return derive(secret, _REPORT + task + round_.to_bytes(4, "big") + codes, 8 * words)


def nonce(secret: bytes, task: bytes, round_: int) -> bytes:
    """A device's part of the draw that follows this round: 16 bytes."""
    return derive(secret, _NONCE + task + round_.to_bytes(4, "big"), 16)


def value_entropy(secret: bytes, task: bytes, plan: bytes, index: int, region: tuple[int, int]) -> bytes:
    """Entropy of the one value a device ever gives for this plan (digest), release and region: 8 bytes."""
    codes = b"".join(code.to_bytes(8, "big") for code in region)
    return derive(secret, _VALUE + task + plan + index.to_bytes(4, "big") + codes, 8)


def upload_entropy(secret: bytes, task: bytes, code: int, length: int, *, value: int | None = None) -> bytes:
    """Entropy of the one upload a device ever makes for this task of two servers, this deepest cell and this value."""
    more = b"" if value is None else value.to_bytes(8, "big")
    return derive(secret, _UPLOAD + task + code.to_bytes(8, "big") + more, length)


def rounding_word(secret: bytes, task: bytes) -> int:
    """The word that says which way a device rounds its value for this task of two servers: 64 bits."""
    return int.from_bytes(derive(secret, _ROUNDING + task, 8), "big")


def pseudonym(secret: bytes, task: bytes) -> bytes:
    """A device's name in a task: 16 bytes, not linkable between tasks."""
    return derive(secret, _PSEUDONYM + task, 16)


def access_key(secret: bytes, task: bytes) -> bytes:
    """What proves to a server that a request comes from the device that enrolled: 32 bytes, for this task only."""
    return derive(secret, _KEY + task, 32)


class HashChain:
    """The server's part of the draws: values that it fixed when the task was made, given away one per round.

    ``end`` is in the task. The preimage of round 1 hashes to it, that of round t + 1 to that of round t. So the server
    cannot choose a value when it sees the reports of a round, and nobody else can predict it. It is made from a
    ``seed`` of 32 secret bytes and has ``length`` rounds, the task's ``max_rounds``.
    """

    def __init__(self, seed: bytes, length: int) -> None:
        if len(seed) != SECRET_BYTES:
            raise InvalidInput(f"the seed of a hash chain must be {SECRET_BYTES} bytes; got {len(seed)}")
        values = [seed]
        for _ in range(length):
            values.append(hashlib.sha256(_CHAIN + values[-1]).digest())
        self._values = values[::-1]

    @property
    def end(self) -> bytes:
        """What the task commits to: 32 bytes."""
        return self._values[0]

    def preimage(self, round_: int) -> bytes:
        """What is given away when a round closes: 32 bytes."""
        return self._values[round_]

    @staticmethod
    def goes_on(before: bytes, preimage: bytes) -> bool:
        """Whether what a closing gives away hashes to what was given before; nothing follows nothing (no chain)."""
        return hashlib.sha256(_CHAIN + preimage).digest() == before if before else not preimage
