"""A task of two servers on the page: both operators, where it stands, the map at the end, and counts from it."""

from __future__ import annotations

from typing import Any

from semilocal.page.routes import OPERATIONS, pair_document
from semilocal.release.pair import pair_counts
from semilocal.service.app import App
from semilocal.service.keys import admin_hash
from semilocal.testing import ADMIN_TOKEN, client_of
from tests.helpers.pairs import crowd
from tests.helpers.running_pair import ADMIN, Pair


async def test_the_leaders_form_makes_a_pair_with_the_promise_that_was_shown(servers: Pair) -> None:
    key = (await servers.helper.get("/operator")).json()["signing_key"]
    asked: dict[str, Any] = {
        "name": "crowd", "bounds": "0,0,1,1", "trust": "two-servers", "epsilon": 2.0, "resolution": 0.02,
        "peer_key": key,
    }  # fmt: skip
    async with client_of(with_page(servers)) as client:
        for changes, field in (
            ({"own": "fare", "own_low": 80, "own_high": 0}, "own_low"),
            ({"peer_key": "?"}, "peer_key"), ({"resolution": 9}, "resolution"),
            ({"epsilon": 0}, "epsilon"), ({"capacity": 0}, "capacity"),
        ):  # fmt: skip
            refused = (await client.post("/drafts", json=asked | changes, headers=ADMIN)).json()
            assert refused["field"] == field, refused
        draft = (await client.post("/drafts", json=asked, headers=ADMIN)).json()
        assert (draft["path"], draft["promise"]["adjacency"]) == ("/pairs", "anywhere")
        created = await client.post(draft["path"], json=draft["form"], headers=ADMIN)
        assert created.status_code == 201, created.text
        about = (await client.get(f"/tasks/{created.json()['task']}/overview")).json()
        assert about["promise"] == draft["promise"]


def with_page(pair: Pair) -> App:
    """The leader with the routes of the page."""
    return App(pair.services[0], admin=admin_hash(ADMIN_TOKEN), more=OPERATIONS)


async def test_two_servers_show_both_operators_then_one_map_and_answer_questions(servers: Pair) -> None:
    task = await servers.opened()
    base = f"/tasks/{task.id.hex()}"
    async with client_of(with_page(servers)) as client:
        about = (await client.get(f"{base}/overview")).json()
        assert [one["name"] for one in about["operators"]] == [task.leader.name, task.helper.name]
        assert (about["trust"], about["role"]) == ("two-servers", "leader")
        assert "collude" in " ".join(about["notes"])
        assert about["promise"]["text"] in task.promise().explain()
        early = await client.get(f"{base}/rounds/1/cells")
        assert (early.status_code, early.json()["token"]) == (404, "not-closed-yet")
        asked: dict[str, Any] = {"boxes": [[[0, 0], [0.5, 0.5]], [[0, 0], [1, 1]]]}
        assert (await client.post(f"{base}/counts", json=asked)).json()["token"] == "not-closed-yet"
        await servers.fill(task, crowd(60))
        counts = pair_counts((await servers.finish(task)).to_bytes())
        shown = (await client.get(f"{base}/rounds/1/cells")).json()
        assert shown["received"] == 60
        assert shown["rows"] == pair_document(counts)["rows"]
        assert (await client.get(f"{base}/rounds/2/cells")).json()["token"] == "no-such-round"
        assert (await client.get(f"{base}/coast")).json()["land"] == []
        answer = (await client.post(f"{base}/counts", json=asked)).json()
        expected = counts.query(asked["boxes"])
        assert [one["value"] for one in answer["counts"]] == expected.value.tolist()
        assert [one["interval"] for one in answer["counts"]] == expected.interval(0.95).tolist()
        assert answer["privacy"]["text"] == counts.guarantee.explain()
        one = (await client.get(f"{base}/counts?box=0,0,1,1")).json()["counts"][0]
        assert round(one["value"], 9) == 60
        none = await client.post(f"{base}/counts", json={"boxes": []})
        assert (none.status_code, none.json()["token"]) == (400, "malformed")
