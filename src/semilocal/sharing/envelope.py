"""A private part sealed for one server: HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM.

``info`` binds an envelope to all that is in the open beside it: role, task, report, public part, bucket and, for the
leader, the enrolment token. An envelope that is replayed under another report, sent to the other server, or found with
another public part, bucket or token does not open.

Knows bytes and keys. Knows no reports, server, clock or file. The ephemeral key comes from the operating
system inside the library, so sealing twice gives different bytes: a device keeps what it sealed.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from ..errors import InvalidInput, MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
except ImportError:  # pragma: no cover - the extra is there in the tests
    raise MissingExtra("cryptography", "service") from None

Role = Literal["leader", "helper"]
KEY = 32
REPORT_ID = 16
OVERHEAD = 32 + 16  # ephemeral key and tag
_LABEL = b"semilocal/2/sharing/envelope/"
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def public_key(secret: bytes) -> bytes:
    """The X25519 public key (32 bytes) of a secret of 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(
    plain: bytes, key: bytes, *, role: Role, task: bytes, report: bytes, public: bytes, bucket: int, token: str
) -> bytes:
    """Seal a private part for the server with this public key; ``OVERHEAD`` bytes longer than it.

    What it is bound to: see :func:`info_of`.

    Examples
    --------
    >>> secret = bytes(range(32))
    >>> about = dict(role="leader", task=bytes(32), report=bytes(16), public=b"corrections", bucket=1, token="")
    >>> sealed = seal(b"seed", public_key(secret), **about)
    >>> len(sealed), open_envelope(sealed, secret, **about)
    (52, b'seed')
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
    return _LABEL + role.encode() + b"/" + task + report + b"".join(parts)
