"""The public log as devices follow it: what an attacker's log must not achieve, one named attempt per test."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from semilocal import DiscreteLaplace, Participant, Policy, Task
from semilocal.errors import ServerViolation
from semilocal.protocol.messages import Closed, Entry, Head, Query, Question, Slice, Verdict
from semilocal.protocol.region import Path
from tests.helpers.enumeration import ANYTHING, line, place_of

TASK = line(3, epsilon=2.0, k=2)
ROOT = TASK.hierarchy.ends
NAMES = [bytes([row]) * 16 for row in range(1, 9)]
Answer = int | tuple[int, ...] | None


class Log:
    """A server that writes what it likes; it follows the region of one code."""

    def __init__(self, code: int, task: Task = TASK, company: list[bytes] = NAMES) -> None:
        self.task, self.code, self.company = task, code, company
        self.region: tuple[int, int] = task.hierarchy.ends
        self.round = 1
        self.shown: list[tuple[Query, Closed, Slice | None]] = []

    def question(self, cut: int, asked: int, *, threshold: int | None = None) -> Question:
        """Everybody who was asked must say so on both sides: a threshold that no device refuses."""
        return Question(*self.region, (cut,), asked, 0, asked, self.round, asked if threshold is None else threshold)

    def close(
        self, question: Question | None, said: Mapping[bytes, Answer], *, outcome: str = "wall",
        tally: tuple[int, ...] = (), nonces: Mapping[bytes, bytes] | None = None, preimage: bytes = b"",
    ) -> None:  # fmt: skip
        query = Query(self.task.id, self.round, () if question is None else (question,))
        own = nonces or {}
        entries = tuple(Entry(name, said[name], own.get(name, bytes(16))) for name in sorted(said))
        reports = Slice(self.task.id, self.round, *self.region, entries) if entries else None
        heads = () if reports is None else (Head(*self.region, len(entries), reports.digest()),)
        verdicts = () if question is None else (Verdict(outcome, tally),)  # type: ignore[arg-type]
        self.shown.append((query, Closed(self.task.id, self.round, heads, verdicts, preimage, False), reports))
        self.round += 1
        if question is not None and outcome == "split":
            self.region = next(part for part in question.parts if part[0] <= self.code < part[1])

    def enrol(self, device: Participant) -> None:
        report = device.answer(Query(self.task.id, 1, ()))
        assert report is not None
        self.close(None, dict.fromkeys([*self.company, device.pseudonym]), nonces={device.pseudonym: report.nonce})

    def read(self, device: Participant, start: int = 0) -> None:
        for query, closed, reports in self.shown[start:]:
            device.observe(query)
            device.close(closed, reports)


def device(code: int = 8, policy: Policy = ANYTHING, task: Task = TASK) -> Participant:
    return Participant(task, place_of(task, code), b"d" * 32, policy)


def agreeing(log: Log, one: Participant, cut: int) -> None:
    """A split at a cut, by answers of the company: the device's own answer is not in the log."""
    path = Path(log.task)
    for row in range(len(log.shown)):
        path = path_after(path, log, row)
    size = len(path.log.askable(log.task.answers)) // 2 * 2
    t = size // 2 - 1
    question = Question(*log.region, (cut,), size, 0, size, log.round, t)
    path.observe(Query(log.task.id, log.round, (question,)))
    drawn = [name for name in sorted(path.asked) if name != one.pseudonym]
    said = {name: int(row < t) for row, name in enumerate(drawn)}
    log.close(question, said, outcome="split", tally=(len(drawn) - t, t))


def path_after(path: Path, log: Log, row: int) -> Path:
    """One round further, in the part that the log follows."""
    query, closed, reports = log.shown[row]
    path.observe(query)
    return next(one for one in path.close(closed, reports) if one.region[0] <= log.code < one.region[1])


