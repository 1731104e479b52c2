"""Remembered checks give what the checks themselves give."""

from __future__ import annotations

import random
from typing import Any

import pytest

from semilocal import Report
from semilocal.errors import DeviceViolation
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import encode
from semilocal.service.reports import Sound, check_report, verifier_of
from tests.helpers.service import sample_task

TASK = sample_task()


def outcome(check: Any, *arguments: Any) -> Any:
    try:
        return check(*arguments)
    except DeviceViolation as error:
        return error.token, error.reason


def bodies(chance: random.Random, names: list[bytes]) -> list[bytes]:
    """Sound reports, and such with one byte changed, added or missing."""
    found = []
    for _ in range(400):
        data = encode(Report(TASK.id, chance.choice((1, 1, 1, 2)), chance.choice(names), chance.choice((1, 1, 2)),
                             chance.choice((0, 1, 1, 2, None))))  # fmt: skip
        place = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:place] + data[place + 1 :]
        elif kind == 2:
            data += bytes([chance.randrange(256)])
        found.append(data)
    return found


@pytest.mark.parametrize("most", [4096, 1, 0])
def test_remembered_checks_give_what_the_checks_give(most: int) -> None:
    chance, names = random.Random(3), [bytes([number]) * 16 for number in range(4)]
    sound, curator, stored = Sound(most), Curator(TASK), 0
    for data in bodies(chance, names):
        inside = [name for name in names if name in data]
        given = (data, TASK.id, 1, chance.choice([*inside * 8, *names]), bytes(32), curator)
        found = outcome(sound.check, *given)
        assert found == outcome(check_report, *given)
        stored += hasattr(found, "answer")
    assert stored > 20
    assert len(sound) <= most


def test_only_one_head_is_remembered() -> None:
    sound, name = Sound(), bytes(16)
    sound.check(encode(Report(TASK.id, 1, name, 1, 1)), TASK.id, 1, name, bytes(32), Curator(TASK))
    with pytest.raises(DeviceViolation, match="task"):
        sound.check(encode(Report(bytes(32), 1, name, 1, 1)), TASK.id, 1, name, bytes(32), Curator(TASK))


def test_a_key_is_64_lower_case_digits() -> None:
    assert verifier_of(b"Bearer " + b"0a" * 32) == verifier_of(b"bearer " + b"0a" * 32)
    for header in (b"", b"Bearer ", b"Bearer " + b"0A" * 32, b"Basic " + b"0a" * 32, b"Bearer " + b"0a" * 32 + b"\n"):
        assert verifier_of(header) is None
