"""Canonical bytes: one encoding for every value, and the id that a task gets from it.

Knows MessagePack. Knows no messages.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TypeVar

import msgspec

from ..arrays import cut_repr
from ..errors import InvalidInput

__all__ = ["Identified", "read_canonical"]

T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()


class Identified(msgspec.Struct, frozen=True, dict=True):
    """A value that everybody names by the hash of its bytes."""

    __repr__ = cut_repr

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return _encoder.encode(self)

    @cached_property  # of this object: equal values may differ in bytes, as 0.0 and -0.0 do
    def id(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(self.to_bytes()).digest()


def read_canonical(data: bytes, decoder: msgspec.msgpack.Decoder[T], name: str) -> T:
    """What a decoder makes of canonical bytes; anything else is refused with a reason."""
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, InvalidInput, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"not a {name}: {error}") from None
    if _encoder.encode(message) != data:
        raise InvalidInput(f"not the canonical bytes of a {name}")
    return message
