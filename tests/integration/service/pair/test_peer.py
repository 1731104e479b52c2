"""A peer that lies, is away, or is another one: each a clear refusal, nothing lost, nothing told twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal.errors import PeerAway
from semilocal.service import worker
from semilocal.service.pair import peer
from semilocal.service.pair.peer import ANSWER_HEADER, VERSION, authorization
from semilocal.service.pair.play import build_machine
from semilocal.service.stores.base import Store
from semilocal.sharing.machine import Leader
from semilocal.sharing.pair import PairTask
from semilocal.sharing.sealing import verifying_key
from semilocal.sharing.wire import (
    Closing,
    Finish,
    Forward,
    ForwardAnswer,
    LevelCheck,
    LevelSums,
    LevelSumsAnswer,
    Proposal,
    ProposalAnswer,
    Sealed,
    Signature,
    numbers_of,
    pack_numbers,
)
from semilocal.testing import MockClock
from tests.helpers import HANG
from tests.helpers.hostile import Hostile, forever
from tests.helpers.pairs import SIGNING, crowd, operator, pair_task, upload_of
from tests.helpers.running_pair import ADMIN, Pair, resigned, run_pair, token_of

Stores = tuple[Store, Store]
NOW = 1_700_000_000.0


async def step(
    servers: Pair, pair: PairTask, name: str, body: bytes, *, secret: bytes = SIGNING[0], now: float = NOW
) -> httpx2.Response:
    """A step signed like a leader's."""
    path = f"/tasks/{pair.id.hex()}/peer/{name}"
    header, _ = authorization(secret, "POST", path, body, now=now)
    return await servers.helper.post(path, content=body, headers={"authorization": header})


async def said(servers: Pair, pair: PairTask) -> dict[str, bytes]:
    """The bodies that the leader has sent, by step."""
    prefix = f"/tasks/{pair.id.hex()}/peer/"
    return {path.removeprefix(prefix): body for path, body in servers.wire.sent if path.startswith(prefix)}


async def halted_before(servers: Pair, pair: PairTask, name: str) -> bytes:
    """Let an honest leader come to a step whose request does not arrive; the request."""

    def cut(request: httpx2.Request) -> bool:
        return request.url.path.endswith(f"/peer/{name}")

    servers.wire.block = cut
    assert (await servers.start(pair)).status_code == 200
    await servers.tick()
    servers.wire.block = None
    return (await said(servers, pair))[name]


# -- who asks ----------------------------------------------------------------------------------------------------------


async def test_only_the_leader_of_the_pair_gets_an_answer(servers: Pair) -> None:
    pair = await servers.opened()
    good = Proposal("test", pair.to_bytes()).to_bytes()
    path = f"/tasks/{pair.id.hex()}/peer/propose"
    assert (await step(servers, pair, "propose", good)).status_code == 200
    assert token_of(await step(servers, pair, "propose", good, secret=SIGNING[1])) == "bad-signature"
    assert token_of(await step(servers, pair, "propose", good, secret=bytes(32))) == "bad-signature"
    assert token_of(await servers.helper.post(path, content=good)) == "bad-signature"
    header, _ = authorization(SIGNING[0], "POST", path, good, now=NOW)
    for other in (path.replace("propose", "forward"), path.replace("propose", "close")):
        answer = await servers.helper.post(other, content=good, headers={"authorization": header})
        assert token_of(answer) == "bad-signature"
    answer = await servers.helper.post(path, content=good + b"x", headers={"authorization": header})
    assert token_of(answer) == "bad-signature"
    answer = await servers.helper.post(path, content=good, headers={"authorization": header + "0"})
    assert token_of(answer) == "bad-signature"


@pytest.mark.parametrize("host", ["[", "x/y?", "x y", "\x7f", "", "x:99999999"])
async def test_a_signature_is_for_the_path_that_was_asked_whatever_the_host_header_says(
    servers: Pair, host: str
) -> None:
    """A host that ends in ``?`` would hide the path behind it, and lend a signed request to any other step or pair."""

    pair = await servers.opened()
    data = Proposal("test", pair.to_bytes()).to_bytes()
    path = f"/tasks/{pair.id.hex()}/peer/propose"
    header, _ = authorization(SIGNING[0], "POST", path, data, now=NOW)
    headers = {"authorization": header, "host": host}
    assert (await servers.helper.post(path, content=data, headers=headers)).status_code == 200
    headers["host"] = f"x{path}?"
    found = [
        token_of(await servers.helper.post(other, content=data, headers=headers))
        for other in (path.replace("propose", "close"), path.replace(pair.id.hex()[:4], "0000"))
    ]
    assert found == ["bad-signature", "unknown-leader"]


