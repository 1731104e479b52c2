"""Two services over HTTP, in process: from the proposal to the signed transcript, and what is refused on the way."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from semilocal.pooled import replay
from semilocal.service.pair.play import PairSecrets
from semilocal.service.stores.base import Store
from semilocal.sharing.pair import COLLUSION, PairTask
from semilocal.sharing.wire import Receipt, Upload
from semilocal.testing import MockClock
from tests.helpers.pairs import SIGNING, crowd, operator, report_id, sealed_upload, shared_report, upload_of
from tests.helpers.running_pair import ADMIN, SEEDS, Pair, on_both, run_pair, token_of

Stores = tuple[Store, Store]


def some_upload(pair: PairTask, number: int = 0, token: str | None = None) -> Upload:
    code = int(pair.pooled.hierarchy.codes(crowd(number + 1))[number])
    return upload_of(pair, code, number, token=token)


async def test_a_pair_counts_a_crowd_and_both_sign(servers: Pair) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(300))
    signed = await servers.finish(pair)
    assert signed.is_signed_by("leader")
    assert signed.is_signed_by("helper")
    (published,) = signed.published()
    tree = replay(published)
    assert tree.people == 300
    assert len(tree.cells) > 5
    assert not published.simulated
    for server in (0, 1):
        state = await servers.state(pair, server)
        assert (state["phase"], state["accepted"], state["refused"]) == ("done", 300, 0)
        assert state["experimental"] is True
        assert state["waits_for"] is None


async def test_buckets_are_counted_one_by_one(servers: Pair) -> None:
    pair = await servers.opened(bucket_depth=2)
    points = crowd(300)
    await servers.fill(pair, points)
    signed = await servers.finish(pair)
    codes = pair.pooled.hierarchy.codes(points)
    buckets, counts = np.unique(codes >> np.uint64(pair.shape.levels), return_counts=True)
    assert [tree.bucket for tree in signed.trees] == buckets.tolist()
    assert [published.people for published in signed.published()] == counts.tolist()
    statement = (await servers.leader.get(f"/tasks/{pair.id.hex()}/statement")).text
    assert "nothing is promised between buckets" in statement


async def test_both_servers_show_the_same_task_and_say_what_collusion_means(servers: Pair) -> None:
    pair = await servers.create()
    for path in (f"/tasks/{pair.id.hex()}", f"/tasks/{pair.id.hex()}/statement"):
        first, second = await on_both(servers, "GET", path)
        assert first.content == second.content
    assert second.text.startswith(COLLUSION)
    assert (pair.leader.name, pair.helper.name) == (operator(0).name, operator(1).name)
    for server in (0, 1):
        (row,) = (await servers.clients[server].get("/tasks", headers=ADMIN)).json()
        assert (row["task"], row["kind"], row["phase"]) == (pair.id.hex(), "pair", "confirming")


async def test_uploads_begin_when_both_operators_have_confirmed(servers: Pair) -> None:
    pair = await servers.create()
    base = f"/tasks/{pair.id.hex()}"
    assert token_of(await servers.put(pair, some_upload(pair))) == "not-open-yet"
    state = await servers.state(pair)
    assert "City of Ay" in state["waits_for"]
    assert "Bee University" in state["waits_for"]
    assert "confirm" in (await servers.state(pair, 1))["waits_for"]
    assert (await servers.helper.post(f"{base}/confirm")).status_code == 401
    await servers.helper.post(f"{base}/confirm", headers=ADMIN)
    await servers.tick()
    state = await servers.state(pair)
    assert state["phase"] == "confirming"
    assert "Bee University" not in state["waits_for"]
    assert token_of(await servers.put(pair, some_upload(pair))) == "not-open-yet"
    assert token_of(await servers.start(pair)) == "not-confirmed"
    await servers.leader.post(f"{base}/confirm", headers=ADMIN)
    assert "City of Ay" not in (await servers.state(pair))["waits_for"]  # it has just confirmed
    await servers.tick()
    assert (await servers.state(pair))["phase"] == "open"
    assert (await servers.put(pair, some_upload(pair))).status_code == 201


async def test_a_sealing_key_is_for_one_pair(servers: Pair) -> None:
    first = await servers.create()
    second = await servers.create(label="second")
    assert first.leader.sealing_key == second.leader.sealing_key
    for client in servers.clients.values():
        assert (await client.post(f"/tasks/{first.id.hex()}/confirm", headers=ADMIN)).status_code == 200
        answer = await client.post(f"/tasks/{second.id.hex()}/confirm", headers=ADMIN)
        assert token_of(answer) == "malformed"
        assert "Create the pair again" in answer.json()["detail"]
    third = await servers.opened(label="third")
    assert third.leader.sealing_key != first.leader.sealing_key
    assert third.helper.sealing_key != first.helper.sealing_key


async def test_an_upload_is_acknowledged_with_a_signed_receipt_and_counted_once(servers: Pair) -> None:
    pair = await servers.opened()
    upload = some_upload(pair)
    first = await servers.put(pair, upload)
    again = await servers.put(pair, upload)
    assert (first.status_code, again.status_code) == (201, 200)
    for answer in (first, again):
        assert answer.headers["content-type"] == "application/msgpack"
        assert Receipt.from_bytes(answer.content).is_good(pair, upload.to_bytes())
    other = some_upload(pair)  # sealed anew: other bytes
    assert other.to_bytes() != upload.to_bytes()
    assert token_of(await servers.put(pair, other)) == "other-upload"
    await servers.start(pair)
    assert token_of(await servers.put(pair, some_upload(pair, 1))) == "uploads-closed"
    assert (await servers.put(pair, upload)).status_code == 200
    await servers.tick(2)
    assert (await servers.state(pair))["received"] == 1


def test_a_receipt_says_the_hour_and_no_more(stores: Stores) -> None:
    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        receipt = Receipt.from_bytes((await servers.put(pair, some_upload(pair))).content)
        assert receipt.time == 1_700_000_123 // 3600 * 3600

    run_pair(stores, body, clock=MockClock(1_700_000_123.0))


async def test_a_token_is_good_for_one_upload(servers: Pair) -> None:
    pair = await servers.opened(enrolment="tokens")
    path = f"/tasks/{pair.id.hex()}/tokens"
    assert token_of(await servers.helper.post(path, json={"count": 2}, headers=ADMIN)) == "wrong-role"
    assert token_of(await servers.leader.post(path, json={"count": 0}, headers=ADMIN)) == "malformed"
    tokens = (await servers.leader.post(path, json={"count": 2}, headers=ADMIN)).json()["tokens"]
    assert token_of(await servers.put(pair, some_upload(pair))) == "bad-token"
    assert token_of(await servers.put(pair, some_upload(pair, token="slt_no"))) == "bad-token"
    upload = some_upload(pair, token=tokens[0])
    assert (await servers.put(pair, upload)).status_code == 201
    assert (await servers.put(pair, upload)).status_code == 200
    assert token_of(await servers.put(pair, some_upload(pair, 1, tokens[0]))) == "token-used"
    assert (await servers.put(pair, some_upload(pair, 1, tokens[1]))).status_code == 201


async def test_what_is_no_upload_of_this_pair_is_refused_with_a_reason(servers: Pair) -> None:
    pair = await servers.opened()
    good = some_upload(pair)
    path = f"/tasks/{pair.id.hex()}/uploads/{good.id.hex()}"
    put = servers.leader.put
    assert token_of(await put(path, content=b"")) == "not-canonical"
    assert token_of(await put(path, content=good.to_bytes() + b"\0")) == "not-canonical"
    assert token_of(await put(path, content=bytes(5000))) == "too-large"
    other = f"/tasks/{pair.id.hex()}/uploads/{report_id(1).hex()}"
    assert token_of(await put(other, content=good.to_bytes())) == "other-report"
    assert token_of(await put(path[:-1], content=good.to_bytes())) == "no-such-route"
    assert token_of(await put(path.replace(pair.id.hex(), "0" * 64), content=good.to_bytes())) == "no-such-task"
    assert token_of(await servers.helper.put(path, content=good.to_bytes())) == "wrong-role"
    for changes in (
        {"public": good.public[:-1]},
        {"public": good.public + b"\0"},
        {"public": good.public[:1] + bytes([good.public[1] | 0x80]) + good.public[2:]},  # 9 levels leave 7 bits unused
        {"helper_envelope": good.helper_envelope + b"\0"},
        {"leader_envelope": good.helper_envelope},  # swapped
        {"leader_envelope": bytes(64)},
        {"bucket": 2},
        {"public": good.public[:-1] + bytes([good.public[-1] ^ 1])},
    ):
        bad = msgspec.structs.replace(good, **changes)
        assert token_of(await put(path, content=bad.to_bytes())) == "bad-upload", changes
    assert (await servers.state(pair))["received"] == 0
    assert (await put(path, content=good.to_bytes())).status_code == 201


async def test_a_report_made_for_another_pair_is_no_report_here(servers: Pair) -> None:
    first, second = await servers.opened(), await servers.opened(label="second")
    upload = some_upload(first)
    assert (await servers.put(first, upload)).status_code == 201
    assert token_of(await servers.put(second, upload)) == "bad-upload"
    bucket, report = shared_report(first, int(first.pooled.hierarchy.codes(crowd(1))[0]), 0)
    assert (await servers.put(second, sealed_upload(second, report, bucket=bucket))).status_code == 201
    signed = await servers.finish(second)
    assert signed.trees[0].rejected[0] == 1  # its shares were made with the keys of the other pair


def test_capacity_and_time_end_uploads(stores: Stores) -> None:
    clock = MockClock()

    async def body(servers: Pair) -> None:
        full = await servers.opened(capacity=3)
        await servers.tick()
        until = "until 3 have come or the operator starts the counting"
        assert (await servers.state(full))["waits_for"] == f"uploads, {until}"
        for number in range(3):
            assert (await servers.put(full, some_upload(full, number))).status_code == 201
        assert token_of(await servers.put(full, some_upload(full, 3))) == "uploads-closed"
        await servers.tick(2)
        assert (await servers.state(full))["phase"] == "done"
        timed = await servers.opened(label="timed", upload_seconds=60)
        assert (await servers.put(timed, some_upload(timed))).status_code == 201
        await servers.tick()
        assert (await servers.state(timed))["phase"] == "open"
        clock.advance(61)
        await servers.tick(2)
        assert (await servers.state(timed))["accepted"] == 1

    run_pair(stores, body, clock=clock)


@pytest.mark.parametrize("side", [0, 1])
async def test_either_operator_can_cancel_and_the_shares_go(servers: Pair, stores: Stores, side: int) -> None:
    pair = await servers.opened()
    await servers.fill(pair, crowd(5))
    await servers.tick()
    path = f"/tasks/{pair.id.hex()}"
    assert (await servers.clients[side].post(f"{path}/close", headers=ADMIN)).json() == {"phase": "cancelled"}
    await servers.start(pair)
    await servers.tick(2)
    assert stores[side].pairs.shares(pair.id, 1, bytes(16), b"\xff" * 16) == []
    assert stores[side].pairs.seed(pair.id) is None
    assert token_of(await servers.clients[side].get(f"{path}/transcript")) == "campaign-ended"
    if side == 1:
        state = await servers.state(pair)
        assert state["phase"] != "done"
        assert "cancelled" in state["waits_for"]


async def test_routes_of_rounds_are_not_there_for_a_pair(servers: Pair) -> None:
    pair = await servers.opened()
    base = f"/tasks/{pair.id.hex()}"
    for path in ("plan", "rounds/1/query", "rounds/1/reports"):
        assert token_of(await servers.leader.get(f"{base}/{path}")) == "no-such-route"
    answer = await servers.leader.put(f"{base}/participants/{'0' * 32}", json={"verifier": "0" * 64})
    assert token_of(answer) == "no-such-route"
    assert token_of(await servers.leader.get(f"{base}/transcript")) == "not-closed-yet"


# -- bad input of operators --------------------------------------------------------------------------------------------


async def test_a_pair_is_created_with_the_helper_that_was_meant(servers: Pair) -> None:
    answer = await servers.ask(peer_key="0" * 64)
    assert token_of(answer) == "malformed"
    assert "ask its operator in person" in answer.json()["detail"]
    assert token_of(await servers.ask(peer_key="zz")) == "malformed"
    assert token_of(await servers.ask(capacity=0)) == "malformed"
    assert token_of(await servers.ask(bucket_depth=1)) == "malformed"
    assert token_of(await servers.ask(upload_seconds=0)) == "malformed"
    servers.wire.on = False
    answer = await servers.ask()
    assert token_of(answer) == "peer-away"
    assert "retry-after" in answer.headers
    servers.wire.on = True
    assert (await servers.ask()).status_code == 201
    assert token_of(await servers.ask()) == "task-exists"


async def test_only_the_leader_creates_and_only_the_helper_answers(servers: Pair) -> None:
    form = await servers.form()
    assert token_of(await servers.helper.post("/pairs", json=form, headers=ADMIN)) == "wrong-role"
    assert token_of(await servers.leader.post("/pairs", json=form)) == "unauthorized"
    pair = await servers.opened()
    assert token_of(await servers.helper.post(f"/tasks/{pair.id.hex()}/start", headers=ADMIN)) == "wrong-role"


# -- deletion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["done", "cancelled"])
async def test_nothing_secret_is_left_in_the_files(servers: Pair, stores: Stores, tmp_path: Path, end: str) -> None:
    secret: dict[str, list[bytes]] = {"leader": [], "helper": []}

    def files(name: str) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(tmp_path.glob(f"{name}.db*")))

    pair = await servers.opened()
    codes = pair.pooled.hierarchy.codes(crowd(40)).tolist()
    for number, code in enumerate(codes):
        upload = upload_of(pair, code, number)
        await servers.put(pair, upload)
        _, report = shared_report(pair, code, number)
        for server, name in enumerate(("leader", "helper")):
            keys = PairSecrets(SIGNING[server], SEEDS[server])
            masked = keys.masked(report.private[server], upload.id)
            secret[name] += [report.public[20:60], masked, upload.id]
        secret["leader"].append(upload.helper_envelope)
    for name, seed in zip(("leader", "helper"), SEEDS, strict=True):
        secret[name].append(seed)
    await servers.tick()
    for name, found in secret.items():
        assert all(part in files(name) for part in found), "the search finds what is there"
    if end == "done":
        await servers.finish(pair)
    else:
        for client in servers.clients.values():
            await client.post(f"/tasks/{pair.id.hex()}/close", headers=ADMIN)
        await servers.tick(2)
    for name, found in secret.items():
        left = files(name)
        assert [part for part in found if part in left] == []
    assert hashlib.sha256(stores[0].pairs.body(pair.id) or b"").digest() == pair.id  # what is public stays
