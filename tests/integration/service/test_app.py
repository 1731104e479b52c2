"""The routes: every promise of spec/http.md that one request or two can show."""

from __future__ import annotations

import asyncio
import hashlib
import json
from itertools import pairwise
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal import Report, Task
from semilocal.protocol.messages import Closed, Query, Seal, Slice, ValueReport, decode, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.promise import INSIDE, Guarantee, promise
from semilocal.service.app import App
from semilocal.service.campaign import Campaign
from semilocal.service.problems import PROBLEMS
from semilocal.service.rounds import catch_up, chain_for, create_campaign, start
from semilocal.service.routes import OPERATIONS
from semilocal.service.routes import device as device_routes
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from semilocal.testing import ADMIN_TOKEN, MockClock, cluster, running_app, secrets_of
from semilocal.transcript.checkpoints import next_head, signature_fault
from tests.helpers import HANG
from tests.helpers.service import (
    Device,
    enrolled,
    follow_campaign,
    open_campaign,
    read_closed,
    read_slices,
    roster_report,
    sample_task,
)
from tests.helpers.stored import verify

TASK = sample_task()
BASE = f"/tasks/{TASK.id.hex()}"
MEAN = {"kind": "mean", "function": "coordinate", "parameters": [0], "epsilon": 1.0}
AUTH = {"authorization": f"Bearer {ADMIN_TOKEN}"}