@pytest.mark.parametrize(("off", "token"), [(299, None), (-299, None), (302, "wrong-clock"), (-302, "wrong-clock")])
async def test_clocks_may_differ_by_five_minutes(servers: Pair, off: float, token: str | None) -> None:
    pair = await servers.opened()
    answer = await step(servers, pair, "propose", Proposal("t", pair.to_bytes()).to_bytes(), now=NOW + off)
    assert (None if answer.status_code == 200 else token_of(answer)) == token


def test_a_leader_with_another_clock_is_told_so_and_goes_on_when_it_is_right(stores: Stores) -> None:
    clock, other = MockClock(NOW), MockClock(NOW)

    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(20))
        other.advance(1000)
        await servers.start(pair)
        await servers.tick()
        assert "clock" in (await servers.state(pair))["waits_for"]
        other.advance(-1000)
        await servers.tick(2)
        assert (await servers.state(pair))["phase"] == "done"

    run_pair(stores, body, clock=clock, helper_clock=other)


async def test_another_version_is_refused_in_words(servers: Pair) -> None:
    pair = await servers.opened()
    path, data = f"/tasks/{pair.id.hex()}/peer/propose", Proposal("t", pair.to_bytes()).to_bytes()
    header, _ = authorization(SIGNING[0], "POST", path, data, now=NOW)
    changed = header.replace(f"Semilocal-Peer {VERSION}:", f"Semilocal-Peer {VERSION + 1}:")
    answer = await servers.helper.post(path, content=data, headers={"authorization": changed})
    assert token_of(answer) == "other-version"
    assert f"version {VERSION + 1}" in answer.json()["detail"]


# -- proposals ---------------------------------------------------------------------------------------------------------


async def test_a_proposal_must_name_this_helper(servers: Pair) -> None:
    await servers.create()
    real = await servers.helper.get("/operator")
    own = operator(1, sealing_key=bytes.fromhex(real.json()["sealing_key"]))
    for helper in (
        operator(1),  # another sealing key
        msgspec.structs.replace(own, name="Somebody else"),
        msgspec.structs.replace(own, origin="https://elsewhere.example"),
    ):
        pair = PairTask(pair_task().pooled, operator(0), helper)
        answer = await step(servers, pair, "propose", Proposal("t", pair.to_bytes()).to_bytes())
        assert token_of(answer) == "malformed"
        assert "create the pair again" in answer.json()["detail"]
    good = PairTask(pair_task(label="other").pooled, operator(0), own)
    answer = await step(servers, good, "propose", Proposal("t", good.to_bytes()).to_bytes())
    assert not ProposalAnswer.from_bytes(answer.content).confirmed
    wrong = PairTask(pair_task(label="third").pooled, operator(0), own)
    path = f"/tasks/{good.id.hex()}/peer/propose"
    data = Proposal("t", wrong.to_bytes()).to_bytes()
    header, _ = authorization(SIGNING[0], "POST", path, data, now=NOW)
    answer = await servers.helper.post(path, content=data, headers={"authorization": header})
    assert token_of(answer) == "other-task"


async def test_a_stranger_proposes_nothing_and_keeps_nobody_out(servers: Pair, stores: Stores) -> None:
    """Proposals signed with other keys, in one's own name or in the leader's: 403, not stored, and not public."""

    key = (await servers.helper.get("/operator")).json()["sealing_key"]
    own = operator(1, sealing_key=bytes.fromhex(key))
    stranger = bytes(32)
    for number in range(33):
        leader = operator(0, **({"signing_key": verifying_key(stranger)} if number % 2 else {}))
        pair = PairTask(pair_task(label=f"{number}").pooled, leader, own)
        proposal = Proposal("City of Ay", pair.to_bytes()).to_bytes()
        answer = await step(servers, pair, "propose", proposal, secret=stranger)
        assert (answer.status_code, token_of(answer)) == (403, "unknown-leader")
    named = PairTask(pair_task(label="named").pooled, operator(0, signing_key=verifying_key(stranger)), own)
    answer = await step(servers, named, "propose", Proposal("t", named.to_bytes()).to_bytes())  # by the leader
    assert token_of(answer) == "unknown-leader"
    assert stores[1].pairs.rows() == []
    pair = await servers.create()
    for client in servers.clients.values():
        assert (await client.get("/tasks")).json() == []
        assert [row["task"] for row in (await client.get("/tasks", headers=ADMIN)).json()] == [pair.id.hex()]
        await client.post(f"/tasks/{pair.id.hex()}/confirm", headers=ADMIN)
        assert [row["task"] for row in (await client.get("/tasks")).json()] == [pair.id.hex()]


