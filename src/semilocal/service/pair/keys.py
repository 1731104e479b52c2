"""The secrets of a server for one pair: what opens its envelopes, makes its noise, and hides what it stores.

All of them follow from the server's signing secret, which is not in the database, and from a random seed, which is.
The database alone opens nothing. When the pair ends the seed is deleted, and then the signing secret opens nothing
either.

Knows secrets. Knows no reports, HTTP or database.
"""

from __future__ import annotations

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
_RESULT = b"semilocal/1/pair/result"


class PairSecrets:
    """Secrets for one pair.

    Parameters
    ----------
    signing_secret : bytes
        Of the key that the pair pins.
    seed : bytes
        Random, for this pair only.
    """

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

    def seal_result(self, order: bytes, chunk: int, data: bytes) -> bytes:
        """What came out for a chunk, as it is stored. An order and a chunk have one result, so a key seals it once."""
        return AESGCM(derive(self._root, _RESULT + order, 32)).encrypt(chunk.to_bytes(12, "big"), data, None)

    def open_result(self, order: bytes, chunk: int, sealed: bytes) -> bytes:
        """A result that was sealed."""
        try:
            return AESGCM(derive(self._root, _RESULT + order, 32)).decrypt(chunk.to_bytes(12, "big"), sealed, None)
        except InvalidTag:
            raise InvalidInput(
                f"the stored result of chunk {chunk} was not sealed with this server's key: a worker has another one, "
                "or the database was changed"
            ) from None
