"""A leader whose half of the reports lies in a database, against a helper in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from semilocal.service.pair.keys import PairSecrets
from semilocal.service.pair.live import ChunkEvaluator, Wait
from semilocal.service.pair.play import Play
from semilocal.service.stores.base import Store
from semilocal.sharing.evaluate import Half
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Evaluator
from semilocal.sharing.wire import SignedTree
from tests.helpers.chunks import Report
from tests.helpers.pairs import ROLES, SIGNING

__all__ = ["in_database", "in_memory", "signed"]

NOISE = (b"0" * 32, b"1" * 32)
Halves = Callable[[int, Sequence[bytes]], Evaluator]


def in_memory(pair: PairTask, reports: Sequence[Report], server: int) -> Halves:
    """A server that evaluates in this process."""
    known = {one.id: one for one in reports}

    def half(bucket: int, ids: Sequence[bytes]) -> Half:
        some = [known[report] for report in ids]
        return Half(pair.id, pair.shape, server, [one.public for one in some], [one.private for one in some])

    return half


def in_database(store: Store, pair: PairTask, secrets: PairSecrets, wait: Wait, *, chunk: int) -> Halves:
    """A server that leaves the evaluation to workers on its database."""

    def half(bucket: int, ids: Sequence[bytes]) -> ChunkEvaluator:
        return ChunkEvaluator(store.pairs, wait, pair, secrets, bucket, ids, chunk=chunk)

    return half


def signed(
    pair: PairTask, reports: Sequence[Report], leader: Halves, helper: Halves,
    between: Callable[[], None] = lambda: None,
) -> SignedTree:  # fmt: skip
    """The transcript of both; ``between`` is called after every step."""
    members: dict[int, list[bytes]] = {}
    for one in sorted(reports):
        members.setdefault(one.bucket, []).append(one.id)
    plays = [
        Play(
            pair, role, members, noise_secret=NOISE[server], signing_secret=SIGNING[server],
            evaluator=(leader, helper)[server],
        )
        for server, role in enumerate(ROLES)
    ]  # fmt: skip
    while plays[0].due is not None:
        request = plays[0].request()
        answer = plays[1].answer(request)
        for play in plays:
            play.advance(request, answer)
        between()
    assert plays[0].signed_tree() == plays[1].signed_tree()
    return plays[0].signed_tree()
