"""Checkpoints: the transcript's root after every round, chained, and signed with the key that the task pins.

    head(0) = the task's id
    head(t) = SHA-256("semilocal/1/chain" ‖ head(t - 1) ‖ canonical bytes of checkpoint t)
    seal(t) = checkpoint t, head(t), Ed25519 signature over "semilocal/1/checkpoint" ‖ head(t)

A head stands for the whole history, so two devices that hold the same head saw the same transcript, and a server that
shows two histories has to sign both: anyone who holds the two seals can prove it.

Signing needs the package ``cryptography``, loaded at first use. Knows keys and hashes. Knows no events.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ..errors import InvalidInput, MissingExtra
from ..protocol.messages import Checkpoint, Seal
from ..protocol.task import KEY_BYTES, Task

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Checkpoint", "Seal", "next_head", "public_key", "seal_round", "signature_fault"]

_CHAIN = b"semilocal/1/chain"
_SIGNED = b"semilocal/1/checkpoint"


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
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise MissingExtra("cryptography", "service") from None
    try:
        Ed25519PublicKey.from_public_bytes(task.server_key).verify(seal.signature, _SIGNED + seal.head)
    except (InvalidSignature, ValueError):
        return "bad-signature", "the checkpoint is not signed with the key that the task pins"
    return None


def public_key(key: bytes) -> bytes:
    """The public half (32 bytes) of an Ed25519 private key: what a task pins."""
    return _private(key).public_key().public_bytes_raw()


def _private(key: bytes) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise MissingExtra("cryptography", "service") from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"a private key must be {KEY_BYTES} bytes; got {len(key)}")
    return Ed25519PrivateKey.from_private_bytes(key)
