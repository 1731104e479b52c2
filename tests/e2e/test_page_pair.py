"""A task of two servers in a real browser: each operator confirms on their own page, devices upload, one map."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import numpy as np
import pytest

from semilocal.datasets import california_housing
from semilocal.device.swarm import run_swarm
from semilocal.protocol.policy import Policy
from semilocal.sharing.sealing import verifying_key
from semilocal.testing import ADMIN_TOKEN
from tests.e2e.test_page_join import give_position
from tests.helpers.browser import Look, apart, chromium, colours_of, looking
from tests.helpers.forked import ForkedServer

AGENTS = 300
BROWSERS = 3
DOT = """() => {
  const canvas = document.querySelector(".map canvas:last-child");
  return canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data[3] > 0;
}"""  # whether something is drawn in the middle of the map, where the third browser was clicked
NAMES = ("City <b>Council</b>", "State University")


@contextmanager
def running(folder: Path, role: str, name: str, *options: str, key: bytes | None = None) -> Iterator[str]:
    server = ForkedServer(
        f"sqlite:///{folder / role}.db", signing_key=key or secrets.token_bytes(32),
        options=("--role", role, "--operator", name, "--processes", "1", *options),
    )  # fmt: skip
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


def create(look: Look, key: str) -> str:
    """Create the task as the leader's operator does, with the key of the helper; the task."""
    page = look.page
    page.locator('input[name="token"]').fill(ADMIN_TOKEN)
    page.keyboard.press("Enter")
    page.locator('select[name="trust"]').select_option("two-servers")
    page.locator('select[name="enrolment"]').select_option("open")
    page.locator("summary", has_text="More").click()
    numbers = {"epsilon": "8", "resolution": "10", "capacity": f"{AGENTS + BROWSERS}"}
    for name, text in {"name": "two servers", "peer_key": "unknown", **numbers}.items():
        page.locator(f'input[name="{name}"]').fill(text)
    page.get_by_role("button", name="Show the promise").click()
    page.locator('label:has(input[name="peer_key"]) .error').wait_for()
    look.errors.clear()  # the browser itself notes that the server refused
    page.locator('input[name="peer_key"]').fill(key)
    page.get_by_role("button", name="Show the promise").click()
    page.locator(".promise").wait_for()
    assert "trusts cryptography, and two operators not to collude" in page.locator(".promise").inner_text()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Create the campaign").click()
    page.locator(".phase.confirming").wait_for()
    return page.url.rsplit("/", 1)[1]


def upload(url: str) -> int:
    points = np.random.default_rng(1).permutation(california_housing()[0])[:AGENTS]
    return asyncio.run(run_swarm(url, points, policy=Policy(max_epsilon=8.0))).uploaded


def confirm(look: Look, *, token: str = "") -> None:
    """Confirm as an operator does, with the token of the own server if the page does not have it yet."""
    page = look.page
    page.locator(".phase.confirming").wait_for()
    if token:
        page.locator("text=Start, close, make tokens").click()
        page.locator('input[name="token"]').fill(token)
        page.keyboard.press("Enter")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Confirm").click()


def take_part(look: Look, number: int) -> None:
    """Upload from a browser."""
    page = look.page
    page.get_by_role("heading", name="4. Take part").wait_for()
    assert "It leaves in two shares only" in page.locator("section[aria-labelledby=where]").inner_text()
    give_position(look, number)
    if number == 2:
        look.until(DOT)
    page.get_by_label("I have read").check()
    page.locator("button.start").click()
    page.locator(".end").wait_for()
    assert f"Receipt of {NAMES[0]}, signed" in page.locator(".end").inner_text()


@pytest.mark.slow
def test_both_operators_confirm_and_watch_while_browsers_and_agents_upload_for_one_map(tmp_path: Path) -> None:
    with ExitStack() as stack:
        browser = stack.enter_context(chromium())
        key = secrets.token_bytes(32)
        known = ("--peer-key", verifying_key(key).hex())
        helper = stack.enter_context(running(tmp_path, "helper", NAMES[1], *known))
        leader = stack.enter_context(running(tmp_path, "leader", NAMES[0], "--peer", helper, key=key))
        first = stack.enter_context(looking(browser, f"{leader}/#/new"))
        task = create(first, httpx2.get(f"{helper}/operator").json()["signing_key"])
        confirm(first)
        assert httpx2.get(f"{helper}/tasks").json() == []  # not before this operator has confirmed it
        second = stack.enter_context(looking(browser, first.page.url.replace(leader, helper)))
        confirm(second, token=ADMIN_TOKEN)
        page = first.page
        page.locator(".phase.open").wait_for()
        shown = page.locator(".operators").inner_text()
        assert all(name in shown for name in NAMES)
        assert page.locator(".operators b").count() == 0
        assert first.violations() == []
        address = f"{leader}/join/{task}"
        devices = [stack.enter_context(looking(browser, address, second=helper)) for _ in range(BROWSERS)]
        for number, device in enumerate(devices):
            take_part(device, number)
        assert apart(upload, f"{leader}/tasks/{task}").result() == AGENTS
        for look in (first, second):
            look.page.locator(".title .phase.done").wait_for()
            look.page.locator(".results").wait_for()
            assert colours_of(look) > 3
            under = look.page.locator(".under").inner_text()
            assert "round" not in under
        counts = httpx2.post(f"{leader}/tasks/{task}/counts", json={"boxes": [[[-124.5, 32.5], [-114.1, 42.1]]]}).json()
        assert page.locator(".promise .formula").first.inner_text() == counts["privacy"]["sentence"]
        page.locator('.ask input[name="name"]').fill("everywhere")
        page.get_by_role("button", name="Count").click()
        page.locator(".answers tbody tr").wait_for()
        assert f"{AGENTS + BROWSERS}" in page.locator(".answers tbody tr").inner_text()
        assert first.violations() == []