@pytest.fixture
def lax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny crowds: any threshold holds, so that a few names can split a region."""
    monkeypatch.setattr("semilocal.protocol.region.threshold_holds", lambda *_, **__: True)


def test_a_device_that_was_away_names_no_region_below_its_owner_s_limits(lax: None) -> None:
    """A split that its owner forbids, while it is away: it stays where it is, whichever side it is on."""
    policy = Policy(max_epsilon=9, min_k=1, max_delta=1, allow_simulation=True, min_side=(0.2,))
    for code in (8, 9, 15):
        one, log = device(code, policy), Log(code)
        log.enrol(one)
        state = one.state
        agreeing(log, one, 9)  # the lower part is an eighth of the domain
        away = Participant(TASK, place_of(TASK, code), b"d" * 32, policy, state=state)
        log.read(away)
        assert away.state.stopped
        assert away.answer(Query(TASK.id, 3, ())) is None
        assert away.region == ROOT


def test_splits_are_counted_across_logs_that_a_server_changes(lax: None) -> None:
    policy = Policy(max_epsilon=9, min_k=1, max_delta=1, allow_simulation=True, max_splits=1)
    one, log = device(8, policy), Log(8)
    log.enrol(one)
    log.read(one)
    agreeing(log, one, 12)
    log.read(one, 1)
    assert one.answer(Query(TASK.id, 3, ())) is not None
    assert one.region == (8, 12)
    forked = Log(8)  # after a restart: the same enrolment, an empty round, and then a cut that leads further
    again = Participant(TASK, place_of(TASK, 8), b"d" * 32, policy, state=one.state)
    forked.shown, forked.round = [log.shown[0]], 2
    forked.close(None, {})
    forked.close(None, {})
    forked.read(again)
    question = Question(*ROOT, (10,), 2, 0, 2, 4, 1)
    with pytest.raises(ServerViolation, match=r"\[many-splits\]"):
        again.answer(Query(TASK.id, 4, (question,)))


def test_a_retry_in_another_region_gets_no_second_report(lax: None) -> None:
    """The same query, after a restart with a log that leads to a smaller region."""
    one, log = device(8), Log(8)
    log.enrol(one)
    log.read(one)
    log.close(None, {})
    log.read(one, 1)
    query = Query(TASK.id, 3, ())
    one.state = msgspec.structs.replace(one.state, round=3)  # as if it had announced the root in round 3
    one.path.observe(query)
    one.state = msgspec.structs.replace(one.state, question=one.path.digest)
    forked = Log(8)
    forked.shown, forked.round = [log.shown[0]], 2
    agreeing(forked, one, 12)
    again = Participant(TASK, place_of(TASK, 8), b"d" * 32, ANYTHING, state=one.state)
    forked.read(again)
    assert again.path.region == (8, 12)
    with pytest.raises(ServerViolation, match=r"\[repeated-round\]"):
        again.answer(query)


def test_a_task_without_a_chain_has_no_preimages() -> None:
    path, log = Path(TASK), Log(8)
    log.close(None, dict.fromkeys(NAMES), preimage=bytes(32))
    with pytest.raises(ServerViolation, match=r"\[broken-chain\]"):
        path_after(path, log, 0)


def test_rule_all_refines_nothing() -> None:
    task = msgspec.structs.replace(line(3, epsilon=2.0, rule="all"), randomizer=DiscreteLaplace(2.0, 2))
    path, log = Path(task), Log(8, task)
    log.close(None, dict.fromkeys(NAMES))
    path = path_after(path, log, 0)
    with pytest.raises(ServerViolation, match=r"\[wrong-question\]"):
        path.observe(Query(task.id, 2, (log.question(12, 4, threshold=0),)))


def test_a_given_up_question_cannot_be_taken_up_again() -> None:
    path, log = Path(TASK), Log(8)
    log.close(None, dict.fromkeys(NAMES))
    path = path_after(path, log, 0)
    first = Question(*ROOT, (12,), 6, 0, 2, 2, 6)
    log.close(first, {}, tally=(0, 0))
    path = path_after(path, log, 1)
    assert path.log.failed == [12]
    with pytest.raises(ServerViolation, match=r"\[wrong-draw\]"):
        path.observe(Query(TASK.id, 3, (msgspec.structs.replace(first, start=2, stop=6),)))