async def test_proposals_that_nobody_confirms_are_bounded(servers: Pair) -> None:
    key = (await servers.helper.get("/operator")).json()["sealing_key"]
    own = operator(1, sealing_key=bytes.fromhex(key))
    tokens = []
    for number in range(34):
        pair = PairTask(pair_task(label=f"{number}").pooled, operator(0), own)
        answer = await step(servers, pair, "propose", Proposal("t", pair.to_bytes()).to_bytes())
        tokens.append("" if answer.status_code == 200 else token_of(answer))
    assert tokens == [""] * 32 + ["overloaded"] * 2


async def test_nothing_is_taken_before_the_operator_confirmed(servers: Pair) -> None:
    pair = await servers.create()
    upload = upload_of(pair, int(pair.pooled.hierarchy.codes(crowd(1))[0]), 0)
    forward = Forward((Sealed(upload.id, upload.public, upload.helper_envelope),))
    assert token_of(await step(servers, pair, "forward", forward.to_bytes())) == "not-confirmed"
    assert token_of(await step(servers, pair, "close", Closing(b"").to_bytes())) == "out-of-order"


# -- a malicious leader ------------------------------------------------------------------------------------------------


async def test_a_level_is_answered_for_one_request_and_one_accepted_set_only(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(300))
    request = await halted_before(servers, pair, "levels/0/sums")
    earlier = await said(servers, pair)
    check = LevelCheck.from_bytes(earlier["levels/0/check"])
    lied = msgspec.structs.replace(check, digests=bytes(len(check.digests)))
    assert token_of(await step(servers, pair, "levels/0/check", lied.to_bytes())) == "other-request"
    ids, sums = Closing.from_bytes(earlier["close"]).ids, LevelSums.from_bytes(request)
    dropped = msgspec.structs.replace(sums, rejected=ids[:16])
    assert token_of(await step(servers, pair, "levels/0/sums", dropped.to_bytes())) == "malformed"
    assert token_of(await step(servers, pair, "close", Closing(ids[16:]).to_bytes())) == "other-request"
    honest = await step(servers, pair, "levels/0/sums", request)
    assert honest.status_code == 200
    other = msgspec.structs.replace(sums, numbers=pack_numbers(numbers_of(sums.numbers) + 1))
    assert token_of(await step(servers, pair, "levels/0/sums", other.to_bytes())) == "other-request"
    assert (await step(servers, pair, "levels/0/sums", request)).content == honest.content
    await servers.tick(2)
    assert (await servers.state(pair))["phase"] == "done"  # the honest leader goes on as if nothing had been


async def test_a_leader_that_lies_about_digests_gets_tags_but_no_second_answer(servers: Pair, stores: Stores) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(300))
    request = await halted_before(servers, pair, "levels/0/check")
    check = LevelCheck.from_bytes(request)
    lied = msgspec.structs.replace(check, digests=bytes(len(check.digests))).to_bytes()
    answer = await step(servers, pair, "levels/0/check", lied)
    assert token_of(await step(servers, pair, "levels/0/check", request)) == "other-request"
    leading = servers.pairs[0]
    leader = build_machine(leading._live[pair.id], stores[0].pairs, leading._pool, SIGNING[0])
    assert isinstance(leader, Leader)
    leader.advance(lied, answer.content)
    assert leader._failed is not None
    leader._failed[:100] = True
    assert (await step(servers, pair, "levels/0/sums", leader.request())).status_code == 200
    keeping = LevelSums(1, 0, b"", bytes(8))
    assert token_of(await step(servers, pair, "levels/0/sums", keeping.to_bytes())) == "other-request"


