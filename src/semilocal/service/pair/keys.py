"""The secrets of a server for one pair: what opens its envelopes, makes its noise, and hides what it stores.

All of them follow from the server's signing secret, which is not in the database, and from a random seed, which is.
The database alone opens nothing. When the pair ends the seed is deleted, and then the signing secret opens nothing
either.

Knows secrets. Knows no reports, HTTP or database.
"""

from __future__ import annotations

from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...errors import InvalidInput
from ...protocol.keys import derive
from ...sharing.envelope import read_secret

__all__ = ["PairSecrets"]

_ROOT = b"semilocal/1/pair/root"
_SEALING = b"semilocal/1/pair/sealing"
_NOISE = b"semilocal/1/pair/noise"
_MASK = b"semilocal/1/pair/mask"
_LEVEL = b"semilocal/1/pair/level"


class PairSecrets:
    """Secrets for one pair, from the key that it pins and a random seed of its own."""

    def __init__(self, signing_secret: bytes, seed: bytes) -> None:
        self._root = derive(signing_secret, _ROOT + seed, 32)
        self.opening_key = read_secret(derive(self._root, _SEALING, 32))

    @property
    def sealing_key(self) -> bytes:
        """The public key that devices seal envelopes with."""
        return self.opening_key.public_key().public_bytes_raw()

    def noise_secret(self, task: bytes) -> bytes:
        """What the noise of this server is derived from."""
        return derive(self._root, _NOISE + task, 32)

    def masked(self, private: bytes, report: bytes) -> bytes:
        """A private part as it is stored; masking it again gives it back."""
        mask = derive(self._root, _MASK + report, len(private))
        return (int.from_bytes(private, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(private), "big")

    def seal_level(self, name: bytes, data: bytes) -> bytes:
        """What came out for a level, as it is stored: 12 random bytes, then AES-GCM."""
        nonce = token_bytes(12)  # a changed report gives another result under the same name
        return nonce + AESGCM(derive(self._root, _LEVEL + name, 32)).encrypt(nonce, data, None)

    def open_level(self, name: bytes, sealed: bytes) -> bytes:
        """A result that was sealed."""
        try:
            return AESGCM(derive(self._root, _LEVEL + name, 32)).decrypt(sealed[:12], sealed[12:], None)
        except (InvalidTag, ValueError):
            raise InvalidInput(
                "the stored result of a level was not sealed with this server's key: it or the database has changed"
            ) from None
