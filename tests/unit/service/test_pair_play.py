"""Two plays against each other, without a network: the same numbers as two parties, wherever they are interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from sharing_forgeries import second_node

from semilocal.errors import InvalidInput
from semilocal.pooled import Published, replay
from semilocal.service.pair.play import Play
from semilocal.sharing.evaluate import Half
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Evaluator, Party
from semilocal.sharing.report import SharedReport
from semilocal.sharing.wire import (
    Finish,
    LevelCheck,
    LevelCheckAnswer,
    LevelSums,
    LevelSumsAnswer,
    Signature,
    numbers_of,
    pack_numbers,
)
from tests.helpers.pairs import ROLES, SIGNING, crowd, pair_task, publish, report_id, shared_report

NOISE = (b"0" * 32, b"1" * 32)


class Said(NamedTuple):
    bucket: int
    step: str
    request: bytes
    answer: bytes | None


class People:
    """Honest and other reports of a pair, and how each server evaluates them."""

    def __init__(self, pair: PairTask, n: int, forged: Sequence[SharedReport] = ()) -> None:
        self.pair = pair
        self.reports: dict[bytes, tuple[int, SharedReport]] = {}
        for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(n)).tolist()):
            self.reports[report_id(number)] = shared_report(pair, code, number)
        for number, report in enumerate(forged, n):
            self.reports[report_id(number)] = (1, report)

    def members(self) -> dict[int, list[bytes]]:
        out: dict[int, list[bytes]] = {} if self.pair.bucket_depth else {1: []}
        for report in sorted(self.reports):
            out.setdefault(self.reports[report][0], []).append(report)
        return out

    def half(self, server: int) -> Callable[[int, Sequence[bytes]], Evaluator]:
        def evaluator(bucket: int, ids: Sequence[bytes]) -> Half:
            found = [self.reports[report][1] for report in ids]
            public, private = [one.public for one in found], [one.private[server] for one in found]
            return Half(self.pair.id, self.pair.shape, server, public, private)

        return evaluator

    def play(self, server: int) -> Play:
        return Play(
            self.pair, ROLES[server], self.members(), noise_secret=NOISE[server], signing_secret=SIGNING[server],
            evaluator=self.half(server),
        )  # fmt: skip


def run(leader: Play, helper: Play) -> list[Said]:
    said = []
    while (due := leader.due) is not None:
        assert helper.due == due
        request = leader.request()
        answer = helper.answer(request)
        for one in (leader, helper):
            one.advance(request, answer)
        said.append(Said(*due, request, answer))
    assert helper.due is None
    return said


def parties(people: People) -> Published:
    """What two parties publish that are driven by hand."""
    ids = people.members()[1]
    pair = [Party(people.pair.pooled, s, NOISE[s], ids, people.half(s)(1, ids)) for s in (0, 1)]
    return publish(pair)[0]


def forgery(pair: PairTask, level: int = 1) -> SharedReport:
    path = pair.place(int(np.sort(pair.pooled.hierarchy.codes(crowd(300)))[150]))[1]
    return second_node(pair.shape, path, bytes(range(32)), level=level, how="both", proof="kept", task=pair.id)


@pytest.mark.parametrize("n", [0, 1, 3, 300])
def test_two_plays_publish_what_two_parties_publish(n: int) -> None:
    people = People(pair_task(), n)
    leader, helper = people.play(0), people.play(1)
    run(leader, helper)
    assert leader.signed_tree() == helper.signed_tree()
    (found,) = leader.signed_tree().published()
    assert found.to_bytes() == parties(people).to_bytes()
    assert found.people == n


def test_a_forged_report_is_rejected_once_and_named_in_the_transcript() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair)])
    leader, helper = people.play(0), people.play(1)
    said = run(leader, helper)
    (tree,) = leader.signed_tree().trees
    assert sum(tree.rejected) == 1
    (found,) = leader.signed_tree().published()
    assert np.abs(replay(found).counts).max() < 400
    checks = [LevelCheckAnswer.from_bytes(one.answer or b"") for one in said if one.step.endswith("check")]
    assert [bool(check.chunks) for check in checks].count(True) == 1  # afterwards its tags are not compared


@pytest.mark.slow
def test_a_play_goes_on_from_what_was_said_at_any_point() -> None:
    pair = pair_task()
    people = People(pair, 100, [forgery(pair)])
    whole = people.play(0)
    said = run(whole, people.play(1))
    for end in range(len(said) + 1):
        leader, helper = people.play(0), people.play(1)
        leader.replay(said[:end])
        helper.replay(said[:end])
        assert run(leader, helper) == said[end:]
        assert leader.signed_tree() == whole.signed_tree() == helper.signed_tree()


def test_buckets_are_played_one_after_the_other() -> None:
    pair = pair_task(bucket_depth=2)
    people = People(pair, 300)
    leader, helper = people.play(0), people.play(1)
    said = run(leader, helper)
    signed = leader.signed_tree()
    assert [tree.bucket for tree in signed.trees] == sorted(people.members())
    assert [one.people for one in signed.published()] == [len(ids) for _, ids in sorted(people.members().items())]
    for end in (1, len(said) // 2, len(said) - 1):
        other, helper = people.play(0), people.play(1)
        other.replay(said[:end])
        helper.replay(said[:end])
        run(other, helper)
        assert other.signed_tree() == signed


# -- a malicious leader against a helper -------------------------------------------------------------------------------


def at(people: People, kind: str) -> tuple[Play, Play, bytes]:
    """Two plays that have come to a step of a kind, and the honest request for it."""
    leader, helper = people.play(0), people.play(1)
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
    sums = msgspec.structs.replace(LevelSums.from_bytes(request), rejected=people.members()[1][0])
    with pytest.raises(InvalidInput, match="tags agree"):
        helper.answer(sums.to_bytes())


def test_a_level_is_not_fixed_twice_with_another_set() -> None:
    pair = pair_task()
    people = People(pair, 300, [forgery(pair, level=0)])
    _, helper, request = at(people, "sums")
    helper.answer(request)
    with pytest.raises(InvalidInput, match="sharing"):
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
    leader, helper, request = at(people, "finish")
    answer = helper.answer(request)
    finish = Finish.from_bytes(request)
    changed = msgspec.structs.replace(finish, numbers=pack_numbers(numbers_of(finish.numbers) + 1))
    with pytest.raises(InvalidInput, match="data or key changed"):
        leader.advance(changed.to_bytes(), answer)