async def test_numbers_that_cannot_be_do_not_get_a_leader_new_noise_for_another_set(servers: Pair) -> None:
    """Whether the numbers are refused depends on the helper's noise: a second set would have a second draw of it."""

    pair = await servers.opened()
    await servers.fill(pair, crowd(300))
    check = LevelCheck.from_bytes(await halted_before(servers, pair, "levels/0/check"))
    lied = msgspec.structs.replace(check, digests=bytes(len(check.digests))).to_bytes()
    assert (await step(servers, pair, "levels/0/check", lied)).status_code == 200  # now it may drop anybody
    ids = Closing.from_bytes((await said(servers, pair))["close"]).ids
    false = pack_numbers(np.array([2**60]))
    tokens, details = [], []
    for rejected in (b"", ids[:16], ids[16:32]):
        answer = await step(servers, pair, "levels/0/sums", LevelSums(1, 0, rejected, false).to_bytes())
        tokens.append(token_of(answer))
        details.append(answer.json()["detail"])
    assert tokens == ["malformed", "other-request", "other-request"]
    assert "City of Ay (leader) sends numbers that cannot be" in details[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("levels/0/sums", LevelSums(1, 0, b"", bytes(8))),  # early: the level is not checked
        ("levels/1/check", LevelCheck(1, 1, bytes(32))),  # a level ahead
        ("levels/1/sums", LevelSums(1, 1, b"", bytes(16))),
        ("finish", Finish(1, bytes(8))),
        ("sign", Signature(bytes(64))),
    ],
)
async def test_steps_out_of_order_are_refused_and_tell_nothing(servers: Pair, name: str, message: Any) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(60))
    assert token_of(await step(servers, pair, name, message.to_bytes())) == "out-of-order"  # before closing
    request = await halted_before(servers, pair, "levels/0/check")
    assert token_of(await step(servers, pair, name, message.to_bytes())) == "out-of-order"
    assert (await step(servers, pair, "levels/0/check", request)).status_code == 200
    if name != "levels/0/sums":
        assert token_of(await step(servers, pair, name, message.to_bytes())) == "out-of-order"
    await servers.tick(2)
    assert (await servers.state(pair))["phase"] == "done"


async def test_after_the_end_no_step_is_answered_but_the_last(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(60))
    await servers.finish(pair)
    for name, data in (await said(servers, pair)).items():
        if name in ("propose", "forward"):
            continue
        answer = await step(servers, pair, name, data)
        assert answer.status_code == 200 if name == "sign" else token_of(answer) == "out-of-order", name


async def test_a_closing_may_not_name_reports_that_the_helper_does_not_have(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(5))
    await servers.tick()
    answer = await step(servers, pair, "close", Closing(bytes(16)).to_bytes())
    assert token_of(answer) == "malformed"
    assert "does not have it" in answer.json()["detail"]
    await servers.finish(pair)


async def test_forwarded_envelopes_are_bound_to_their_report_and_kept_as_they_came(servers: Pair) -> None:
    pair = await servers.opened()
    first, second = (
        upload_of(pair, code, number) for number, code in enumerate(pair.pooled.hierarchy.codes(crowd(2)).tolist())
    )

    async def outcomes(*reports: Sealed) -> tuple[str, ...]:
        batch = tuple(sorted(reports, key=lambda report: report.id))
        answer = await step(servers, pair, "forward", Forward(batch).to_bytes())
        return ForwardAnswer.from_bytes(answer.content).outcomes

    good = Sealed(first.id, first.public, first.helper_envelope)
    assert await outcomes(good) == ("stored",)
    assert await outcomes(good) == ("stored",)
    again = upload_of(pair, int(pair.pooled.hierarchy.codes(crowd(1))[0]), 0)
    assert await outcomes(Sealed(again.id, again.public, again.helper_envelope)) == ("replayed",)
    for bad in (
        Sealed(second.id, first.public, first.helper_envelope),  # replayed under another id
        Sealed(second.id, second.public, first.helper_envelope),  # swapped
        Sealed(second.id, second.public, second.leader_envelope),  # for the other server
        Sealed(second.id, first.public, second.helper_envelope),  # with another public part
        Sealed(second.id, second.public, second.helper_envelope, 2),  # a bucket that is none
        Sealed(second.id, second.public[:-1], second.helper_envelope),
    ):
        assert await outcomes(bad) == ("undecryptable",)
    assert (await servers.state(pair, 1))["received"] == 1


