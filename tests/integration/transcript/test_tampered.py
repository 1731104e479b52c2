"""Tampered transcripts: whatever somebody without a key changes in a published file is found.

500 files in the suite, 100,000 with SEMILOCAL_LONG=1. Bytes are changed where they lie, and events are changed, left
out, doubled, swapped or brought from elsewhere in a file with good checksums and the seals of the true one. The seed is
fixed; the property is not statistical, so there are no false alarms.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections import Counter
from pathlib import Path

import pytest

from semilocal.testing import MockClock
from semilocal.transcript.pair import verify_pair
from semilocal.transcript.verify import verify_stream
from tests.helpers.long import SEED, times
from tests.helpers.pairs import crowd, pooled_task
from tests.helpers.running_pair import opened, running_pair
from tests.helpers.transcript_cases import campaign, pack, repack

FILES = times(500, long=100_000)


def spoil(data: bytes, chance: random.Random) -> bytes:
    """The same with a bit, some bytes or the end changed."""
    place, kind = chance.randrange(len(data)), chance.randrange(4)
    if kind == 0:
        return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
    if kind == 1:
        return data[:place] + data[place + chance.randrange(1, 9) :]
    if kind == 2:
        return data[:place] + chance.randbytes(chance.randrange(1, 9)) + data[place:]
    return data[:place]


def tamper(events: list[bytes], others: list[bytes], chance: random.Random) -> list[bytes]:
    """As many events, of which one or two are not what they were."""
    changed, place, other = list(events), chance.randrange(len(events)), chance.randrange(len(events))
    kind = chance.randrange(4)
    if kind == 0:
        changed[place] = spoil(changed[place], chance) or b"\xc0"
    elif kind == 1:
        changed[place], changed[other] = changed[other], changed[place]
    elif kind == 2:
        changed[place] = changed[other]
    else:
        changed[place] = chance.choice(others)
    return changed


def test_every_change_of_a_signed_transcript_is_found() -> None:
    chance, found = random.Random(3 + SEED), Counter[str]()
    played, another = campaign(6, k=2, max_depth=2), campaign(6, seed=10, k=2, max_depth=2)
    whole = pack(played.events, played.task)
    assert verify_stream(io.BytesIO(whole)).sound
    tried = 0
    while tried < FILES * 4 // 5:
        file = spoil(whole, chance)
        if chance.random() < 0.7:
            file = repack(tamper(played.events, another.events, chance), whole)
        if file == whole:
            continue
        tried += 1
        verdict = verify_stream(io.BytesIO(file))
        assert not verdict.sound, verdict.lines()
        found.update({one.token for one in verdict.differences})
    print(f"{tried} tampered transcripts of one server, 0 not found: {dict(found.most_common())}")
    assert {"damaged-file", "wrong-root"} <= set(found), found


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The transcript of a pair."""

    async def body(folder: Path) -> bytes:
        with opened(folder) as stores:
            async with running_pair(stores, MockClock()) as servers:
                pair = await servers.opened(pooled_task(max_depth=4))
                await servers.fill(pair, crowd(20))
                return (await servers.finish(pair)).to_bytes()

    return asyncio.run(body(tmp_path_factory.mktemp("signed")))


def test_every_change_of_the_transcript_of_a_pair_is_found(signed: bytes) -> None:
    chance, found = random.Random(4 + SEED), Counter[str]()
    assert verify_pair(signed).sound
    tried = 0
    while tried < FILES // 5:
        file = spoil(signed, chance)
        if file == signed:
            continue
        tried += 1
        verdict = verify_pair(file)
        assert not verdict.sound
        found.update({one.token for one in verdict.differences})
    print(f"{tried} tampered transcripts of a pair, 0 not found: {dict(found.most_common())}")
    assert {"unreadable", "bad-signature"} <= set(found), found
