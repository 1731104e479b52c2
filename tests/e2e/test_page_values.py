"""A browser takes part with a value of its owner's own, beside the package's devices: with one server, and with two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal.cli.admin import AdminClient
from semilocal.device.swarm import run_swarm
from semilocal.geometry.box import Box
from semilocal.pooled import PooledTask
from semilocal.protocol.task import Task
from semilocal.service.campaign import CampaignForm, ReleaseForm
from semilocal.testing import ADMIN_TOKEN, ALLOW_ALL, Server, running_server, unit_box
from tests.e2e.test_two_servers import servers, wait_for  # noqa: F401
from tests.helpers.browser import apart, looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
AGENTS = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(f"sqlite:///{tmp_path_factory.mktemp('values') / 'page.db'}") as running:
        yield running


def create(server: Server) -> str:
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        box = Box((0.0, 0.0), (1.0, 1.0), names=("a", "b"))
        task = Task.build(box, epsilon=4.0, delta=0.4, k=1, max_rounds=5, server_key=client.key())
        fare = ReleaseForm("mean", "own:fare", (0.0, 80.0), 2.0)
        return client.create(CampaignForm("fares", task, (fare,), "open", AGENTS + 1))


def others(server: Server, task: str) -> None:
    rng = np.random.default_rng(1)
    points, fares = rng.random((AGENTS, 2)), rng.uniform(0, 80, AGENTS)
    swarm = run_swarm(f"{server.url}/tasks/{task}", points, policy=ALLOW_ALL, show=False, values=fares)
    assert not asyncio.run(swarm).failures


def open_pair(leader: str, helper: str, epsilon: float, more: dict[str, Any]) -> str:
    """A task of two servers that takes uploads; more fields of its form."""
    pooled = PooledTask.build(unit_box(), epsilon=epsilon, trust="two-servers", max_depth=8)
    key = httpx2.get(f"{helper}/operator").json()["signing_key"]
    form = {"name": "crowd", "pooled": msgspec.to_builtins(pooled), "enrolment": "open", "peer_key": key, **more}
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    task = str(httpx2.post(f"{leader}/pairs", json=form, headers=headers).raise_for_status().json()["task"])
    wait_for(helper, task, "confirming")
    for url in (leader, helper):
        assert httpx2.post(f"{url}/tasks/{task}/confirm", headers=headers).status_code == 200
    wait_for(leader, task, "open")
    wait_for(helper, task, "open")
    return task


def test_a_browser_gives_a_value_through_noise(browser: Browser, server: Server) -> None:
    task = apart(create, server).result()
    with looking(browser, f"{server.url}/join/{task}") as look:
        page = look.page
        page.get_by_role("heading", name="Your value").wait_for()
        known = page.locator(".promise").inner_text()
        assert "any two places of one's region, with any two values of fare from 0 to 80" in known
        for label, text in (
            ("a", "0.3"), ("b", "0.4"), ("Largest loss of all", "100"), ("Smallest crowd", "1"),
            ("Largest chance", "0.5"), ("fare from 0 to 80", "80.5"),
        ):  # fmt: skip
            page.get_by_label(label, exact=len(label) == 1).fill(text)
        page.get_by_label("I have read").check()
        assert page.locator("button.start").is_disabled()
        page.get_by_text("Give your value, fare from 0 to 80.").wait_for()
        page.get_by_label("fare from 0 to 80").fill("12.5")
        assert look.violations() == []
        page.locator("button.start").click()
        page.get_by_text("Enrolled; waiting for the first round.").wait_for()
        page.reload()  # the device goes on with the value that the browser kept
        page.get_by_text("it goes on with the same position").wait_for()
        rest = apart(others, server, task)
        page.locator(".end").wait_for(timeout=120_000)
        assert "Given through noise: mean of fare" in page.locator(".end").inner_text()
        rest.result()
    (found,) = httpx2.get(f"{server.url}/tasks/{task}/results").json()["releases"]
    assert (found["function"], found["responders"]) == ("fare", AGENTS + 1)


def upload(url: str, values: list[float]) -> int:
    places = np.empty((len(values), 0))  # the task needs none
    return asyncio.run(run_swarm(url, places, policy=ALLOW_ALL, show=False, values=values)).uploaded


def test_a_browser_gives_a_value_in_two_shares_and_no_place(
    browser: Browser,
    servers: tuple[Server, Server],  # noqa: F811
) -> None:
    """Nine standard errors of two servers' noise: 2e-7. A value that got lost on the way would be forty away."""
    leader, helper = (server.url for server in servers)
    asked = {"value": {"name": "fare", "low": 0.0, "high": 80.0}, "capacity": AGENTS + 1}
    task = apart(open_pair, leader, helper, 80.0, asked).result()
    with looking(browser, f"{leader}/join/{task}", second=helper) as look:
        page = look.page
        page.get_by_role("heading", name="Your value").wait_for()
        assert page.get_by_role("heading", name="Where you are").count() == 0
        known = page.locator(".promise").inner_text()
        assert "If both operators collude they have everybody's value (fare, to its grid)." in known
        assert "No place is sent" in known
        assert "What it costs you: epsilon = 80 (delta = 0)" in known
        page.get_by_label("fare from 0 to 80").fill("78.5")
        page.get_by_label("Largest loss of all").fill("100")
        page.get_by_label("I have read").check()
        page.locator("button.start").click()
        page.locator(".end").wait_for()
        assert "Receipt of City, signed" in page.locator(".end").inner_text()
        page.reload()  # once is enough
        page.locator(".end").wait_for()
        fares = np.random.default_rng(2).uniform(0, 20, AGENTS).tolist()
        assert apart(upload, f"{leader}/tasks/{task}", fares).result() == AGENTS
        apart(wait_for, leader, task, "done").result()
        found = apart(httpx2.get, f"{leader}/tasks/{task}/results").result().json()
    assert found["reports"] == AGENTS + 1
    error, alarm = abs(found["value"]["mean"] - np.mean([*fares, 78.5])), 9 * found["value"]["stderr"]
    assert error < alarm < 78.5 / AGENTS / 4