async def test_a_bucket_or_token_that_somebody_changed_on_the_way_is_noticed(servers: Pair) -> None:
    """The bucket by both servers, the token by the leader, which alone learns it."""

    pair = await servers.opened(bucket_depth=2)
    upload = upload_of(pair, int(pair.pooled.hierarchy.codes(crowd(1))[0]), 0, token="a token")
    other = upload.bucket ^ 1
    for changes in ({"bucket": other}, {"token": "another"}, {"token": None}):
        answer = await servers.put(pair, msgspec.structs.replace(upload, **changes))
        assert token_of(answer) == "bad-upload", changes
    outcomes: list[str] = []
    for bucket in (other, upload.bucket):
        sealed = Sealed(upload.id, upload.public, upload.helper_envelope, bucket)
        answer = await step(servers, pair, "forward", Forward((sealed,)).to_bytes())
        outcomes += ForwardAnswer.from_bytes(answer.content).outcomes
    assert outcomes == ["undecryptable", "stored"]
    old = b"\x97\xa6upload" + upload.to_bytes()[10:]
    answer = await servers.leader.put(f"/tasks/{pair.id.hex()}/uploads/{upload.id.hex()}", content=old)
    assert token_of(answer) == "not-canonical"
    assert "not a message of kind Upload" in answer.json()["detail"]
    assert (await servers.put(pair, upload)).status_code == 201


async def test_no_report_is_taken_after_closing(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(30))
    await halted_before(servers, pair, "levels/0/check")
    late = upload_of(pair, int(pair.pooled.hierarchy.codes(crowd(31))[30]), 30)
    forward = Forward((Sealed(late.id, late.public, late.helper_envelope),))
    answer = await step(servers, pair, "forward", forward.to_bytes())
    assert ForwardAnswer.from_bytes(answer.content).outcomes == ("closed",)


# -- a malicious helper, and one that is away --------------------------------------------------------------------------


def plain(answer: httpx2.Response, request: httpx2.Request, content: bytes) -> httpx2.Response:
    """Another answer with the signature of the first."""
    headers = {"content-type": "application/msgpack", ANSWER_HEADER: answer.headers[ANSWER_HEADER]}
    return httpx2.Response(200, content=content, headers=headers, request=request)


async def test_an_answer_that_somebody_changed_on_the_way_is_not_taken(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(60))
    servers.wire.bend = lambda request, answer: (
        answer if answer.status_code != 200 else plain(answer, request, answer.content[:-1] + b"\x07")
    )
    await servers.start(pair)
    await servers.tick()
    state = await servers.state(pair)
    assert "not signed with the helper's key" in state["waits_for"]
    assert state["fault"]  # waiting alone does not heal it
    servers.wire.bend = None
    await servers.tick(2)
    assert (await servers.state(pair))["accepted"] == 60


