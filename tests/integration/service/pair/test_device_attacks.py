"""Malicious devices against a running pair: every forged report is rejected, and nobody else is."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from sharing_forgeries import How, equal_seeds, second_node, worth

from semilocal.device.upload import make_upload
from semilocal.pooled import replay
from semilocal.pooled.asked import AskedValue
from semilocal.pooled.values import add_up, sum_rate
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Party
from semilocal.sharing.report import SharedReport, shard
from semilocal.sharing.wire import LevelSums, SignedTree, Upload, split_ids
from semilocal.testing import secret
from semilocal.transcript.pair import verify_pair
from tests.helpers.pairs import pooled_task, report_id, sealed_upload
from tests.helpers.running_pair import Pair

HONEST = 300
LEVELS = 4
PLACE = (0.3, 0.3)  # where nearly everybody is, so that every level of its path is opened
TASK = pooled_task(max_depth=LEVELS)
FLIPS = 300
Forgeries = dict[str, SharedReport]


def entropy(label: str) -> bytes:
    return np.random.default_rng(list(label.encode())).bytes(32)


def named(label: str) -> bytes:
    """The id of a report."""
    return hashlib.sha256(label.encode()).digest()[:16]


def path_of(pair: PairTask) -> tuple[int, ...]:
    return pair.place(int(pair.pooled.hierarchy.codes([PLACE])[0]))[1]


def honest(pair: PairTask, label: str) -> SharedReport:
    return shard(pair.id, named(label), pair.shape, path_of(pair), entropy(label))


def payloads(pair: PairTask) -> Forgeries:
    """Worth anything but one person, or another number from some level on."""
    out = {
        f"payload {payload}": worth(
            pair.shape, path_of(pair), entropy(str(payload)), [payload], task=pair.id, nonce=named(str(payload))
        )
        for payload in (0, 2, (1 << 64) - 1, 1 + (1 << 63))
    }
    for level in range(LEVELS):
        report = honest(pair, f"count {level}")
        at = 1 + level * (16 + 8 + 32) + 16
        changed = (int.from_bytes(report.public[at : at + 8], "little") + 1) % (1 << 64)
        public = report.public[:at] + changed.to_bytes(8, "little") + report.public[at + 8 :]
        out[f"count changed at level {level}"] = report._replace(public=public)
    return out


def second_nodes(pair: PairTask) -> Forgeries:
    """One person in two places, from the first, a middle or the last level on."""
    ways: list[How] = ["seed", "bit", "both"]
    return {
        f"{how} at {level}, proof {proof}": second_node(
            pair.shape, path_of(pair), entropy(f"{how} {level} {proof}"), level=level, how=how,
            proof=proof, task=pair.id, nonce=named(f"{how} {level} {proof}"),  # type: ignore[arg-type]
        )
        for how, level, proof in itertools.product(ways, (0, 2, LEVELS - 1), ("kept", "lost", "both"))
    }  # fmt: skip


def strangers(pair: PairTask) -> Forgeries:
    """Garbage, other people's keys, and equal root seeds with every choice of signs."""
    rng = np.random.default_rng(6)
    yours, random = honest(pair, "yours"), bytes([int(rng.integers(1 << LEVELS))])
    key, public, other, exchanged = (honest(pair, label) for label in ("key", "public", "other", "exchanged"))
    garbage = random + rng.bytes(pair.shape.public_bytes - 1)
    out = {
        "garbage": SharedReport(named("garbage"), garbage, (rng.bytes(16), rng.bytes(16))),
        "the helper's key of another device": key._replace(private=(key.private[0], yours.private[1])),
        "the public part of another device": public._replace(public=yours.public),
        "under another id": other._replace(nonce=named("under another id")),
        "shares exchanged": exchanged._replace(private=exchanged.private[::-1]),
    }
    for signs in itertools.product((1, -1), repeat=LEVELS):
        out[f"equal seeds {signs}"] = equal_seeds(path_of(pair), signs, nonce=named(f"equal seeds {signs}"))
    return out


