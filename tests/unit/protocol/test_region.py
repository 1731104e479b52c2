"""The public record of one region: members, askable ones, what failed, and the draw."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from semilocal.protocol.messages import Entry, Question, Slice
from semilocal.protocol.region import RegionLog, draw, walls_of

TASK = bytes(32)
SEED = b"s" * 32


def name(row: int) -> bytes:
    return row.to_bytes(16, "big")


def said(lower: int, upper: int, answers: Mapping[int, int | None], round_: int = 1) -> Slice:
    entries = tuple(Entry(name(row), answer, bytes(16)) for row, answer in sorted(answers.items()))
    return Slice(TASK, round_, lower, upper, entries)


def roster(people: int = 10) -> RegionLog:
    log = RegionLog(0, 16)
    log.take(said(0, 16, dict.fromkeys(range(people))), asked=False, late=False)
    return log


def question(cut: int, asked: int, *, drawn: int = 2, start: int = 0, stop: int = 0, threshold: int = 1) -> Question:
    return Question(0, 16, (cut,), asked, start, stop or asked, drawn, threshold)


def put(log: RegionLog, cut: int, asked: int, answer: int | None = 1, **options: int) -> list[bytes]:
    """Ask, and let everybody who is drawn answer the same, or nothing."""
    log.ask(question(cut, asked, **options), SEED, 1)
    drawn = list(log.asked_now)
    answers = {} if answer is None else {int.from_bytes(one, "big"): answer for one in drawn}
    log.take(said(0, 16, answers) if answers else None, asked=True, late=True)
    return drawn


def test_a_draw_is_the_names_with_the_smallest_hashes() -> None:
    names = [name(row) for row in range(50)]
    by_hand = sorted(names, key=lambda one: hashlib.sha256(SEED + one).digest())
    assert draw(names, SEED, 7) == tuple(by_hand[:7])
    assert draw(names[::-1], SEED, 7) == tuple(by_hand[:7])
    assert draw(names, b"t" * 32, 7) != tuple(by_hand[:7])


def test_who_answered_is_not_askable_and_every_question_counts() -> None:
    log = roster()
    drawn = put(log, 8, 4)
    assert len(drawn) == 4
    assert log.askable(1) == sorted({name(row) for row in range(10)} - set(drawn))
    assert len(log.askable(2)) == 10
    assert (log.failed, log.tally) == ([8], (0, 4))
    log.question = None
    put(log, 8, 3, drawn=3)
    assert log.failed == [8, 8]  # the same cut again: with multiplicity


def test_two_portions_are_one_draw_and_one_tally() -> None:
    log = roster()
    first = put(log, 8, 6, stop=2)
    log.ask(question(8, 6, start=2), SEED[::-1], 1)
    rest = list(log.asked_now)
    assert len(rest) == 4
    assert not set(first) & set(rest)
    log.take(said(0, 16, {int.from_bytes(one, "big"): 0 for one in rest[:3]}), asked=True, late=True)
    assert log.tally == (3, 2)
    assert log.failed == [8]
    assert log.silent == {rest[3]}


def test_silent_members_may_be_asked_after_they_spoke() -> None:
    log = roster()
    drawn = put(log, 8, 4, answer=None)
    assert log.silent == set(drawn)
    assert len(log.askable(1)) == 6
    log.take(said(0, 16, {int.from_bytes(drawn[0], "big"): None}), asked=False, late=True)
    assert len(log.askable(1)) == 7


def test_a_part_keeps_walls_and_answers_strictly_inside() -> None:
    log = roster()
    for round_, cut in enumerate((4, 8, 12), 2):
        put(log, cut, 2, drawn=round_)
        log.question = None
    part = log.part(8, 16)
    assert part.failed == [12]
    assert {cut for said_ in part.answers.values() for cut, _ in said_} == {12}
    assert part.members == {}
    part.take(said(8, 16, dict.fromkeys(range(10))), asked=False, late=True)
    assert part.crowd == 10  # of the roster, though they announce in a later round
    assert len(part.askable(1)) == 8  # who answered about 4 and 8 is free again


def test_who_enrols_late_is_late_in_every_part() -> None:
    log = roster(4)
    log.take(said(0, 16, {20: None}), asked=False, late=True)
    assert (log.crowd, len(log.members)) == (4, 5)
    assert name(20) not in log.askable(1)
    assert name(20) in log.askable(1, late=True)
    part = log.part(0, 8)
    part.take(said(0, 8, {20: None, 1: None, 30: None}), asked=False, late=True)
    assert part.members == {name(1): False, name(20): True, name(30): True}


def test_walls_are_what_present_members_said() -> None:
    log = roster()
    drawn = put(log, 8, 4)
    put(log, 4, 2, answer=0, drawn=3)
    del log.members[drawn[0]]
    walls = walls_of([log, RegionLog(16, 32)])
    assert walls.first.tolist() == [0, 2, 2]
    assert walls.cuts.tolist() == [4, 8]
    assert walls.asked.tolist() == [2, 3]
    assert walls.yes.tolist() == [0, 3]
    assert walls.cuts.dtype == np.uint64
