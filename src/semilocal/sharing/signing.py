"""Ed25519 signatures over labelled parts: one form for receipts, transcripts, and what two servers send each other.

What is signed: the label ``semilocal/1/sharing/`` and the purpose, then every part after its length (8 bytes, big
endian). No two purposes and lists of parts give the same bytes.

Knows keys and bytes. Knows no server, clock or file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from ..errors import InvalidInput, MissingExtra

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:  # pragma: no cover - the extra is there in the tests
    raise MissingExtra("cryptography", "service") from None

Purpose = Literal["receipt", "transcript", "request", "answer"]
KEY = 32
SIGNATURE = 64
_LABEL = b"semilocal/1/sharing/"


def sign(secret: bytes, purpose: Purpose, *parts: bytes) -> bytes:
    """Sign parts with an Ed25519 secret of 32 bytes; the signature has 64.

    Examples
    --------
    >>> signature = sign(bytes(32), "receipt", b"one", b"two")
    >>> key = verifying_key(bytes(32))
    >>> is_signed(signature, key, "receipt", b"one", b"two"), is_signed(signature, key, "receipt", b"onetwo")
    (True, False)
    """
    return _secret(secret).sign(_joined(purpose, parts))


def is_signed(signature: bytes, key: bytes, purpose: Purpose, *parts: bytes) -> bool:
    """Whether the parts were signed with the secret of this public key."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _joined(purpose, parts))
    except (InvalidSignature, ValueError):
        return False
    return True


def verifying_key(secret: bytes) -> bytes:
    """The public key (32 bytes) of an Ed25519 secret."""
    return _secret(secret).public_key().public_bytes_raw()


@lru_cache(maxsize=4)  # a server signs with one key all the time, and reading it takes as long as signing
def _secret(secret: bytes) -> Ed25519PrivateKey:
    if len(secret) != KEY:
        raise InvalidInput(f"a signing secret has {KEY} bytes; got {len(secret)}")
    return Ed25519PrivateKey.from_private_bytes(secret)


def _joined(purpose: Purpose, parts: tuple[bytes, ...]) -> bytes:
    return b"".join([_LABEL, purpose.encode(), b"/", *(len(part).to_bytes(8, "big") + part for part in parts)])