def flips(pair: PairTask) -> Forgeries:
    """One bit of an honest public part is flipped."""
    rng, out = np.random.default_rng(10), {}
    places = [place for place in range(8 * pair.shape.public_bytes) if place >= 8 or place < LEVELS]
    for place in rng.choice(places, size=FLIPS, replace=False).tolist():
        report = honest(pair, f"bit {place}")
        public = bytearray(report.public)
        public[place // 8] ^= 1 << place % 8
        out[f"bit {place}"] = report._replace(public=bytes(public))
    return out


def positions() -> npt.NDArray[np.float64]:
    """Honest people: nearly everybody in one place, some elsewhere."""
    rng = np.random.default_rng(2)
    return np.where(rng.random((HONEST, 1)) < 0.9, PLACE, rng.random((HONEST, 2)))


async def put_all(servers: Pair, pair: PairTask, uploads: Iterable[Upload]) -> None:
    """Send uploads, all of which the leader takes: a share alone does not show what it is worth."""
    answers = await asyncio.gather(*(servers.put(pair, upload) for upload in uploads))
    assert {answer.status_code for answer in answers} == {201}


async def crowd(servers: Pair, pair: PairTask) -> None:
    points = positions().tolist()
    value = None if pair.asked is None else 3.0
    await put_all(
        servers, pair, (make_upload(pair, point, secret(number), value=value) for number, point in enumerate(points))
    )


def rejected_by(servers: Pair) -> set[bytes]:
    """The reports that the servers agreed to reject, on any level."""
    bodies = [body for path, body in servers.wire.sent if path.endswith("/sums")]
    return {report for body in bodies for report in split_ids(LevelSums.from_bytes(body).rejected)}


def only_noise_differs(signed: SignedTree) -> bool:
    """Whether all final counts are those of the honest people, but for noise; false alarms: at most 1e-6."""
    (published,) = signed.published()
    tree, codes = replay(published), np.sort(TASK.hierarchy.codes(positions()))
    first, last = TASK.hierarchy.span(tree.cells)
    exact = np.searchsorted(codes, last, side="right") - np.searchsorted(codes, first)
    # one server's noise leaves [-t, t] with probability at most 2 exp(-rate t)
    reach = 2 * np.log(4 * len(exact) / 1e-6) / (float(TASK.unit) * tree.units)
    return bool((np.abs(tree.counts - exact) <= reach).all())


@pytest.mark.parametrize("attack", [payloads, second_nodes, strangers, flips])
async def test_every_forged_report_is_rejected_and_nobody_else(
    servers: Pair, attack: Callable[[PairTask], Forgeries]
) -> None:
    pair = await servers.opened(TASK)
    await crowd(servers, pair)
    forged = attack(pair)
    await put_all(servers, pair, (sealed_upload(pair, report) for report in forged.values()))
    signed = await servers.finish(pair)
    names = {report.nonce: name for name, report in forged.items()}
    missed = [name for report, name in names.items() if report not in rejected_by(servers)]
    assert missed == []
    assert rejected_by(servers) == set(names)
    assert verify_pair(signed.to_bytes()).sound
    assert sum(signed.trees[0].rejected) == len(forged)
    assert f"{len(forged)} people rejected" in verify_pair(signed.to_bytes()).lines()[0]
    assert len(signed.published()[0].opened) == LEVELS, "every level was checked"
    assert only_noise_differs(signed)


STARS = AskedValue(name="stars", low=0, high=7, bits=3, mean="cells")  # a value is its own place on the grid


def value_forgery(
    pair: PairTask, label: str, payload: list[int], value: int, *, leaf: int = 1, flipped: int | None = None
) -> SharedReport:
    """A well-formed place tree with any payload, and a value tree for any value worth anything."""
    report = worth(
        pair.shape, path_of(pair), np.random.default_rng(list(label.encode())).bytes(2 * pair.shape.private_bytes),
        payload, task=pair.id, nonce=named(label), bits=[value >> shift & 1 for shift in reversed(range(STARS.bits))],
        leaf=leaf,
    )  # fmt: skip
    if flipped is None:
        return report
    public = bytearray(report.public)
    public[flipped // 8 - (1 + 3 * 56)] ^= 1 << flipped % 8  # the value tree is the end
    return report._replace(public=bytes(public))


def values(pair: PairTask) -> Forgeries:
    """A value out of range, doubled, negative, other than the value tree's, worth two leaves, other per server."""
    word = 1 << 64
    out = {
        "out of range": value_forgery(pair, "out", [1, 8], 0),
        "far out of range": value_forgery(pair, "far", [1, 1 << 40], 7),
        "negative": value_forgery(pair, "negative", [1, word - 3], 3),
        "doubled": value_forgery(pair, "doubled", [1, 10], 5),
        "another value than the tree's": value_forgery(pair, "another", [1, 4], 5),
        "leaf worth 2": value_forgery(pair, "leaf", [1, 10], 5, leaf=2),
        "leaf worth 0": value_forgery(pair, "nothing", [1, 0], 5, leaf=0),
        "leaf worth -1": value_forgery(pair, "minus", [1, word - 5], 5, leaf=word - 1),
        "two people with one value": value_forgery(pair, "two", [2, 5], 5),
        "nobody with a value": value_forgery(pair, "nobody", [0, 5], 5),
    }
    for level in range(LEVELS):
        report = value_forgery(pair, f"level {level}", [1, 5], 5)
        at = 1 + level * (16 + 16 + 32) + 16 + 8
        changed = (int.from_bytes(report.public[at : at + 8], "little") + 1) % word
        public = report.public[:at] + changed.to_bytes(8, "little") + report.public[at + 8 :]
        out[f"value changed at level {level}"] = report._replace(public=public)
    one, two = value_forgery(pair, "one", [1, 2], 2), value_forgery(pair, "second", [1, 2], 2)
    other = value_forgery(pair, "other", [1, 7], 7).private[1]
    out["another value for the helper"] = one._replace(private=(one.private[0], other))
    out["another value seed for the helper"] = two._replace(private=(two.private[0], two.private[1][:16] + other[16:]))
    rng = np.random.default_rng(12)
    places = [place for place in range(8 * (1 + 3 * 56)) if place >= 8 or place < STARS.bits]
    for place in rng.choice(places, size=60, replace=False).tolist():
        out[f"bit {place} of the value tree"] = value_forgery(pair, f"flipped {place}", [1, 5], 5, flipped=place)
    return out


async def test_every_forged_value_is_rejected_and_nobody_else(servers: Pair) -> None:
    pair = await servers.opened(TASK, value=msgspec.to_builtins(STARS))
    await crowd(servers, pair)
    forged = values(pair)
    good = value_forgery(pair, "good", [1, 5], 5)
    reports = [*forged.values(), good]
    await put_all(servers, pair, (sealed_upload(pair, report) for report in reports))
    signed = await servers.finish(pair)
    names = {report.nonce: name for name, report in forged.items()}
    assert [name for report, name in names.items() if report not in rejected_by(servers)] == []
    assert rejected_by(servers) == set(names)
    assert sum(signed.trees[0].rejected) == len(forged)
    assert f"{len(forged)} people rejected" in verify_pair(signed.to_bytes()).lines()[0]
    assert off(signed, pair) <= 1


def off(signed: SignedTree, pair: PairTask) -> float:
    """How far sums are from the truth, as a multiple of what noise reaches once in 10^6 runs."""
    (published,) = signed.published()
    tree = replay(published)
    assert published.sums is not None
    assert pair.asked is not None
    grid = pair.asked.grid(TASK.hierarchy.boxes(tree.cells))
    points = np.concatenate([positions(), [PLACE]])
    exact = add_up(np.array([3] * HONEST + [5]), tree.find(points), grid)
    rate = float(sum_rate(Fraction(TASK.epsilon), 7, 1))
    reach = 2 * np.log(4 * len(exact) / 1e-6) / rate
    return float(np.abs(published.sums - exact).max() / reach)


async def test_servers_that_do_not_check_value_trees_would_take_a_leaf_worth_two(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault that the test above must catch."""
    whole = Party.verify_init

    def without_values(party: Party) -> npt.NDArray[np.uint8]:
        tags = whole(party).copy()
        if tags.shape[1] == 32 + 80:
            tags[:, :32] = 0
        return tags

    monkeypatch.setattr(Party, "verify_init", without_values)
    pair = await servers.opened(TASK, value=msgspec.to_builtins(STARS))
    await crowd(servers, pair)
    forged = value_forgery(pair, "leaf", [1, 7 * 100], 7, leaf=100)
    await put_all(servers, pair, [sealed_upload(pair, forged)])
    signed = await servers.finish(pair)
    assert rejected_by(servers) == set()
    assert off(signed, pair) > 1


async def test_a_value_with_bits_after_its_last_level_is_refused_at_the_door(servers: Pair) -> None:
    pair = await servers.opened(TASK, value=msgspec.to_builtins(STARS))
    report = value_forgery(pair, "unused", [1, 5], 5, flipped=STARS.bits)
    answer = await servers.put(pair, sealed_upload(pair, report))
    assert (answer.status_code, answer.json()["token"]) == (422, "bad-upload")


async def test_servers_that_compare_sums_alone_would_count_a_person_in_two_places(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault that the test above must catch."""
    whole = Party.verify_init

    def sums_alone(party: Party) -> npt.NDArray[np.uint8]:
        tags = whole(party).copy()
        tags[:, :64] = 0
        return tags

    monkeypatch.setattr(Party, "verify_init", sums_alone)
    pair = await servers.opened(TASK)
    await crowd(servers, pair)
    forged = second_nodes(pair)
    await put_all(servers, pair, (sealed_upload(pair, report) for report in forged.values()))
    assert (await servers.start(pair)).status_code == 200
    await servers.tick(2)
    assert len(rejected_by(servers)) < len(forged)
    assert (await servers.state(pair))["phase"] != "done", "second nodes are worth about 2^63: no rule takes that"


async def test_an_envelope_opens_for_its_server_report_and_public_part_only(servers: Pair) -> None:
    pair = await servers.opened(TASK)
    await crowd(servers, pair)
    mine, yours = (make_upload(pair, PLACE, secret(number, seed=9)) for number in (1, 2))
    for changes in (
        {"leader_envelope": mine.helper_envelope, "helper_envelope": mine.leader_envelope}, {"public": yours.public},
        {"leader_envelope": yours.leader_envelope}, {"id": report_id(1)},
    ):  # fmt: skip
        answer = await servers.put(pair, msgspec.structs.replace(mine, **changes))
        assert (answer.status_code, answer.json()["token"]) == (422, "bad-upload"), changes
    # the leader cannot open the helper's envelope: the helper refuses it when it is forwarded
    stolen = msgspec.structs.replace(mine, helper_envelope=yours.helper_envelope)
    assert (await servers.put(pair, stolen)).status_code == 201
    await servers.tick()
    again = await servers.put(pair, stolen)  # the leader knows now
    assert (again.status_code, again.json()["token"]) == (422, "bad-upload")
    signed = await servers.finish(pair)
    assert replay(signed.published()[0]).people == HONEST
    assert (await servers.state(pair))["refused"] == 1
