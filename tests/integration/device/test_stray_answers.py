"""What a proxy, a captive portal or another server answers is no answer of ours: devices try again and lose nothing."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable

import httpx2
import pytest

from semilocal.device.channel import LONGEST_WAIT, Retry
from semilocal.errors import Unreachable
from tests.helpers import HANG
from tests.helpers.fake_server import MEAN, SMALL, FakeServer, World, crowd, run_agents

HTML = {"content-type": "text/html; charset=utf-8"}
PAGE = b"<html><body>Please log in to the network of the hotel</body></html>"
PROBLEM = {"content-type": "application/problem+json"}


def problem(status: int, **fields: object) -> httpx2.Response:
    return httpx2.Response(status, headers=PROBLEM, content=json.dumps({"status": status, **fields}).encode())


STRAYS: dict[str, Callable[[], httpx2.Response]] = {
    "404 of a proxy": lambda: httpx2.Response(404, headers=HTML, content=PAGE),
    "404 without a body": lambda: httpx2.Response(404),
    "403 of a firewall": lambda: httpx2.Response(403, headers=HTML, content=PAGE),
    "401 of a proxy": lambda: httpx2.Response(401, headers={"www-authenticate": "Basic"}),
    "302 to a portal": lambda: httpx2.Response(302, headers={"location": "http://portal.example/"}),
    "308": lambda: httpx2.Response(308, headers={"location": "https://server/"}),
    "304 nobody asked for": lambda: httpx2.Response(304),
    "407": lambda: httpx2.Response(407),
    "409 of another service": lambda: httpx2.Response(409, json={"token": "other-answer", "detail": "x"}),
    "410 of a proxy": lambda: httpx2.Response(410, headers=HTML, content=PAGE),
    "410 in our words without our media type": lambda: httpx2.Response(410, json={"token": "missed-round"}),
    "410 with our media type and no type of ours": lambda: problem(410, token="missed-round", type="about:blank"),
    "410 whose status is another": lambda: httpx2.Response(
        410, headers=PROBLEM,
        content=b'{"type": "urn:semilocal:problem:missed-round", "token": "missed-round", "status": 404}',
    ),
    "418 with deep JSON": lambda: httpx2.Response(418, headers=PROBLEM, content=b"[" * 100_000),
    "413 of a proxy": lambda: httpx2.Response(413, headers=HTML, content=PAGE),
    "500": lambda: httpx2.Response(500, headers=HTML, content=PAGE),
    "502": lambda: httpx2.Response(502, headers=HTML, content=PAGE),
    "a page with 200": lambda: httpx2.Response(200, headers=HTML, content=PAGE),
    "201 of a portal": lambda: httpx2.Response(201, headers=HTML, content=PAGE),
    "201 without a body": lambda: httpx2.Response(201),
    "201 with some JSON": lambda: httpx2.Response(201, json={"ok": True}),
    "201 for another report": lambda: httpx2.Response(201, json={"digest": hashlib.sha256(b"other").hexdigest()}),
    "200 with a list": lambda: httpx2.Response(200, json=[1, 2, 3]),
    "204": lambda: httpx2.Response(204),
}  # fmt: skip


@pytest.mark.parametrize("name", STRAYS)
def test_stray_answers_to_any_request_change_nothing(name: str) -> None:
    """Every third request of every kind is answered by something between the device and the server."""
    points = crowd(6)
    quiet = World(FakeServer(SMALL, releases=(MEAN,), capacity=6))
    expected = asyncio.run(run_agents(quiet, points))
    assert {summary.outcome for summary in expected} == {"finished"}

    world = World(FakeServer(SMALL, releases=(MEAN,), capacity=6))
    seen: dict[str, int] = {}

    def fate(number: int, request: httpx2.Request) -> object:
        kind = f"{request.method} {request.url.path.split('/')[-1]}"
        if "/reports/" in request.url.path or "/participants/" in request.url.path:
            kind = f"{request.method} {request.url.path.split('/')[-2]}"
        seen[kind] = seen.get(kind, 0) + 1
        return STRAYS[name]() if seen[kind] % 3 == 1 else ""

    world.network.fate = fate
    summaries = asyncio.run(run_agents(world, points))
    assert [summary.outcome for summary in summaries] == ["finished"] * 6
    assert world.server.root() == quiet.server.root()
    assert all(len(bodies) == 1 for bodies in world.network.puts().values())
    assert {"PUT participants", "PUT reports", "GET query", "GET closed", "GET state", "GET checkpoint"} <= set(seen)


@pytest.mark.parametrize("name", STRAYS)
def test_a_portal_that_never_ends_costs_patience_and_no_budget(name: str) -> None:
    world = World(FakeServer(SMALL, capacity=1), retry=Retry(patience=600.0))
    vault = world.vault("device")

    async def main() -> None:
        with pytest.raises(Unreachable):
            await world.agent(vault, (0.4, 0.4)).run()
        assert not vault.contents.memberships
        world.network.fate = lambda number, request: ""
        assert (await world.agent(vault, (0.4, 0.4)).run()).outcome == "finished"

    world.network.fate = lambda number, request: STRAYS[name]()
    asyncio.run(asyncio.wait_for(main(), HANG))
    vault.close()


@pytest.mark.parametrize("wait", ["999999999", "1000000000000000", "-5", "soon", "Wed, 21 Oct 2065 07:28:00 GMT"])
def test_no_answer_makes_a_device_wait_for_years(wait: str) -> None:
    world = World(FakeServer(SMALL, capacity=1))
    vault = world.vault("device")
    world.network.fate = lambda number, request: (503, wait) if number % 2 else ""
    assert asyncio.run(world.agent(vault, (0.4, 0.4)).run()).outcome == "finished"
    assert max(world.clock.slept) <= 1.5 * LONGEST_WAIT
    vault.close()


@pytest.mark.parametrize("poll_after", [1e15, 0, -3.0, 0.0001])
def test_poll_after_is_bounded_both_ways(poll_after: float) -> None:
    server = FakeServer(SMALL, capacity=2)
    state = server.state
    server.state = lambda: {**state(), "poll_after": poll_after}  # type: ignore[method-assign]
    world = World(server)
    vault = world.vault("device")

    async def main() -> None:
        running = asyncio.create_task(world.agent(vault, (0.4, 0.4)).run())
        while len(world.clock.slept) < 50 and not running.done():
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), HANG))
    assert min(world.clock.slept) >= 0.1
    assert max(world.clock.slept) <= 1.5 * LONGEST_WAIT
    vault.close()


def test_a_refusal_that_nobody_knows_ends_the_device_instead_of_a_loop() -> None:
    world = World(FakeServer(SMALL, capacity=1))
    vault = world.vault("device")

    def fate(number: int, request: httpx2.Request) -> object:
        if "/reports/" in request.url.path:
            return problem(410, type="urn:semilocal:problem:too-hot", token="too-hot", detail="x")
        return ""

    world.network.fate = fate
    summary = asyncio.run(asyncio.wait_for(world.agent(vault, (0.4, 0.4)).run(), HANG))
    assert (summary.outcome, summary.token) == ("refused", "too-hot")
    assert len(world.network.sent) < 20
    vault.close()
