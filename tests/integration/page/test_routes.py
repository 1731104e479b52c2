"""The page's routes over a real store: what everybody sees is a function of closed rounds, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import httpx2
import numpy as np
import pytest

from semilocal.page.routes import OPERATIONS
from semilocal.protocol.messages import Closed, decode_closed
from semilocal.protocol.plan import Release
from semilocal.protocol.promise import device_words
from semilocal.protocol.region import walls_of
from semilocal.service.app import App
from semilocal.service.campaign import Campaign
from semilocal.service.keys import admin_hash
from semilocal.service.rounds import catch_up
from semilocal.service.stores.base import Store
from semilocal.service.worker import Service
from semilocal.testing import ADMIN_TOKEN, MockClock, build_app, client_of, cluster, secrets_of
from tests.helpers.service import Device, enrolled, follow_campaign, open_campaign, sample_task
from tests.integration.conftest import lasting

ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}


@contextlib.asynccontextmanager
async def with_page(store: Store) -> AsyncIterator[tuple[httpx2.AsyncClient, Service, App]]:
    _, service = build_app(store, MockClock())
    app = App(service, admin=admin_hash(ADMIN_TOKEN), more=OPERATIONS)
    await service.start()
    try:
        async with client_of(app) as client:
            yield client, service, app
    finally:
        await service.stop()


@pytest.fixture
def running(loop: asyncio.Runner, sqlite: Store) -> Iterator[tuple[httpx2.AsyncClient, Service, App]]:
    """The application with the routes of the page."""
    yield from lasting(loop, with_page(sqlite))


async def finished(client: httpx2.AsyncClient, service: Service, store: Store, campaign: Campaign) -> list[Device]:
    devices = await enrolled(client, store, campaign, cluster(60), secrets_of(60))
    await client.post(f"{devices[0].base}/start", headers=ADMIN)
    await follow_campaign(client, devices, service=service)
    return devices


async def test_a_finished_campaign_can_be_drawn_round_by_round(
    client: httpx2.AsyncClient, service: Service, sqlite: Store
) -> None:
    campaign = open_campaign(
        sample_task(), releases=(Release.ask("mean", "coordinate", epsilon=1.0, parameters=(0.0,)),)
    )
    base = (await finished(client, service, sqlite, campaign))[0].base
    state = (await client.get(f"{base}/state")).json()
    last, shown = None, 0
    for number in range(1, state["closed"]):
        answer = await client.get(f"{base}/rounds/{number}/cells")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        found = answer.json()
        closed = decode_closed((await client.get(f"{base}/rounds/{number}/closed")).content)
        assert isinstance(closed, Closed)
        assert found["received"] == sum(head.reports for head in closed.heads)
        shown += found["rows"] is not None
        last = found["rows"] or last
    assert last is not None
    logs = [log for _, log in sorted(catch_up(sqlite, campaign, state["closed"] - 1).logs.items())]
    assert last["crowd"] == [log.crowd for log in logs]
    cut = np.diff(walls_of(logs).first).tolist()
    assert [len(pieces) for pieces in last["pieces"]] == [number + 1 if number else 0 for number in cut]
    assert shown > 1
    again = await client.get(f"{base}/rounds/1/cells")  # after later ones: built once more, or kept
    assert again.json()["rows"]["crowd"] == [60]
    values = (await client.get(f"{base}/rounds/{state['closed']}/cells")).json()
    assert (values["kind"], values["rows"], values["received"]) == ("values", None, 60)
    plain = await client.get(f"{base}/rounds/1/cells", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json()["received"] == 60
    about = (await client.get(f"{base}/overview")).json()
    assert about["promise"]["text"] == campaign.statement()
    assert about["participant"] == device_words(campaign.task, campaign.plan)
    assert about["domain"]["lower"] == [0.0, 0.0]


async def test_an_open_round_shows_nothing_of_its_reports(
    client: httpx2.AsyncClient, service: Service, sqlite: Store
) -> None:
    """Overview, state and cells are the same bytes whether one device has reported in the open round or none."""
    devices = await enrolled(client, sqlite, open_campaign(sample_task()), cluster(20), secrets_of(20))
    base = devices[0].base
    await client.post(f"{base}/start", headers=ADMIN)
    refused = await client.get(f"{base}/rounds/1/cells")
    assert refused.status_code == 404
    assert refused.json()["token"] == "not-closed-yet"

    async def seen() -> list[bytes]:
        return [(await client.get(f"{base}/{what}")).content for what in ("overview", "state")]

    before = await seen()
    query = (await client.get(f"{base}/rounds/1/query")).content
    answer = await devices[0].answer(query)
    assert answer is not None
    assert answer.status_code == 201
    await service.refresh(bytes.fromhex(base.rsplit("/", 1)[1]))
    assert await seen() == before
    assert (await client.get(f"{base}/progress")).status_code == 401
    assert (await client.get(f"{base}/progress", headers=ADMIN)).json()["received"] == 1


async def test_refused_reports_are_counted_by_reason_for_the_administrator(
    client: httpx2.AsyncClient, sqlite: Store
) -> None:
    devices = await enrolled(client, sqlite, open_campaign(sample_task()), cluster(20), secrets_of(20))
    await client.post(f"{devices[0].base}/start", headers=ADMIN)
    await client.put(devices[0].path(1), content=b"nonsense", headers=devices[0].headers)
    await client.put(devices[0].path(1), content=b"nonsense")
    found = (await client.get(f"{devices[0].base}/progress", headers=ADMIN)).json()
    assert found["refused"] == {"not-canonical": 1, "unauthorized": 1}


async def test_the_page_and_its_files_come_with_a_strict_policy(client: httpx2.AsyncClient) -> None:
    page = await client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name, kind in (("views/main.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        file = await client.get(f"/static/{name}")
        assert file.headers["content-type"].startswith(kind)
        assert file.headers["x-content-type-options"] == "nosniff"
        again = await client.get(f"/static/{name}", headers={"if-none-match": file.headers["etag"]})
        assert again.status_code == 304
    for name in ("../routes.py", "nothing.js", "views", ""):
        assert (await client.get(f"/static/{name}")).status_code in (404, 405), name
    described = (await client.get("/openapi.json")).json()["paths"]
    assert "/" not in described


async def test_a_draft_needs_the_token_says_the_promise_and_creates_the_campaign_it_describes(
    client: httpx2.AsyncClient,
) -> None:
    asked = {"name": "<b>x</b>", "bounds": "california", "epsilon": 1.0, "k": 50, "delta": 1e-6, "capacity": 1000}
    assert (await client.post("/drafts", json=asked)).status_code == 401
    bad = await client.post("/drafts", json=asked | {"bounds": "atlantis"}, headers=ADMIN)
    assert bad.status_code == 400
    assert "atlantis" in bad.json()["detail"]
    for changes, field in (
        ({"bounds": "atlantis"}, "bounds"), ({"k": 0}, "k"), ({"k": None}, "k"), ({"delta": 2}, "delta"),
        ({"resolution": 1e9}, "resolution"), ({"resolution": -1}, "resolution"), ({"epsilon": 999}, "epsilon"),
        ({"window": 0}, "window"), ({"trust": "two-servers"}, "trust"), ({"k": 2.5}, "k"), ({"k": "many"}, "k"),
    ):  # fmt: skip
        refused = (await client.post("/drafts", json=asked | changes, headers=ADMIN)).json()
        assert refused["field"] == field, refused
    coarse = (await client.post("/drafts", json=asked | {"resolution": 5}, headers=ADMIN)).json()
    assert coarse["form"]["task"]["min_side"] == [5.0]
    few = await client.post("/drafts", json=asked | {"capacity": 3}, headers=ADMIN)
    assert "capacity must be at least k" in few.json()["detail"]
    fare = asked | {"own": "fare", "own_low": 0, "own_high": 80, "own_epsilon": 0.5}
    own = (await client.post("/drafts", json=fare, headers=ADMIN)).json()
    assert own["form"]["releases"][1]["function"] == "own:fare"
    assert "with any two values of fare from 0 to 80" in own["promise"]["sentence"]
    for wrong, field in (
        ({"own": ""}, "own"), ({"own_high": None}, "own_low"), ({"own_epsilon": None}, "own_epsilon"),
        ({"own_low": 90}, "own_low"), ({"own_epsilon": 0}, "own_epsilon"), ({"own": "a\nb"}, "own"),
    ):  # fmt: skip
        refused = (await client.post("/drafts", json=fare | wrong, headers=ADMIN)).json()
        assert refused["field"] == field, refused
    draft = (await client.post("/drafts", json=asked, headers=ADMIN)).json()
    assert draft["warnings"] == []
    loose = {"k": 10, "delta": 0.05, "epsilon": 12.0, "quorum": 0.5}
    warned = (await client.post("/drafts", json=asked | loose, headers=ADMIN)).json()["warnings"]
    for words in (
        "Devices with default limits would refuse: the task promises a crowd of 10; the owner wants 20. Raise",
        "the crowd may fail with probability 0.05; 0.001 is allowed. Lower delta", "10 is left. Lower epsilon",
        "Devices may be left behind: a round may close when 50 %",
    ):  # fmt: skip
        assert any(words in line for line in warned), warned
    created = await client.post(draft["path"], json=draft["form"], headers=ADMIN)
    assert created.status_code == 201, created.text
    about = (await client.get(f"/tasks/{created.json()['task']}/overview")).json()
    assert about["promise"] == draft["promise"]
    assert about["name"] == "<b>x</b>"
    answer = await client.get(f"/tasks/{created.json()['task']}/coast")
    assert set(answer.json()) >= {"land", "cities", "step"}
    assert "immutable" not in answer.headers["cache-control"]  # another base map may come