Change = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("forward", lambda data: ForwardAnswer(("stored",)).to_bytes()),
        ("close", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        ("levels/0/check", lambda data: b"\x93\xb2level-check-answer\x91\x07\xc4\x00"),
        ("levels/1/sums", lambda data: b"\x92\xb1level-sums-answer\xc4\x00"),
        ("finish", lambda data: b"\x92\xadfinish-answer\xc4\x00"),
        ("sign", lambda data: Signature(bytes(64)).to_bytes()),
        ("sign", lambda data: b"garbage"),
    ],
)
async def test_a_helpers_answer_that_cannot_be_is_not_kept(servers: Pair, name: str, change: Change) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(200))

    def bend(request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        if not request.url.path.endswith(f"/peer/{name}") or answer.status_code != 200:
            return answer
        return resigned(answer, request, change(answer.content))

    servers.wire.bend = bend
    await servers.start(pair)
    await servers.tick(2)
    state = await servers.state(pair)
    assert state["phase"] != "done"
    assert state["fault"] is not None
    servers.wire.bend = None
    await servers.tick(2)
    state = await servers.state(pair)
    assert (state["phase"], state["accepted"], state["fault"]) == ("done", 200, None)


async def test_a_helper_with_a_false_number_stops_its_own_pair_and_no_other(servers: Pair) -> None:
    pairs = [await servers.opened(), await servers.opened(label="other")]
    for pair in pairs:
        await servers.fill(pair, crowd(60))

    def bend(request: httpx2.Request, answer: httpx2.Response) -> httpx2.Response:
        if request.url.path != f"/tasks/{pairs[0].id.hex()}/peer/levels/0/sums":
            return answer
        numbers = numbers_of(LevelSumsAnswer.from_bytes(answer.content).numbers)
        return resigned(answer, request, LevelSumsAnswer(pack_numbers(numbers + 2**60)).to_bytes())

    servers.wire.bend = bend
    for pair in pairs:
        await servers.start(pair)
    await servers.tick(2)
    assert [(await servers.state(pair))["phase"] for pair in pairs] == ["levels", "done"]
    progress = (await servers.leader.get(f"/tasks/{pairs[0].id.hex()}/progress", headers=ADMIN)).json()
    assert "levels/0/sums of bucket 1: Bee University (helper) sends numbers that cannot be" in progress["fault"]


def test_a_leader_waits_for_a_helper_that_is_away_and_says_so(
    stores: Stores, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(60))
        servers.wire.on = False
        await servers.start(pair)
        for _ in range(5):
            await servers.tick()
            state = await servers.state(pair)
            assert state["phase"] == "closing"
            assert state["waits_for"].startswith("the helper: the helper at ")  # a sentence behind "waits for"
            assert "does not answer" in state["waits_for"]
            assert state["fault"] is None
        lines = [one.getMessage() for one in caplog.records if "does not answer" in one.getMessage()]
        assert len(lines) == 1  # a minute
        assert (await servers.leader.get("/healthz")).json()["status"] == "ok"  # it has not been away for long
        monkeypatch.setattr(worker, "SILENT_SECONDS", 0.0)
        health = await servers.leader.get("/healthz")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        assert health.json()["peer"].startswith("silent for ")
        assert 0 < await silence(servers) < HANG
        servers.wire.on = True
        signed = await servers.finish(pair)
        assert signed.published()[0].people == 60
        assert await silence(servers) == 0

    async def silence(servers: Pair) -> float:
        page = (await servers.leader.get("/metrics", headers=ADMIN)).text
        return float(page.split("\nsemilocal_peer_silent_seconds ")[1].split()[0])

    run_pair(stores, body)


async def test_a_long_or_hostile_answer_is_cut_off_and_shown_without_control_characters(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "MAX_BODY", 100_000)
    pair = await servers.opened()
    await servers.fill(pair, crowd(3))
    await servers.start(pair)
    servers.wire.bend = lambda request, answer: httpx2.Response(200, content=bytes(200_000), request=request)
    await servers.tick()
    assert "more than 100,000 bytes" in (await servers.state(pair))["waits_for"]
    hostile = {"detail": "\x1b[31mred\u202e" + "x" * 5000, "token": "t"}
    servers.wire.bend = lambda request, answer: httpx2.Response(403, json=hostile, request=request)
    await servers.tick()
    shown = (await servers.state(pair))["waits_for"]
    assert shown.isprintable()
    assert "red" in shown
    assert len(shown) < 1000
    servers.wire.bend = lambda request, answer: httpx2.Response(
        307, headers={"location": "http://elsewhere.example/"}, request=request
    )
    await servers.tick()
    assert "status 307" in (await servers.state(pair))["waits_for"]
    servers.wire.bend = None
    await servers.tick(2)
    assert (await servers.state(pair))["phase"] == "done"


def test_an_answer_that_drips_in_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "LONGEST_ANSWER", 0.3)

    async def ask(url: str) -> None:
        other = peer.Peer(url)
        try:
            await asyncio.wait_for(other.operator(), HANG)
        finally:
            await other.close()

    def drops() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        yield from forever(b" ")

    with Hostile({"/operator": drops}, pause=0.02) as slow, pytest.raises(PeerAway, match="does not answer"):
        asyncio.run(ask(slow.url))


@pytest.mark.parametrize("status", [200, 503])
async def test_json_that_is_nested_without_end_is_no_answer(servers: Pair, status: int) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(3))
    await servers.start(pair)
    servers.wire.bend = lambda request, answer: httpx2.Response(status, content=b"[" * 50_000, request=request)
    await servers.tick()
    state = await servers.state(pair)
    assert state["fault"] is None, "the helper is away; nothing is wrong with the pair"
    assert ("not signed" if status == 200 else "is this a semilocal server?") in state["waits_for"]
    assert token_of(await servers.ask(label="other", peer_key="0" * 64)) == "peer-away"
    servers.wire.bend = None
    await servers.tick(2)
    assert (await servers.state(pair))["phase"] == "done"


async def test_a_server_that_is_no_helper_is_refused_as_one(servers: Pair) -> None:
    servers.wire.bend = lambda request, answer: httpx2.Response(
        200, json={"name": "x", "origin": "https://x.example", "role": "leader"}, request=request
    )
    answer = await servers.ask()
    assert token_of(answer) == "peer-away"
    assert "must be a helper" in answer.json()["detail"]
    servers.wire.bend = lambda request, answer: httpx2.Response(200, text="<html>", request=request)
    assert token_of(await servers.ask()) == "peer-away"
    servers.wire.bend = None
    assert (await servers.leader.get("/tasks", headers=ADMIN)).json() == []
