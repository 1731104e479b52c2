"""Damaged rows of one pair: it says that it cannot go on, and the other pair comes to its end."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from semilocal.service.stores.base import Store
from semilocal.sharing.pair import PairTask
from tests.helpers.pairs import crowd
from tests.helpers.running_pair import ADMIN, Pair, opened, run_pair

PEOPLE = 30


OF_PAIR = "WHERE pair = (SELECT id FROM pairs WHERE task = ?)"
FIRST = f"{OF_PAIR} AND report = (SELECT min(report) FROM pair_uploads {OF_PAIR})"
DAMAGE = {
    "its body": "UPDATE pairs SET body = x'c1' WHERE task = ?",
    "its seed": "UPDATE pairs SET seed = x'00' WHERE task = ?",
    "its seed is gone": "UPDATE pairs SET seed = NULL WHERE task = ?",
    "its phase": "UPDATE pairs SET phase = 'nowhere' WHERE task = ?",
    "its role": "UPDATE pairs SET role = 'nobody' WHERE task = ?",
    "a public part": f"UPDATE pair_uploads SET public = x'00' {FIRST}",
    "a private part": f"UPDATE pair_uploads SET private = x'00' {FIRST}",
    "a report's name": f"UPDATE pair_uploads SET report = x'00' {FIRST}",
    "a report's bucket": f"UPDATE pair_uploads SET bucket = 7 {FIRST}",
    "a report is gone": f"DELETE FROM pair_uploads {FIRST}",
    "its closed set": f"UPDATE pair_steps SET request = x'c1' {OF_PAIR} AND step = 'close'",
    "its closed set is gone": f"DELETE FROM pair_steps {OF_PAIR} AND step = 'close'",
    "a step's request": f"UPDATE pair_steps SET request = x'c1' {OF_PAIR} AND step = 'levels/0/check'",
    "a step's answer": f"UPDATE pair_steps SET answer = x'c1' {OF_PAIR} AND step = 'levels/0/check'",
}


def damage(store: Store, pair: PairTask, sql: str) -> None:
    """Change rows behind the server's back."""
    connection = sqlite3.connect(store.url.removeprefix("sqlite:///"))
    with connection:
        changed = connection.execute(sql, (pair.id,) * sql.count("?")).rowcount
    connection.close()
    assert changed >= 1


@pytest.fixture(scope="module", name="half")
def _half(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[PairTask]]:
    """The databases of both servers with two pairs, the first of them half counted."""
    folder, pairs = tmp_path_factory.mktemp("half"), list[PairTask]()

    async def count_half(servers: Pair) -> None:
        pairs.extend([await servers.opened(), await servers.opened(label="whole")])
        for pair in pairs:
            await servers.fill(pair, crowd(PEOPLE))
        servers.wire.block = lambda request: "levels/1" in request.url.path
        await servers.start(pairs[0])
        await servers.tick()

    with opened(folder) as stores:
        run_pair(stores, count_half)
    return folder, pairs


@pytest.mark.parametrize("side", [0, 1], ids=["leader", "helper"])
@pytest.mark.parametrize("name", DAMAGE)
def test_one_damaged_pair_does_not_stop_the_other(
    half: tuple[Path, list[PairTask]], tmp_path: Path, name: str, side: int
) -> None:
    folder, (broken, whole) = half

    async def body(servers: Pair) -> None:
        assert (await servers.start(whole)).status_code == 200
        await servers.tick(2)
        assert (await servers.state(whole))["phase"] == "done"
        answer = await servers.clients[side].get(f"/tasks/{broken.id.hex()}/state")
        assert answer.status_code == 503 or answer.json()["fault"] or "refuses" in answer.json()["waits_for"]
        (row,) = [row for row in (await servers.clients[side].get("/tasks")).json() if row["task"] == broken.id.hex()]
        assert row["fault"], "it is listed as a pair that cannot go on"
        page = (await servers.clients[side].get("/metrics", headers=ADMIN)).text
        assert "\nsemilocal_campaigns_at_fault 1.0\n" in page

    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with opened(tmp_path) as stores:
        damage(stores[side], broken, DAMAGE[name])
        run_pair(stores, body)
