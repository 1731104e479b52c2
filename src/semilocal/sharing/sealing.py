"""Envelopes and signatures: what is sealed for one server, and what a server signs.

Envelopes are HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM. ``info`` binds an envelope to all that is in the
open beside it: role, task, report, public part, bucket and, for the leader, the enrolment token. An envelope that is
replayed under another report, sent to the other server, or found with another public part, bucket or token does not
open. Sealing twice gives different bytes: a device keeps what it sealed.

Signatures are Ed25519 over labelled parts: the label ``semilocal/1/sharing/`` and the purpose, then every part after
its length (8 bytes, big endian). No two purposes and lists of parts give the same bytes.

Knows bytes and keys. Knows no reports, server, clock or file. Ephemeral keys come from the operating system.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Literal

from ..errors import InvalidInput, MissingExtra

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
except ImportError:  # pragma: no cover - the extra is there in the tests
    raise MissingExtra("cryptography", "service") from None

Role = Literal["leader", "helper"]
Purpose = Literal["receipt", "transcript", "request", "answer"]
KEY = 32
SIGNATURE = 64
REPORT_ID = 16
OVERHEAD = 32 + 16  # ephemeral key and tag
_ENVELOPE = b"semilocal/2/sharing/envelope/"
_SIGNED = b"semilocal/1/sharing/"
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def public_key(secret: bytes) -> bytes:
    """The X25519 public key (32 bytes) of a secret of 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(
    plain: bytes, key: bytes, *, role: Role, task: bytes, report: bytes, public: bytes, bucket: int, token: str
) -> bytes:
    """Seal a private part for the server with this public key; ``OVERHEAD`` bytes longer than it.

    What it is bound to: see :func:`info_of`.
    """
    if len(key) != KEY:
        raise InvalidInput(f"a public key has {KEY} bytes; got {len(key)}")
    info = info_of(role, task, report, public, bucket, token)
    return bytes(_SUITE.encrypt(plain, X25519PublicKey.from_public_bytes(key), info=info))


def read_secret(secret: bytes) -> X25519PrivateKey:
    """A secret of 32 bytes as a key, for who opens many envelopes: reading it takes as long as opening one."""
    return X25519PrivateKey.from_private_bytes(secret)


def open_envelope(
    sealed: bytes, secret: bytes | X25519PrivateKey, *, role: Role, task: bytes, report: bytes, public: bytes,
    bucket: int, token: str,
) -> bytes:  # fmt: skip
    """The private part in an envelope that was sealed for this server, with exactly this around it."""
    if len(sealed) < OVERHEAD:
        raise InvalidInput(f"an envelope has at least {OVERHEAD} bytes; got {len(sealed)}")
    key = read_secret(secret) if isinstance(secret, bytes) else secret
    try:
        return bytes(_SUITE.decrypt(sealed, key, info=info_of(role, task, report, public, bucket, token)))
    except (InvalidTag, ValueError):
        words = "the envelope does not open: wrong server, task, report, public part, bucket or token"
        raise InvalidInput(words) from None


def info_of(role: Role, task: bytes, report: bytes, public: bytes, bucket: int, token: str) -> bytes:
    """What an envelope is bound to, as HPKE's info; the helper's does not depend on the enrolment token."""
    if role not in ("leader", "helper"):
        raise InvalidInput(f"role must be 'leader' or 'helper'; got {role!r}")
    if len(task) != 32 or len(report) != REPORT_ID:
        raise InvalidInput(f"ids have 32 and {REPORT_ID} bytes; got {len(task)} and {len(report)}")
    if not 0 <= bucket < 1 << 64:
        raise InvalidInput(f"a bucket is a cell; got {bucket}")
    told = token.encode() if role == "leader" else b""  # the helper does not learn tokens
    parts = (hashlib.sha256(public).digest(), bucket.to_bytes(8, "big"), hashlib.sha256(told).digest())
    return _ENVELOPE + role.encode() + b"/" + task + report + b"".join(parts)


def sign(secret: bytes, purpose: Purpose, *parts: bytes) -> bytes:
    """Sign parts with an Ed25519 secret of 32 bytes; the signature has 64."""
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
    return b"".join([_SIGNED, purpose.encode(), b"/", *(len(part).to_bytes(8, "big") + part for part in parts)])
