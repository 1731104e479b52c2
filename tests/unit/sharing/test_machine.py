"""A leader against a helper, without a network: the same numbers as two parties, wherever they are interrupted."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from sharing_forgeries import second_node

from semilocal.errors import InvalidInput
from semilocal.pooled import replay
from semilocal.pooled.play import Level
from semilocal.sharing.machine import EVENTS, Helper, Leader
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import accepted_digest
from semilocal.sharing.report import SharedReport
from semilocal.sharing.wire import (
    Closing,
    ClosingAnswer,
    Finish,
    LevelCheck,
    LevelCheckAnswer,
    LevelSums,
    LevelSumsAnswer,
    Signature,
    numbers_of,
    pack_numbers,
    split_ids,
)
from tests.helpers.machines import Halves, Report, half_of, machines, run
from tests.helpers.pairs import crowd, pair_task, report_id, shared_report

FORGED = report_id(10_000)


class People:
    """Honest and other reports of a pair, and how each server evaluates them."""

    def __init__(self, pair: PairTask, n: int, forged: Sequence[SharedReport] = ()) -> None:
        self.pair = pair
        self.reports: dict[bytes, tuple[int, SharedReport]] = {}
        for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(n)).tolist()):
            self.reports[report_id(number)] = shared_report(pair, code, number)
        for report in forged:
            self.reports[report.nonce] = (1, report)

    def stored(self) -> list[tuple[bytes, int]]:
        return [(report, self.reports[report][0]) for report in sorted(self.reports)]

    def half(self, server: int) -> Halves:
        mine = [Report(name, bucket, one.public, one.private[server]) for name, (bucket, one) in self.reports.items()]
        return half_of(self.pair, mine, server)

    def both(self) -> tuple[Leader, Helper]:
        return machines(self.pair, self.stored(), (self.half(0), self.half(1)))


def forgery(pair: PairTask, level: int = 1) -> SharedReport:
    path = pair.place(int(np.sort(pair.pooled.hierarchy.codes(crowd(300)))[150]))[1]
    return second_node(
        pair.shape, path, bytes(range(32)), level=level, how="both", proof="kept", task=pair.id, nonce=FORGED
    )


def test_a_forged_report_is_rejected_once_and_named_in_the_transcript() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair)])
    leader, helper = people.both()
    said = run(leader, helper)
    (tree,) = leader.signed_tree().trees
    assert sum(tree.rejected) == 1
    (found,) = leader.signed_tree().published()
    assert np.abs(replay(found).counts).max() < 400
    checks = [LevelCheckAnswer.from_bytes(one.answer) for one in said if one.step.name.endswith("check")]
    assert [bool(check.chunks) for check in checks].count(True) == 1  # afterwards its tags are not compared


@pytest.mark.slow
def test_a_machine_goes_on_from_what_was_said_at_any_point() -> None:
    pair = pair_task()
    people = People(pair, 100, [forgery(pair)])
    whole, other = people.both()
    said = run(whole, other)
    for end in range(len(said) + 1):
        leader, helper = people.both()
        leader.replay(said[:end])
        helper.replay(said[:end])
        assert run(leader, helper) == said[end:]
        assert leader.signed_tree() == whole.signed_tree() == helper.signed_tree()


# -- numbers that cannot be --------------------------------------------------------------------------------------------

FALSE = -(2**60)


def lie(leader: Leader, choose: Callable[[Level], npt.NDArray[np.int64]]) -> None:
    """Play a helper that agrees with every check and makes the published differences what it likes."""
    while leader.due is not None:
        request, name = leader.request(), leader.due.name
        answer: bytes
        if name == "close":
            answer = ClosingAnswer(accepted_digest(split_ids(Closing.from_bytes(request).ids))).to_bytes()
        elif name.endswith("check"):
            answer = LevelCheckAnswer((), b"").to_bytes()
        else:
            wanted = choose(leader._party.levels[-1]).astype(np.uint64)
            own = numbers_of(LevelSums.from_bytes(request).numbers).astype(np.uint64)
            answer = LevelSumsAnswer(pack_numbers((own - wanted).astype(np.int64))).to_bytes()
        leader.advance(request, answer)


def test_a_false_number_is_refused_with_its_step_and_operator() -> None:
    pair = pair_task()
    people = People(pair, 100)
    for depth in (0, 3):

        def false(level: Level, depth: int = depth) -> npt.NDArray[np.int64]:
            return np.full(int(level.opened.sum()), FALSE if level.depth == depth else 0)

        with pytest.raises(InvalidInput, match=rf"levels/{depth}/sums of bucket 1: Bee University \(helper\) sends"):
            lie(people.both()[0], false)
    for kind, message in (("sums", LevelSums), ("finish", Finish)):
        _, helper, request = at(people, kind)
        said = message.from_bytes(request)
        numbers = numbers_of(said.numbers)
        numbers[:1] += FALSE  # modulo 2^64
        request = msgspec.structs.replace(said, numbers=pack_numbers(numbers)).to_bytes()
        answer = helper.answer(request)
        with pytest.raises(InvalidInput, match=r"of bucket 1: City of Ay \(leader\) sends numbers that cannot be"):
            helper.advance(request, answer)


def test_a_peer_that_lies_a_little_everywhere_makes_nobody_compute_more_than_its_people_would() -> None:
    """The most that is allowed together, given to the smallest half of the cells: they would double again and again."""
    pair = pair_task(max_depth=40, epsilon=2.0)
    people, most = People(pair, 200), 0

    def smallest(level: Level) -> npt.NDArray[np.int64]:
        nonlocal most
        task = pair.pooled
        scales = 1 / (level.price[level.opened] * float(task.unit))
        most = max(most, len(scales))
        limit = 200 + 4 * np.log(2) * scales.sum() + 80 * scales.max()
        out = np.zeros(len(scales), dtype=np.int64)
        some = np.argsort(level.size[level.opened])[: max(1, len(scales) // 2)]
        out[some] = -int(limit / len(some))
        return out

    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"they open \d+ cells, more than 200 reports ever do"):
            lie(people.both()[0], smallest)
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()
    assert 16 < most < 200


# -- a malicious leader against a helper -------------------------------------------------------------------------------


def at(people: People, kind: str) -> tuple[Leader, Helper, bytes]:
    """Two machines that have come to a step of a kind, and the honest request for it."""
    leader, helper = people.both()
    while leader.due is not None:
        request = leader.request()
        if leader.due.name.endswith(kind):
            return leader, helper, request
        answer = helper.answer(request)
        leader.advance(request, answer)
        helper.advance(request, answer)
    raise AssertionError(kind)


def test_a_helper_refuses_what_no_leader_can_have_sent() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair, level=0)])
    _, helper, request = at(people, "check")
    check = LevelCheck.from_bytes(request)
    for changed in (
        msgspec.structs.replace(check, level=1),
        msgspec.structs.replace(check, bucket=2),
        msgspec.structs.replace(check, digests=check.digests * 2),
        msgspec.structs.replace(check, digests=b""),
    ):
        with pytest.raises(InvalidInput):
            helper.answer(changed.to_bytes())
    with pytest.raises(InvalidInput):
        helper.answer(LevelSums(1, 0, b"", b"").to_bytes())  # sums before the check
    _, helper, request = at(people, "sums")
    sums = LevelSums.from_bytes(request)
    assert len(sums.rejected) == 16
    for bad in (
        msgspec.structs.replace(sums, rejected=bytes(16)),
        msgspec.structs.replace(sums, level=1),
        msgspec.structs.replace(sums, numbers=sums.numbers + bytes(8)),
    ):
        _, helper, _ = at(people, "sums")
        with pytest.raises(InvalidInput):
            helper.answer(bad.to_bytes())


def test_a_helper_drops_nobody_whose_chunk_agrees() -> None:
    people = People(pair_task(), 300)
    _, helper, request = at(people, "sums")
    sums = msgspec.structs.replace(LevelSums.from_bytes(request), rejected=people.stored()[0][0])
    with pytest.raises(InvalidInput, match="tags agree"):
        helper.answer(sums.to_bytes())


def test_a_level_is_not_fixed_twice_with_another_set() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair, level=0)])
    _, helper, request = at(people, "sums")
    helper.answer(request)
    with pytest.raises(InvalidInput, match="asked once"):
        helper.answer(msgspec.structs.replace(LevelSums.from_bytes(request), rejected=b"").to_bytes())


def test_a_leader_refuses_what_no_helper_can_have_answered() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair, level=0)])
    leader, helper, request = at(people, "check")
    good = LevelCheckAnswer.from_bytes(helper.answer(request))
    for bad in (LevelCheckAnswer((1,), good.tags), LevelCheckAnswer((0,), good.tags[:-1]), LevelCheckAnswer((), b"x")):
        with pytest.raises(InvalidInput):
            leader.advance(request, bad.to_bytes())
    leader, helper, request = at(people, "sums")
    with pytest.raises(InvalidInput, match="numbers"):
        leader.advance(request, LevelSumsAnswer(b"").to_bytes())
    leader, helper, request = at(people, "sign")
    with pytest.raises(InvalidInput, match="signature"):
        leader.advance(request, Signature(bytes(64)).to_bytes())


def test_a_helper_signs_its_own_transcript_only() -> None:
    people = People(pair_task(), 300)
    _, helper, request = at(people, "sign")
    with pytest.raises(InvalidInput, match="another transcript"):
        helper.answer(Signature(bytes(64)).to_bytes())
    helper.answer(request)


def test_stored_numbers_that_are_not_its_own_are_noticed() -> None:
    people = People(pair_task(), 300)
    *before, finish, _ = run(*people.both())
    message = Finish.from_bytes(finish.request)
    changed = msgspec.structs.replace(message, numbers=pack_numbers(numbers_of(message.numbers) + 1))
    leader, _ = people.both()
    leader.replay(before)
    with pytest.raises(InvalidInput, match="data or key changed"):
        leader.advance(changed.to_bytes(), finish.answer)


def test_no_other_message_than_the_table_has_leaves_a_state() -> None:
    """Every request in every state: only the one of the table is taken."""
    people = People(pair_task(), 60)
    said = run(*people.both())
    requests = {one.step.name.rsplit("/", 1)[-1]: one.request for one in reversed(said)}  # of the first level
    for kind, request in requests.items():
        for other, wrong in requests.items():
            if other == kind:
                continue
            _, helper, honest = at(people, kind)
            with pytest.raises(InvalidInput):
                helper.answer(wrong)
            assert helper.answer(honest)  # nothing has changed
            assert EVENTS[helper.state].says == "helper"
        leader, _, honest = at(people, kind)
        assert honest == request == leader.request()
        with pytest.raises(InvalidInput, match="asked once"):
            leader.advance(b"another", b"")


def test_nothing_follows_the_signatures() -> None:
    leader, helper = People(pair_task(), 3).both()
    last = run(leader, helper)[-1]
    for call in (lambda: helper.answer(last.request), lambda: leader.advance(last.request, last.answer)):
        with pytest.raises(InvalidInput, match=r"nothing follows|asked once"):
            call()
