"""Messages of the two-servers mode: canonical bytes, bounded sizes, nothing else is read; envelopes and signatures."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.pooled import Published, play
from semilocal.pooled.counter import MemoryCounter
from semilocal.pooled.noise import from_generator
from semilocal.protocol.promise import Mark
from semilocal.sharing import wire
from semilocal.sharing.sealing import OVERHEAD, is_signed, open_envelope, public_key, seal, sign, verifying_key
from semilocal.sharing.wire import BucketTree, Receipt, SignedTree, Upload
from tests.helpers.pairs import SIGNING, crowd, pair_task, report_id, upload_of

PAIR = pair_task()
IDS = sorted(report_id(number) for number in range(3))
SIGNATURE = bytes(64)


def published() -> Published:
    counter = MemoryCounter(PAIR.pooled, crowd(50), from_generator(np.random.default_rng(1)))
    return play(PAIR.pooled, counter, mark=Mark(seeded=True))


def upload() -> Upload:
    return upload_of(PAIR, int(PAIR.pooled.hierarchy.codes(crowd(1))[0]), 0)


def sealed(number: int) -> wire.Sealed:
    return wire.Sealed(IDS[number], upload().public, upload().helper_envelope)


MESSAGES: list[Any] = [
    upload(),
    Receipt.issue(SIGNING[0], PAIR.id, IDS[0], bytes(32), now=1e9),
    wire.Proposal("run", PAIR.to_bytes()),
    wire.ProposalAnswer(True),
    sealed(0),
    wire.Forward((sealed(0), sealed(1))),
    wire.ForwardAnswer(("stored", "replayed", "undecryptable", "closed")),
    wire.Closing(b"".join(IDS)),
    wire.ClosingAnswer(bytes(32)),
    wire.LevelCheck(1, 0, bytes(64)),
    wire.LevelCheckAnswer((0, 2), b"tags"),
    wire.LevelSums(1, 3, b"".join(IDS), wire.pack_numbers(np.array([1, -2]))),
    wire.LevelSumsAnswer(wire.pack_numbers(np.array([1, -2]))),
    wire.Finish(1, wire.pack_numbers(np.array([1, -2]))),
    wire.FinishAnswer(wire.pack_numbers(np.array([2**63 - 1, -(2**63)]))),
    wire.Signature(SIGNATURE),
    BucketTree(1, published().to_bytes(), (0, 1)),
    SignedTree(PAIR.to_bytes(), (BucketTree(1, published().to_bytes(), (0,)),), SIGNATURE, SIGNATURE),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_bytes_come_back_and_are_no_message_of_another_kind(message: Any) -> None:
    assert type(message).from_bytes(message.to_bytes()) == message
    for other in MESSAGES:
        if type(other) is not type(message):
            with pytest.raises(InvalidInput, match=r"not a message of kind|at most"):
                type(other).from_bytes(message.to_bytes())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_changed_bytes_are_refused_or_are_another_message(message: Any) -> None:
    data, rng = message.to_bytes(), random.Random(7)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            what = rng.randrange(3)
            place = rng.randrange(len(changed)) if changed else 0
            if what == 0 and changed:
                changed[place] ^= 1 << rng.randrange(8)
            elif what == 1 and changed:
                del changed[place]
            else:
                changed.insert(place, rng.randrange(256))
        try:
            found = type(message).from_bytes(bytes(changed))
        except InvalidInput:
            continue
        assert found.to_bytes() == bytes(changed)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Upload, (b"short", b"", bytes(64), bytes(64))),
        (Upload, (IDS[0], b"", bytes(47), bytes(64))),
        (Upload, (IDS[0], b"", bytes(64), bytes(64), "")),
        (Upload, (IDS[0], b"", bytes(64), bytes(64), None, 0)),
        (Receipt, (bytes(32), IDS[0], bytes(32), 3601, SIGNATURE)),
        (wire.Forward, ((sealed(1), sealed(0)),)),
        (wire.Forward, ((sealed(0), sealed(0)),)),
        (wire.Forward, ((),)),
        (wire.Closing, (b"".join([IDS[1], IDS[0]]),)),
        (wire.Closing, (IDS[0] + b"x",)),
        (wire.LevelCheck, (1, 40, b"")),
        (wire.LevelCheck, (1, -1, b"")),
        (wire.LevelCheck, (1, 0, bytes(31))),
        (wire.LevelCheckAnswer, ((2, 1), b"")),
        (wire.LevelSums, (1, 0, b"", bytes(7))),
        (wire.Signature, (bytes(63),)),
        (BucketTree, (1, b"", (-1,))),
        (BucketTree, (1, b"", (0,) * 41)),
    ],
)
def test_sizes_that_no_message_may_have_are_refused(kind: Any, fields: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput):
        kind.from_bytes(kind(*fields).to_bytes())


def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput, match="at most 4096 bytes"):
        Upload.from_bytes(bytes(4097))


def test_an_upload_has_the_sizes_of_its_pair() -> None:
    good = upload()
    good.check(PAIR)
    for changes in (
        {"public": good.public + b"\0"},
        {"leader_envelope": good.leader_envelope + b"\0"},
        {"helper_envelope": good.helper_envelope[:-1]},
        {"bucket": 2},
        {"public": good.public[:1] + bytes([good.public[1] | 2]) + good.public[2:]},  # 9 levels: bit 9 is not used
    ):
        with pytest.raises(InvalidInput):
            msgspec.structs.replace(good, **changes).check(PAIR)


def test_a_receipt_is_for_these_bytes_and_by_the_leader() -> None:
    data = upload().to_bytes()
    receipt = Receipt.issue(SIGNING[0], PAIR.id, upload().id, hashlib.sha256(data).digest(), now=1e9 + 5)
    other = upload_of(PAIR, int(PAIR.pooled.hierarchy.codes(crowd(1))[0]), 1).to_bytes()
    assert receipt.time % 3600 == 0
    assert receipt.is_good(PAIR, data)
    assert not receipt.is_good(PAIR, other)
    assert not receipt.is_good(pair_task(label="other"), data)
    forged = Receipt.issue(SIGNING[1], PAIR.id, receipt.id, receipt.digest, now=1e9)
    assert not forged.is_good(PAIR, data)


def test_a_tree_of_another_task_is_no_part_of_the_transcript() -> None:
    other = pair_task(label="other")
    signed = SignedTree(other.to_bytes(), (BucketTree(1, published().to_bytes(), (0,)),), SIGNATURE, SIGNATURE)
    with pytest.raises(InvalidInput, match="not of the pair's task"):
        signed.published()


def test_numbers_keep_all_64_bits() -> None:
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63)])
    assert np.array_equal(wire.numbers_of(wire.pack_numbers(numbers)), numbers)


# -- envelopes and signatures -----------------------------------------------------------------------------------------

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


def test_a_signature_is_for_these_parts_and_no_others() -> None:
    signature, key = sign(SECRET, "receipt", b"one", b"two"), verifying_key(SECRET)
    assert is_signed(signature, key, "receipt", b"one", b"two")
    assert not is_signed(signature, key, "receipt", b"onetwo")
    assert not is_signed(signature, key, "request", b"one", b"two")