def problem(answer: httpx2.Response, token: str) -> None:
    """The answer is a problem document with this token, and nothing more."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["token"] == token, document
    assert document["type"] == f"urn:semilocal:problem:{token}"
    assert answer.status_code == document["status"] == PROBLEMS[token][0]
    assert set(document) == {"type", "token", "title", "status", "detail"}
    assert "Traceback" not in answer.text
    if answer.status_code in (429, 503) or token.endswith("-yet"):
        assert int(answer.headers["retry-after"]) >= 1


def form(**changes: Any) -> dict[str, Any]:
    task = json.loads(msgspec.json.encode(TASK))
    return {"name": "test", "task": task, "enrolment": "open"} | changes


async def test_a_campaign_over_http_from_creation_to_results(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    releases = [
        {"kind": "mean", "function": "coordinate", "parameters": [0], "epsilon": 2.0},
        {"kind": "values", "function": "squared_norm", "epsilon": 1.0},
        {"kind": "counts"}, {"kind": "points"},
    ]  # fmt: skip
    created = await client.post("/tasks", json=form(enrolment="tokens", releases=releases), headers=AUTH)
    assert created.status_code == 201, created.text
    base = created.headers["location"]
    problem(await client.post("/tasks", json=form(), headers=AUTH), "task-exists")
    task = decode((await client.get(base)).content, Task)
    assert msgspec.structs.replace(task, chain=b"") == TASK
    assert task.chain == chain_for(sqlite, TASK).end
    assert base == f"/tasks/{task.id.hex()}"
    plan = decode((await client.get(f"{base}/plan")).content, Plan)
    assert plan.total_epsilon(task) == task.epsilon + 3.0
    assert (await client.get(f"{base}/statement")).text == promise(task, plan).explain()
    tokens = (await client.post(f"{base}/tokens", json={"count": 60}, headers=AUTH)).json()["tokens"]
    assert len(set(tokens)) == 60
    points, secrets = cluster(60), secrets_of(60)
    devices = [Device(client, task, p, s, plan=plan) for p, s in zip(points, secrets, strict=True)]
    for device, token in zip(devices, tokens, strict=True):
        assert (await device.enrol(token)).status_code == 201
        assert (await device.enrol(token)).status_code == 200
    problem(await client.get(f"{base}/results"), "not-closed-yet")
    for _ in range(2):
        assert (await client.post(f"{base}/start", headers=AUTH)).json() == {"phase": "collecting", "round": 1}
    problem(await Device(client, task, points[0], bytes(32)).enrol(tokens[0]), "token-used")
    state = await follow_campaign(client, devices, service=service)
    assert state["phase"] == "finished"
    results = (await client.get(f"{base}/results")).json()
    assert [release["kind"] for release in results["releases"]] == ["mean", "values", "counts", "points"]
    assert all(release["delta"] == 0 and release["adjacency"] == INSIDE for release in results["releases"])
    assert results["releases"][0]["responders"] == 60
    assert sum(count for r in results["releases"][1]["regions"] for _, count in r["values"]) == 60
    assert sum(region["crowd"] for region in results["regions"]) == 60
    promised = Guarantee.from_json(results["privacy"])
    assert promised.epsilon == pytest.approx(task.epsilon + 3.0)
    assert promised.explain() == results["privacy"]["text"]
    assert (await client.get(f"{base}/regions.geojson")).json()["type"] == "FeatureCollection"
    low, high = results["releases"][0]["interval"]
    assert low <= results["releases"][0]["mean"] <= high
    assert results["releases"][0]["clipping"] >= 0
    assert all(low <= high for region in results["releases"][0]["regions"] for low, high in [region["range"]])
    rows = (await client.get("/tasks")).json()
    assert rows == [{"task": task.id.hex(), "name": "test", "phase": "finished", "enrolled": 60, "fault": None}]
    problem(await client.get(f"{base}/rounds/{state['round'] + 1}/query"), "no-such-round")
    verify(sqlite, task.id)


async def test_slices_are_what_everybody_computes_from_the_reports(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(80), secrets_of(80))
    start(sqlite, TASK.id, service.clock())
    problem(await client.get(f"{BASE}/rounds/1/slices/256-512"), "not-closed-yet")
    state = await follow_campaign(client, devices, service=service)
    kept = {}
    for number in range(1, state["closed"] + 1):
        closed = await read_closed(client, BASE, number)
        assert isinstance(closed, Closed)
        for head in closed.heads:
            path = f"{BASE}/rounds/{number}/slices/{head.lower}-{head.upper}"
            kept[path] = (await client.get(path)).content
            part = decode(kept[path], Slice)
            assert (part.region, len(part.entries)) == ((head.lower, head.upper), head.reports)
            assert part.digest() == head.digest
        problem(await client.get(f"{BASE}/rounds/{number}/slices/1-2"), "no-such-slice")
    for region in ("512-256", "01-2", "1-", "1-99999999999999999999", "a-b"):
        problem(await client.get(f"{BASE}/rounds/1/slices/{region}"), "no-such-route")
    service._cache.clear()  # from the database, as after a restart
    for path, content in kept.items():
        assert (await client.get(path)).content == content
    logs = sorted(catch_up(sqlite, open_campaign(TASK), state["closed"]).logs)
    assert (logs[0][0], logs[-1][1]) == TASK.hierarchy.ends
    assert all(one[1] == other[0] for one, other in pairwise(logs))
    assert {device.machine.region for device in devices} == set(logs)


async def test_who_enrols_late_announces_a_region_and_closes_no_round(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(60), secrets_of(60))
    start(sqlite, TASK.id, service.clock())
    query = (await client.get(f"{BASE}/rounds/1/query")).content
    for device in devices:
        await device.answer(query)
    await service.tick()
    closed = await read_closed(client, BASE, 1)
    slices = await read_slices(client, BASE, closed, devices)
    for device in devices:
        device.follow(closed, slices)
    late = Device(client, TASK, [0.3, 0.3], b"l" * 32)
    assert (await late.enrol()).status_code == 201
    await late.read(1, 1)
    query = (await client.get(f"{BASE}/rounds/2/query")).content
    answer = await late.answer(query)
    assert answer is not None
    assert answer.status_code == 201
    status = sqlite.status(TASK.id)
    assert status is not None
    assert (status.round, status.received, status.enrolled) == (2, 0, 61)
    for device in devices:
        await device.answer(query)
    await service.tick()
    closed = await read_closed(client, BASE, 2)
    slices = await read_slices(client, BASE, closed, devices)
    for device in (*devices, late):
        device.follow(closed, slices)
    state = await follow_campaign(client, [*devices, late], service=service, done=2)
    assert state["phase"] == "finished"
    logs = catch_up(sqlite, open_campaign(TASK), state["closed"]).logs.values()
    assert sum(log.crowd for log in logs) == 60
    assert sum(len(log.members) for log in logs) == 61
    assert late.machine.region == late.machine.path.region
    verify(sqlite, TASK.id)


@pytest.mark.served(clock=MockClock(1700000000.3))
async def test_no_more_time_is_left_than_was_given(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    campaign = Campaign("test", TASK, (), "open", None, 600)
    assert create_campaign(sqlite, campaign, now=service.clock())
    for path in ("state", "progress"):
        state = (await client.get(f"{BASE}/{path}", headers=AUTH)).json()
        assert state["deadline"] - state["now"] == 600


async def test_a_value_report_repeats_its_bytes_and_others_are_refused(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    release = Release.ask("mean", "coordinate", epsilon=2.0, parameters=[1])
    campaign = open_campaign(TASK, releases=(release,))
    devices = await enrolled(client, sqlite, campaign, cluster(120), secrets_of(120))
    late = devices.pop()
    start(sqlite, TASK.id, service.clock())
    while True:
        state = (await client.get(f"{BASE}/state")).json()
        if state["phase"] == "releasing":
            break
        query = (await client.get(f"{BASE}/rounds/{state['round']}/query")).content
        for device in devices:
            await device.answer(query)
        service.clock.advance(61)  # type: ignore[attr-defined]
        await service.tick()
        closed = await read_closed(client, BASE, state["round"])
        slices = await read_slices(client, BASE, closed, devices)
        for device in devices:
            device.follow(closed, slices)
    assert state["kind"] == "value-query"
    number = state["round"]
    query = (await client.get(f"{BASE}/rounds/{number}/query")).content
    first = await devices[0].answer(query)
    assert first is not None
    assert first.status_code == 201
    again = await devices[0].answer(query)
    assert again is not None
    assert again.status_code == 200
    region = devices[0].machine.region
    assert region is not None
    mechanism = release.mechanism
    assert mechanism is not None
    name = devices[1].pseudonym
    mine = devices[1].machine.region
    assert mine is not None
    problem(await devices[1].put(ValueReport(TASK.id, number, name, *mine, mechanism.alphabet.stop)), "bad-answer")
    problem(await devices[1].put(ValueReport(TASK.id, number, name, 1, 2, 0)), "unknown-region")
    problem(await devices[1].put(Report(TASK.id, number, name, *mine, None, name)), "wrong-kind")
    elsewhere = next(d.machine.region for d in devices if d.machine.region != mine)
    assert elsewhere is not None
    problem(await devices[1].put(ValueReport(TASK.id, number, name, *elsewhere, 0)), "other-region")
    problem(await late.put(ValueReport(TASK.id, number, late.pseudonym, *mine, 0)), "other-region")
    service.clock.advance(61)  # type: ignore[attr-defined]
    await service.tick()
    assert (await client.get(f"{BASE}/state")).json()["phase"] == "finished"
    verify(sqlite, TASK.id)


async def test_reports_are_created_repeated_refused_and_late_as_the_table_says(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(20), secrets_of(20))
    a, b, c = devices[:3]
    problem(await a.put(roster_report(TASK, a.pseudonym)), "not-open-yet")
    problem(await client.get(f"{BASE}/rounds/1/query"), "not-open-yet")
    start(sqlite, TASK.id, service.clock())
    query = decode((await client.get(f"{BASE}/rounds/1/query")).content, Query)
    report = a.machine.receive(query)
    assert isinstance(report, Report)
    first = await a.put(report)
    again = await a.put(report)
    assert (first.status_code, again.status_code) == (201, 200)
    digest = hashlib.sha256(encode(report)).hexdigest()
    assert first.json() == again.json() == {"digest": digest}
    assert first.headers["content-type"] == "application/json"
    other = msgspec.structs.replace(report, nonce=bytes(16))
    problem(await a.put(other), "other-answer")
    fine = roster_report(TASK, b.pseudonym)
    problem(await b.put(encode(fine) + b"\x00", 1), "not-canonical")
    problem(await b.put(b"", 1), "not-canonical")
    for token, changes in (
        ("other-task", {"task": bytes(32)}), ("other-pseudonym", {"pseudonym": a.pseudonym}),
        ("unknown-region", {"upper": fine.upper - 1}), ("unknown-region", {"upper": 2**63}),
        ("not-drawn", {"answer": 1}), ("not-drawn", {"answer": (0, 1)}),
    ):  # fmt: skip
        problem(await b.put(roster_report(TASK, b.pseudonym, **changes)), token)
    problem(await b.put(roster_report(TASK, b.pseudonym, round=2), 1), "other-round")
    problem(await b.put(ValueReport(TASK.id, 1, b.pseudonym, *fine.region, 0)), "wrong-kind")
    problem(await b.put(roster_report(TASK, b.pseudonym, round=2)), "not-open-yet")
    problem(await client.get(f"{BASE}/rounds/1/closed"), "not-closed-yet")
    problem(await client.get(f"{BASE}/rounds/1/reports"), "not-closed-yet")
    for device in devices[4:]:
        await device.answer(encode(query))
    service.clock.advance(61)  # type: ignore[attr-defined]
    await service.tick()
    problem(await c.put(roster_report(TASK, c.pseudonym)), "round-closed")
    assert (await a.put(report)).status_code == 200
    problem(await a.put(other), "other-answer")
    assert (await client.get(f"{BASE}/state")).json()["round"] == 2
    (question,) = decode((await client.get(f"{BASE}/rounds/2/query")).content, Query).questions
    problem(await c.put(roster_report(TASK, c.pseudonym, round=2, answer=1)), "not-drawn")
    assert (await c.put(roster_report(TASK, c.pseudonym, round=2))).status_code == 201, "who was away may come back"
    live = service.live_campaigns[TASK.id]
    assert live.curator is not None
    drawn = next(d for d in devices if d.pseudonym in live.curator.asked_now(question.region))
    problem(await drawn.put(roster_report(TASK, drawn.pseudonym, round=2, answer=7)), "bad-answer")


async def test_keys_and_admin_tokens_are_checked(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(3), secrets_of(3))
    start(sqlite, TASK.id, service.clock())
    a, b = devices[:2]
    body = encode(roster_report(TASK, a.pseudonym))
    for headers in (
        {}, {"authorization": "Bearer "}, {"authorization": f"Bearer {b.key.hex()}"},
        {"authorization": f"Basic {a.key.hex()}"},
        {"authorization": f"Bearer {a.key.hex().upper()}"}, {"authorization": f"Bearer {a.key.hex()}0"},
        {"authorization": f"Bearer {bytes(32).hex()}"},
    ):  # fmt: skip
        answer = await client.put(a.path(1), content=body, headers=headers)
        problem(answer, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    stranger = Device(client, TASK, [0.5, 0.5], b"s" * 32)
    problem(await stranger.put(roster_report(TASK, stranger.pseudonym)), "unauthorized")
    assert (await client.put(a.path(1), content=body, headers=a.headers)).status_code == 201
    for path in ("/tasks", f"{BASE}/tokens", f"{BASE}/start", f"{BASE}/close"):
        for given in ({}, {"authorization": "Bearer nonsense"}, {"authorization": f"Basic {ADMIN_TOKEN}"}, a.headers):
            problem(await client.post(path, content=b"{}", headers=given), "unauthorized")


async def test_enrolment_is_refused_as_the_table_says(client: httpx2.AsyncClient, sqlite: SQLiteStore) -> None:
    sqlite.create(Campaign("tokens", TASK), needed=None, deadline=None)
    one, two = (await client.post(f"{BASE}/tokens", json={"count": 2}, headers=AUTH)).json()["tokens"]
    a, b = (Device(client, TASK, [0.5, 0.5], bytes([n]) * 32) for n in (1, 2))
    problem(await a.enrol(), "bad-token")
    problem(await a.enrol("slt_" + "x" * 43), "bad-token")
    problem(await a.enrol("ü" * 20), "bad-token")
    assert (await a.enrol(one)).status_code == 201
    problem(await b.enrol(one), "token-used")
    b.pseudonym = a.pseudonym
    problem(await b.enrol(two), "pseudonym-taken")
    path = f"{BASE}/participants/{a.pseudonym.hex()}"
    unknown = b'{"verifier": "%s", "x": 1}' % (b"0" * 64)
    for body in (b"", b"[]", b"{}", b'{"verifier": 3}', b'{"verifier": "00"}', unknown):
        problem(await client.put(path, content=body), "malformed")
    problem(await client.put(path, content=b" " * 5000), "too-large")
    for count in (0, -1, 10_001):
        problem(await client.post(f"{BASE}/tokens", json={"count": count}, headers=AUTH), "malformed")
    await client.post(f"{BASE}/close", headers=AUTH)
    problem(await Device(client, TASK, [0.5, 0.5], b"z" * 32).enrol(two), "campaign-ended")
    problem(await client.post(f"{BASE}/start", headers=AUTH), "campaign-ended")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"\xff", json.dumps(form(name="")).encode(), json.dumps(form(name="a\nb")).encode(),
        json.dumps(form(capacity=0)).encode(), json.dumps(form(enrolment_seconds=0)).encode(),
        json.dumps(form(enrolment="friends")).encode(), json.dumps(form(extra=1)).encode(),
        json.dumps(form(task={"type": "task"})).encode(),
        json.dumps(form(releases=[{"kind": "mean"}])).encode(),
        json.dumps(form(releases=[{"kind": "mean", "function": "sum", "epsilon": 1.0}])).encode(),
        json.dumps(form(releases=[MEAN | {"parameters": [2]}])).encode(),
        json.dumps(form(releases=[MEAN | {"epsilon": 0.0}])).encode(),
        json.dumps(form(releases=[{"kind": "counts", "epsilon": 1.0}])).encode(),
    ],
)  # fmt: skip
async def test_a_malformed_campaign_is_refused_with_a_sentence(
    client: httpx2.AsyncClient, sqlite: SQLiteStore, body: bytes
) -> None:
    problem(await client.post("/tasks", content=body, headers=AUTH), "malformed")
    assert list(sqlite.statuses()) == []


async def test_immutable_answers_are_cacheable_and_states_are_not(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(12), secrets_of(12))
    start(sqlite, TASK.id, service.clock())
    await follow_campaign(client, devices, service=service)
    messages = [f"/rounds/1/{what}" for what in ("query", "closed", "checkpoint", "seal", "reports")]
    messages.append("/rounds/1/slices/256-512")
    for path in ("", "/plan", "/statement", "/results", "/regions.geojson", *messages):
        answer = await client.get(BASE + path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        again = await client.get(BASE + path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await client.get(BASE + path)).content == answer.content
    assert (await client.get(f"{BASE}/state")).headers["cache-control"] == "no-store"


async def test_unknown_paths_methods_and_long_requests_are_refused(
    client: httpx2.AsyncClient, sqlite: SQLiteStore
) -> None:
    await enrolled(client, sqlite, open_campaign(TASK), cluster(1), secrets_of(1))
    name = "0" * 32
    rounds = [f"{BASE}/rounds/{text}" for text in ("0/query", "01/closed", "-1/closed", "9999999/query", "x/reports")]
    for path in ("/", "/x", f"/tasks/{'0' * 63}", f"/tasks/{'A' * 64}/state", f"{BASE}/", *rounds):
        problem(await client.get(path), "no-such-route")
    for path in (f"{BASE}/rounds/1/reports/{name[1:]}", f"{BASE}/rounds/0/reports/{name}"):
        problem(await client.put(path), "no-such-route")
    problem(await client.put(f"/tasks/zz/rounds/1/reports/{name}"), "no-such-route")
    for path in ("", "/state", "/plan", "/results", "/statement", "/rounds/1/query"):
        problem(await client.get(f"/tasks/{'0' * 64}{path}"), "no-such-task")
    unknown = f"/tasks/{'0' * 64}/rounds/1/reports/{name}"
    problem(await client.put(unknown, headers={"authorization": f"Bearer {'0' * 64}"}), "no-such-task")
    answer = await client.delete(BASE)
    problem(answer, "method-not-allowed")
    assert "GET" in answer.headers["allow"]
    problem(await client.get(f"{BASE}/rounds/1/reports/{name}"), "method-not-allowed")
    problem(await client.get(f"{BASE}/state?after=" + "1" * 300), "too-large")
    for query in ("after=x", "after=-2", "after=1&wait=26", "after=0&wait=-1", "after=٣&wait=1"):
        problem(await client.get(f"{BASE}/state?{query}"), "malformed")
    problem(await client.put(f"{BASE}/rounds/1/reports/{name}", content=b"x" * 4097), "too-large")

    async def chunks() -> Any:
        for _ in range(10):
            yield b"x" * 1000

    problem(await client.put(f"{BASE}/rounds/1/reports/{name}", content=chunks()), "too-large")
    problem(await client.post("/tasks", content=b"x" * 65_537, headers=AUTH), "too-large")


async def test_one_key_that_asks_too_often_is_slowed_down_and_others_are_not(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    a, b = await enrolled(client, sqlite, open_campaign(TASK), cluster(2), secrets_of(2))
    start(sqlite, TASK.id, service.clock())
    report = roster_report(TASK, a.pseudonym)
    codes = [(await a.put(report)).status_code for _ in range(70)]
    assert codes[0] == 201
    assert codes[1:60] == [200] * 59
    assert codes[60:] == [429] * 10
    problem(await a.put(report), "too-fast")
    assert (await b.put(roster_report(TASK, b.pseudonym))).status_code == 201
    service.clock.advance(1)  # type: ignore[attr-defined]
    assert (await a.put(report)).status_code == 200


@pytest.mark.served(max_queue=4)
async def test_a_full_queue_answers_503_with_retry_after_and_loses_nothing(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(40), secrets_of(40))
    start(sqlite, TASK.id, service.clock())
    answers = await asyncio.gather(*(d.put(roster_report(TASK, d.pseudonym)) for d in devices))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    for answer in refused:
        problem(answer, "overloaded")
    status = sqlite.status(TASK.id)
    assert status is not None
    assert status.received == sum(answer.status_code == 201 for answer in answers) == 40 - len(refused)


async def test_a_database_that_is_away_is_503_and_an_unexpected_fault_too(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = await enrolled(client, sqlite, open_campaign(TASK), cluster(1), secrets_of(1))
    start(sqlite, TASK.id, service.clock())

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(service.writer, "_store_all", broken)
    answer = await a.put(roster_report(TASK, a.pseudonym))
    problem(answer, "unavailable")
    assert "secret detail" not in answer.text
    monkeypatch.undo()
    assert (await a.put(roster_report(TASK, a.pseudonym))).status_code == 201
    sqlite.close()
    problem(await client.get("/healthz"), "unavailable")


@pytest.mark.served(interval=0.05)
async def test_a_long_poll_answers_when_something_happens(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_routes, "LONGEST_WAIT", 10**6)  # an answer then is due to what happened
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(3), secrets_of(3))
    waiting = [asyncio.create_task(client.get(f"{BASE}/state?after={n}&wait=99999", timeout=HANG)) for n in (-1, 0)]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in waiting)
    start(sqlite, TASK.id, service.clock())
    for task in waiting:
        assert (await asyncio.wait_for(task, HANG)).json()["phase"] == "collecting"
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert (await client.get(f"{BASE}/state?after=-1&wait=99999")).json()["round"] == 1
    assert (await client.get(f"{BASE}/state?after=0&wait=1")).json()["closed"] == 0
    assert loop.time() - begun > 0.9
    waiting = [asyncio.create_task(client.get(f"{BASE}/state?after=0&wait=99999", timeout=HANG))]
    query = (await client.get(f"{BASE}/rounds/1/query")).content
    for device in devices:  # the last one fills the round
        await device.answer(query)
    assert (await asyncio.wait_for(waiting[0], HANG)).json()["closed"] >= 1


async def test_health_metrics_and_description(
    client: httpx2.AsyncClient, service: Service, app: App, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(3), secrets_of(3))
    start(sqlite, TASK.id, service.clock())
    for device in devices:
        await device.put(roster_report(TASK, device.pseudonym))
    assert (await client.get("/healthz")).json()["status"] == "ok"
    assert (await client.get("/metrics")).status_code == 401  # it tells when every report comes in
    page = (await client.get("/metrics", headers=AUTH)).text
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    assert all(len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0 for line in lines)
    assert any('outcome="stored"' in line and line.endswith(" 6.0") for line in lines)
    assert 'semilocal_campaigns{phase="collecting"} 1.0' in lines
    described = (await client.get("/openapi.json")).json()
    listed = {(method, path) for path, methods in described["paths"].items() for method in methods}
    routed = {
        (method.lower(), route.path)  # type: ignore[attr-defined]
        for route in app.router.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    assert listed == routed == {(operation.method, operation.path) for operation in OPERATIONS}


async def test_a_server_that_was_down_past_deadlines_catches_up_and_the_next_round_has_its_window(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(TASK), cluster(60), secrets_of(60))
    start(sqlite, TASK.id, service.clock())
    query = (await client.get(f"{BASE}/rounds/1/query")).content
    for device in devices[:50]:
        await device.answer(query)
    later = MockClock(service.clock() + 100_000)
    async with running_app(sqlite, later) as (fresh, second, _):  # it comes back
        await second.tick()
        state = (await fresh.get(f"{BASE}/state")).json()
        assert (state["closed"], state["round"], state["phase"]) == (1, 2, "collecting")
        assert state["deadline"] == later() + TASK.window
        await second.tick()
        assert (await fresh.get(f"{BASE}/state")).json() == state
    verify(sqlite, TASK.id)


@pytest.mark.parametrize("length", ["", "-1", "x", "²"])
async def test_a_content_length_that_is_no_number_is_refused(
    client: httpx2.AsyncClient, sqlite: SQLiteStore, length: str
) -> None:
    """Found by fuzzing: it was an unexpected fault."""

    (a,) = await enrolled(client, sqlite, open_campaign(TASK), cluster(1), secrets_of(1))
    for path in (a.path(1), f"{BASE}/participants/{a.pseudonym.hex()}"):
        request = client.build_request("PUT", path, content=b"x", headers=a.headers)
        request.headers = httpx2.Headers(
            [*((k.encode(), v.encode()) for k, v in a.headers.items()), (b"content-length", length.encode("latin-1"))]
        )
        problem(await client.send(request), "malformed")


async def test_seals_are_chained_and_signed_with_the_key_that_the_task_pins(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    key = bytes.fromhex((await client.get("/key")).json()["server_key"])
    task = sample_task(server_key=key)
    other = json.loads(msgspec.json.encode(sample_task(server_key=bytes(32))))
    answer = await client.post("/tasks", json=form(task=other), headers=AUTH)
    problem(answer, "malformed")
    assert "another server" in answer.json()["detail"]
    devices = await enrolled(client, sqlite, open_campaign(task), cluster(30), secrets_of(30))
    start(sqlite, task.id, service.clock())
    state = await follow_campaign(client, devices, service=service)
    assert state["closed"] > 1
    head = task.id
    for number in range(1, state["closed"] + 1):
        base = f"/tasks/{task.id.hex()}/rounds/{number}"
        seal = decode((await client.get(f"{base}/seal")).content, Seal)
        assert seal.checkpoint.to_bytes() == (await client.get(f"{base}/checkpoint")).content
        head = next_head(head, seal.checkpoint)
        assert seal.head == head
        assert signature_fault(seal, task) is None
        forged = msgspec.structs.replace(seal, signature=bytes(64))
        assert signature_fault(forged, task) is not None
