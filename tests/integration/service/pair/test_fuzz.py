"""Random bytes and mutated messages against the routes of pairs: never a fault, a hang or a stack trace.

3,000 requests in the suite, 100,000 with SEMILOCAL_LONG=1. The seed is fixed; the property is not statistical, so there
are no false alarms.
"""

from __future__ import annotations

import random
from collections import Counter

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal.service.pair.peer import authorization
from semilocal.service.problems import PROBLEMS
from semilocal.service.stores.base import Store
from semilocal.sharing.wire import Finish, LevelSums, numbers_of, pack_numbers
from tests.helpers.long import SEED, times
from tests.helpers.pairs import SIGNING, crowd, report_id, upload_of
from tests.helpers.running_pair import ADMIN, Pair, run_pair
from tests.integration.service.test_fuzz import mutate

INPUTS = times(3_000, long=100_000)
NOW = 1_700_000_000.0
PEOPLE = 30


def check(answer: httpx2.Response, seen: Counter[str]) -> None:
    """A good answer, or a problem with a known token that is no fault of the server."""
    if answer.status_code < 400:
        seen[str(answer.status_code)] += 1
        return
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["token"] in PROBLEMS
    assert answer.status_code == PROBLEMS[problem["token"]][0]
    assert problem["token"] != "unavailable", problem
    seen[problem["token"]] += 1


def test_no_bytes_on_the_routes_of_a_pair_are_a_fault(stores: tuple[Store, Store]) -> None:
    chance, seen = random.Random(11 + SEED), Counter[str]()

    async def body(servers: Pair) -> None:
        pair = await servers.opened()
        await servers.fill(pair, crowd(PEOPLE))
        base = f"/tasks/{pair.id.hex()}"
        servers.wire.block = lambda request: request.url.path.endswith("levels/2/sums")
        await servers.start(pair)
        await servers.tick()
        recorded = dict(servers.wire.sent)
        upload = upload_of(pair, int(pair.pooled.hierarchy.codes(crowd(99))[98]), 98).to_bytes()
        paths = [path for path in recorded if "/peer/" in path]
        answered = [path for path in paths if not path.endswith("levels/2/sums")]
        ahead = [f"{base}/peer/{step}" for step in ("finish", "sign", "levels/3/check")]
        assert len(answered) > 6
        for _ in range(INPUTS):
            kind = chance.randrange(6)
            client = servers.clients[chance.randrange(2)]
            if kind == 0:
                name = chance.choice([report_id(98).hex(), report_id(3).hex(), "0" * 32, "x", "", "0" * 33])
                check(await client.put(f"{base}/uploads/{name}", content=mutate(upload, chance)), seen)
            elif kind == 1:
                check(await client.post("/pairs", content=mutate(b'{"name":"x"}', chance), headers=ADMIN), seen)
            elif kind == 2:  # not signed, or with a signature that is none
                path = chance.choice(paths)
                header = mutate(b"Semilocal-Peer 1:1700000000:00:00", chance).decode("latin-1")
                clean = "".join(letter for letter in header if " " <= letter <= "~")
                answer = await client.post(
                    path, content=mutate(recorded[path], chance), headers={"authorization": clean}
                )
                check(answer, seen)
            elif kind == 3:
                step = chance.choice(["levels/40/check", "levels/-1/sums", "levels/00/sums", "nothing", "levels/1", ""])
                check(await client.post(f"{base}/peer/{step}", content=b""), seen)
            else:  # a malicious leader: well signed, and anything inside; not for the step that is due
                path = chance.choice(answered + ahead)
                data = mutate(recorded[chance.choice(paths)], chance)
                header, _ = authorization(SIGNING[0], "POST", path, data, now=NOW)
                answer = await servers.helper.post(path, content=data, headers={"authorization": header})
                check(answer, seen)
        servers.wire.block = None
        await servers.tick(2)
        state = await servers.state(pair)
        assert (state["phase"], state["accepted"]) == ("done", PEOPLE)

    run_pair(stores, body)
    print(f"{INPUTS} requests to a pair: {dict(seen)}")
    assert {"not-canonical", "malformed", "bad-signature", "other-request", "out-of-order"} <= set(seen), seen


@pytest.mark.parametrize("due", ["close", "levels/0/check", "levels/0/sums", "levels/1/sums", "finish", "sign"])
def test_bytes_for_the_step_that_is_due_get_one_answer_and_harm_no_other_pair(
    stores: tuple[Store, Store], due: str
) -> None:
    """A malicious leader spoils its own pair at most."""
    chance, seen, taken = random.Random(due), Counter[str](), set[bytes]()

    async def body(servers: Pair) -> None:
        spoilt, whole = await servers.opened(), await servers.opened(label="whole")
        for pair in (spoilt, whole):
            await servers.fill(pair, crowd(PEOPLE))
        path = f"/tasks/{spoilt.id.hex()}/peer/{due}"
        servers.wire.block = lambda request: request.url.path == path
        await servers.start(spoilt)
        await servers.tick()
        request = dict(servers.wire.sent)[path]
        for _ in range(INPUTS // 60):
            data = mutate(request, chance)
            if due in ("levels/0/sums", "levels/1/sums", "finish") and chance.random() < 0.2:
                message: LevelSums | Finish = (Finish if due == "finish" else LevelSums).from_bytes(request)
                far = [chance.choice([2**63 - 1, -(2**63), 10**18]) for _ in numbers_of(message.numbers)]
                numbers = pack_numbers(np.array(far, dtype=np.int64))
                data = msgspec.structs.replace(message, numbers=numbers).to_bytes()
            header, _ = authorization(SIGNING[0], "POST", path, data, now=NOW)
            answer = await servers.helper.post(path, content=data, headers={"authorization": header})
            check(answer, seen)
            if answer.status_code == 200:
                taken.add(data)
        servers.wire.block = None
        await servers.finish(whole)

    run_pair(stores, body)
    assert len(taken) <= 1
    assert seen["malformed"] > 0


def test_the_search_would_see_a_fault() -> None:
    bad = httpx2.Response(
        503, json={"token": "unavailable", "detail": "an unexpected fault"},
        headers={"content-type": "application/problem+json"},
    )  # fmt: skip
    with pytest.raises(AssertionError):
        check(bad, Counter())
