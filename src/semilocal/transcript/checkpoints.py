"""One hash that stands for all events of a transcript, and checkpoints: its value after each round, chained and signed.

The root is the Merkle tree hash of RFC 6962 (SHA-256) over the canonical bytes of the events: the task; then for each
round the query, the reports by ascending pseudonym, and the closing; if values are asked for, the plan stands before
the first value query.

    head(0) = the task's id
    head(t) = SHA-256("semilocal/1/chain" ‖ head(t - 1) ‖ canonical bytes of checkpoint t)
    seal(t) = checkpoint t, head(t), Ed25519 signature over "semilocal/1/checkpoint" ‖ head(t)

A head stands for the whole history, so two devices that hold the same head saw the same transcript, and a server that
shows two histories has to sign both: anyone who holds the two seals can prove it.

Signing needs the package ``cryptography``, loaded at first use. Knows bytes, keys and hashes. Knows no files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..errors import InvalidInput, optional
from ..protocol.messages import Checkpoint, Message, Seal, encode
from ..protocol.task import KEY_BYTES, Task

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class MerkleLog:
    """A growing list of events, given by their bytes, that keeps one hash per set bit of its size.

    Its state fits into a column of a database, to go on later.
    """

    def __init__(self, events: Iterable[bytes] = ()) -> None:
        self.size = 0
        self._peaks: list[bytes | None] = []  # root of the perfect subtree of 2**i leaves, where bit i of size is set
        self.add(events)

    def add(self, events: Iterable[bytes]) -> None:
        """Add events: one hash each, and half as many per level above."""
        sha256 = hashlib.sha256
        carry, height = [sha256(b"\x00" + event).digest() for event in events], 0
        self.size += len(carry)
        while carry:
            if height == len(self._peaks):
                self._peaks.append(None)
            peak = self._peaks[height]
            if peak is not None:
                carry.insert(0, peak)
            self._peaks[height] = carry.pop() if len(carry) % 2 else None
            carry = [sha256(b"\x01" + a + b).digest() for a, b in zip(carry[::2], carry[1::2], strict=True)]
            height += 1

    def root(self) -> bytes:
        """Merkle tree hash of all events so far (32 bytes); the hash of nothing for none."""
        node: bytes | None = None
        for peak in self._peaks:
            if peak is not None:
                node = peak if node is None else hashlib.sha256(b"\x01" + peak + node).digest()
        return hashlib.sha256().digest() if node is None else node

    def to_bytes(self) -> bytes:
        """The state."""
        return msgspec.msgpack.encode([self.size, self._peaks])

    @classmethod
    def from_bytes(cls, data: bytes) -> MerkleLog:
        """The log that ``to_bytes`` wrote."""
        log = cls()
        log.size, log._peaks = msgspec.msgpack.decode(data, type=tuple[int, list[bytes | None]])
        return log


def merkle_root(events: Iterable[bytes]) -> bytes:
    """The root over the bytes of events (32 bytes)."""
    return MerkleLog(events).root()


def transcript_root(events: Iterable[Message]) -> bytes:
    """The root over all events (32 bytes)."""
    return merkle_root(map(encode, events))


# -- checkpoints ------------------------------------------------------------------------------------------------------


_CHAIN = b"semilocal/1/chain"
_SIGNED = b"semilocal/1/checkpoint"
_ED25519 = "cryptography.hazmat.primitives.asymmetric.ed25519"


def next_head(head: bytes, checkpoint: Checkpoint) -> bytes:
    """The chain's head after one more checkpoint; the first head is the task's id."""
    return hashlib.sha256(_CHAIN + head + checkpoint.to_bytes()).digest()


def seal_round(head: bytes, checkpoint: Checkpoint, *, key: bytes | None = None) -> Seal:
    """The seal of a round, after the head of the round before (the task's id in round 1); signed if there is an Ed25519
    private key (32 bytes).
    """
    following = next_head(head, checkpoint)
    if key is None:
        return Seal(checkpoint, following)
    return Seal(checkpoint, following, _private(key).sign(_SIGNED + following))


def signature_fault(seal: Seal, task: Task) -> tuple[str, str] | None:
    """Token and words for what is wrong with a seal's signature; None if nothing is."""
    if not task.server_key:
        return ("bad-signature", "the checkpoint is signed, but the task pins no key") if seal.signature else None
    if not seal.signature:
        return "not-signed", "the task pins a key, but the checkpoint is not signed"
    exceptions = optional("cryptography.exceptions", "service")
    try:
        optional(_ED25519, "service").Ed25519PublicKey.from_public_bytes(task.server_key).verify(
            seal.signature, _SIGNED + seal.head
        )
    except (exceptions.InvalidSignature, ValueError):
        return "bad-signature", "the checkpoint is not signed with the key that the task pins"
    return None


def public_key(key: bytes) -> bytes:
    """The public half (32 bytes) of an Ed25519 private key: what a task pins."""
    return _private(key).public_key().public_bytes_raw()


def _private(key: bytes) -> Ed25519PrivateKey:
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"a private key must be {KEY_BYTES} bytes; got {len(key)}")
    private: Ed25519PrivateKey = optional(_ED25519, "service").Ed25519PrivateKey.from_private_bytes(key)
    return private
