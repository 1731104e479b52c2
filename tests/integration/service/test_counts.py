"""Counts of a live campaign: what the release says, refused before there are regions, computed once."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import decode_event
from semilocal.protocol.partition import Partition
from semilocal.protocol.plan import Release
from semilocal.release import counts
from semilocal.service.rounds import start
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from semilocal.testing import cluster, secrets_of
from tests.helpers.service import enrolled, follow_campaign, open_campaign, sample_task, transcript
from tests.integration.service.test_app import problem

TASK = sample_task()
BASE = f"/tasks/{TASK.id.hex()}"
BOXES = [[[0.1, 0.2], [0.4, 0.9]], [[0.0, 0.0], [1.0, 1.0]], [[0.7, 0.7], [0.7, 0.7]]]


async def finished(client: httpx2.AsyncClient, service: Service, store: SQLiteStore, **options: Any) -> None:
    campaign = open_campaign(TASK, **options)
    devices = await enrolled(client, store, campaign, cluster(60), secrets_of(60))
    problem(await client.get(f"{BASE}/counts?box=0,0,1,1"), "not-closed-yet")
    start(store, TASK.id, service.clock())
    problem(await client.post(f"{BASE}/counts", json={"boxes": BOXES}), "not-closed-yet")
    state = await follow_campaign(client, devices, service=service)
    assert state["phase"] == "finished"


async def partition_of(client: httpx2.AsyncClient, rounds: int) -> Partition:
    events = [decode_event(event) for event in await transcript(client, TASK, rounds=rounds)]
    return Curator.replay(TASK, events).partition


async def test_counts_are_those_that_everybody_computes_from_the_transcript(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    await finished(client, service, sqlite, releases=(Release("counts"),))
    document = (await client.get(f"{BASE}/results")).json()
    expected = counts(await partition_of(client, document["rounds"])).query(BOXES)
    many = (await client.post(f"{BASE}/counts", json={"boxes": BOXES, "level": 0.8})).json()
    assert [row["value"] for row in many["counts"]] == expected.value.tolist()
    assert [row["stderr"] for row in many["counts"]] == expected.stderr.tolist()
    assert [row["interval"] for row in many["counts"]] == expected.interval(0.8).tolist()
    assert (many["level"], many["total"]) == (0.8, 60)
    assert many["counts"][1]["value"] == pytest.approx(60)
    assert many["privacy"] == document["privacy"]
    one = await client.get(f"{BASE}/counts", params={"box": "0.1,0.2,0.4,0.9"})
    assert one.headers["cache-control"] == "no-store"
    assert one.json()["counts"] == [
        {"value": expected.value[0], "stderr": expected.stderr[0], "interval": expected.interval()[0].tolist()}
    ]
    assert one.json()["note"] == document["note"]
    beyond = (await client.get(f"{BASE}/counts", params={"box": "0.1,0.2,4,9"})).json()
    assert "1 of 1 area reaches outside the domain" in beyond["note"]
    stepped = counts(await partition_of(client, document["rounds"])).query(BOXES, rounding=0.15).value.tolist()
    for steps in (0.15, [0.15, 0.15]):
        many = (await client.post(f"{BASE}/counts", json={"boxes": BOXES, "rounding": steps})).json()
        assert [row["value"] for row in many["counts"]] == stepped != expected.value.tolist()
    one = await client.get(f"{BASE}/counts", params={"box": "0.1,0.2,0.4,0.9", "rounding": "0.15"})
    assert one.json()["counts"][0]["value"] == stepped[0]


async def test_means_that_were_released_come_along_and_say_whom_they_are_about(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    release = Release.ask("mean", "coordinate", epsilon=2.0, parameters=(0.0,))
    await finished(client, service, sqlite, releases=(release, Release("counts")))
    document = (await client.get(f"{BASE}/results")).json()
    mean, own = document["releases"][0], {row["region"]: row for row in document["releases"][0]["regions"]}
    assert "means" not in (await client.post(f"{BASE}/counts", json={"boxes": BOXES})).json()
    (found,) = (await client.post(f"{BASE}/counts", json={"boxes": BOXES, "means": True})).json()["means"]
    assert found["what"] == f"mean of {mean['function']}"
    everybody = found["everybody"]
    assert (everybody["value"], everybody["interval"]) == (mean["mean"], mean["interval"])
    assert (everybody["about"], everybody["people"]) == ("everybody who answered", 60)
    whole = found["regions"]["areas"][1]
    assert len(whole["regions"]) + whole["more"] == len(own)
    for (lower, upper), area in zip(BOXES, found["regions"]["areas"], strict=True):
        crowds = [row["people"] for row in area["regions"]]
        assert crowds == sorted(crowds, reverse=True)
        for row in area["regions"]:
            assert row["stderr"] == own[row["region"]]["stderr"]
            assert all(low < end for low, end in zip(lower, row["upper"], strict=True))
            assert all(high > start for high, start in zip(upper, row["lower"], strict=True))
    problem(await client.post(f"{BASE}/counts", json={"boxes": BOXES * 7, "means": True}), "malformed")


async def test_polygons_are_counted_like_the_boxes_that_they_are(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    pytest.importorskip("shapely")
    await finished(client, service, sqlite)
    ring = [[0.1, 0.2], [0.4, 0.2], [0.4, 0.9], [0.1, 0.9], [0.1, 0.2]]
    parts = [{"type": "Polygon", "coordinates": [ring]}, {"type": "MultiPolygon", "coordinates": [[ring]]}]
    for options in ({}, {"rounding": 0.0}):
        asked = (await client.post(f"{BASE}/counts", json={"polygons": parts, **options})).json()["counts"]
        box = (await client.post(f"{BASE}/counts", json={"boxes": BOXES[:1], **options})).json()["counts"][0]
        assert len(asked) == 2
        for row in asked:
            assert row["value"] == pytest.approx(box["value"])
            # Without a step, boxes allow for decimals that nobody told of.
            assert not options or row["stderr"] == pytest.approx(box["stderr"])
    bowtie = [[0.1, 0.2], [0.4, 0.9], [0.4, 0.2], [0.1, 0.9], [0.1, 0.2]]
    bodies: list[dict[str, Any]] = [
        {"polygons": parts, "boxes": BOXES},
        {"polygons": [{"type": "Point", "coordinates": [0, 0]}]},
        {"polygons": [{"type": "Polygon", "coordinates": [ring[:2]]}]},
        {"polygons": [{"type": "Polygon", "coordinates": [bowtie]}]},
        {"polygons": [{"type": "Polygon", "coordinates": []}]},
        {"polygons": parts[:1] * 1_001},
        {"polygons": [{"type": "Polygon", "coordinates": [ring * 4_001]}]},
    ]
    for body in bodies:
        problem(await client.post(f"{BASE}/counts", json=body), "malformed")


BAD_QUERIES = [
    "", "?box=", "?box=0,0,1", "?box=0,0,1,1,1,1", "?box=0.5,0,0.1,1", "?box=0,0,nan,1", "?box=a,b,c,d",
    "?box=0,0,1,1&level=0", "?box=0,0,1,1&level=95", "?box=0,0,1,1&level=x", "?box=0,0,1,1&level=nan",
    "?box=0,0,1,1&rounding=-1", "?box=0,0,1,1&rounding=x", "?box=0,0,1,1&rounding=", "?box=0,0,1,1&rounding=1e-300",
    "?box=0,0,1,1&rounding=0.1,0.1,0.1", "?box=0,0,1,1&rounding=inf",
]  # fmt: skip


BAD_BODIES: list[dict[str, Any]] = [
    {}, {"boxes": []}, {"boxes": [[[0, 0], [1]]]}, {"boxes": "x"}, {"boxes": BOXES, "more": 1},
    {"boxes": BOXES, "rounding": "0.1"}, {"boxes": BOXES, "rounding": [0.1]}, {"boxes": BOXES[:1] * 10_001},
]  # fmt: skip


async def test_bad_queries_and_bodies_are_refused_with_a_reason(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    await finished(client, service, sqlite)
    for query in BAD_QUERIES:
        problem(await client.get(f"{BASE}/counts{query}"), "malformed")
    assert (await client.get(f"{BASE}/counts?box=0,0,1,1&level=0.9&rounding=0.1")).status_code == 200
    for body in BAD_BODIES:
        problem(await client.post(f"{BASE}/counts", json=body), "malformed")
    problem(await client.post(f"{BASE}/counts", content=b"[" * (5 << 20)), "too-large")
    problem(await client.get(f"/tasks/{'0' * 64}/counts?box=0,0,1,1"), "no-such-task")
