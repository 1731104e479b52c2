"""Envelopes open for the server, task, report, public part, bucket and token they were sealed for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from semilocal.errors import InvalidInput
from semilocal.sharing.sealing import OVERHEAD, open_envelope, public_key, seal

SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
ABOUT: dict[str, Any] = {"role": "leader", "task": bytes(32), "report": bytes(16), "public": b"corrections"}
ABOUT |= {"bucket": 5, "token": "a token"}


def test_an_envelope_opens_for_its_server() -> None:
    sealed = seal(b"sixteen bytes!!!", public_key(SECRET), **ABOUT)
    assert len(sealed) == 16 + OVERHEAD
    assert open_envelope(sealed, SECRET, **ABOUT) == b"sixteen bytes!!!"


@pytest.mark.parametrize(
    "change",
    [
        {"role": "helper"}, {"task": b"\1" * 32}, {"report": b"\1" * 16}, {"public": b"other corrections"},
        {"bucket": 4}, {"token": "another"}, {"token": ""},
    ],
)  # fmt: skip
def test_a_replayed_or_swapped_envelope_does_not_open(change: dict[str, Any]) -> None:
    sealed = seal(b"seed", public_key(SECRET), **ABOUT)
    with pytest.raises(InvalidInput, match="does not open"):
        open_envelope(sealed, SECRET, **ABOUT | change)
    with pytest.raises(InvalidInput, match="does not open"):
        open_envelope(sealed, OTHER, **ABOUT)


def test_a_changed_envelope_does_not_open() -> None:
    sealed = seal(b"seed", public_key(SECRET), **ABOUT)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(InvalidInput):
            open_envelope(bytes(changed), SECRET, **ABOUT)
    with pytest.raises(InvalidInput, match="at least"):
        open_envelope(sealed[:40], SECRET, **ABOUT)


@pytest.mark.parametrize("change", [{"role": "boss"}, {"task": b"short"}, {"report": b"short"}])
def test_nonsense_is_refused_before_sealing(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        seal(b"seed", public_key(SECRET), **ABOUT | change)
    with pytest.raises(InvalidInput, match="32 bytes"):
        seal(b"seed", b"short", **ABOUT)
