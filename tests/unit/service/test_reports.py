"""A report's bytes become a row, and the row becomes the same bytes again; whatever is not a report is refused."""

from __future__ import annotations

import random

import pytest

from semilocal import Query, Report
from semilocal.errors import DeviceViolation
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import encode
from semilocal.service.rounds import check_report, report_bytes, verifier_of
from semilocal.service.stores.base import ReportRow
from semilocal.testing import cluster, participants_at
from tests.helpers.service import sample_task

TASK = sample_task()
ROOT = TASK.hierarchy.ends


def test_a_row_gives_back_the_bytes_and_one_byte_more_less_or_other_is_refused_or_other_bytes() -> None:
    chance, curator, stored = random.Random(3), Curator(TASK), 0
    query = Query(TASK.id, 1, ())
    for number in range(400):
        name = bytes([number % 4]) * 16
        data = encode(Report(TASK.id, chance.choice((1, 1, 1, 2)), name, *ROOT, None, chance.randbytes(16)))
        place, kind = chance.randrange(len(data)), chance.randrange(6)
        if kind == 0:
            data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:place] + data[place + 1 :]
        elif kind == 2:
            data += bytes([chance.randrange(256)])
        try:
            item = check_report(data, TASK.id, 1, name, bytes(32), curator)
        except DeviceViolation:
            continue
        assert item.awaited
        assert report_bytes(ReportRow(name, item.body), query) == data
        stored += 1
    assert stored > 100


def test_a_round_waits_for_the_drawn_and_for_those_whose_region_was_split_and_takes_others_too() -> None:
    """A late participant announces the region: it is stored, and closes no round."""
    people = participants_at(TASK, cluster(40))
    curator, late = Curator(TASK), b"\xff" * 16
    first = curator.query()
    assert isinstance(first, Query)
    curator.close([report for one in people if (report := one.answer(first)) is not None])
    (question,) = curator.query().questions  # type: ignore[union-attr]
    drawn = curator.asked_now(question.region)
    assert 0 < len(drawn) < len(people)
    for name, awaited in ((drawn[0], True), (late, False)):
        data = encode(Report(TASK.id, 2, name, *ROOT, None, bytes(16)))
        assert check_report(data, TASK.id, 2, name, bytes(32), curator).awaited == awaited
    other = next(one.pseudonym for one in people if one.pseudonym not in drawn)
    with pytest.raises(DeviceViolation, match="not drawn"):
        check_report(encode(Report(TASK.id, 2, other, *ROOT, 1, bytes(16))), TASK.id, 2, other, bytes(32), curator)


def test_a_key_is_64_lower_case_digits() -> None:
    assert verifier_of(b"Bearer " + b"0a" * 32) == verifier_of(b"bearer " + b"0a" * 32)
    for header in (b"", b"Bearer ", b"Bearer " + b"0A" * 32, b"Basic " + b"0a" * 32, b"Bearer " + b"0a" * 32 + b"\n"):
        assert verifier_of(header) is None
