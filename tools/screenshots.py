"""Take the pictures of the page that the documentation shows: `make screenshots`. Look at every one of them.

A real server, real agents and the system's Chromium; the positions are the public sample's.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semilocal.cli.admin import AdminClient
from semilocal.datasets import california_housing
from semilocal.device.swarm import run_swarm
from semilocal.geometry.places import named_box
from semilocal.page.single import write_html
from semilocal.protocol.policy import Policy
from semilocal.protocol.task import Task
from semilocal.release import counts
from semilocal.service.campaign import CampaignForm, ReleaseForm
from semilocal.simulation.simulate import simulate
from semilocal.testing import ADMIN_TOKEN, Server, running_server
from tests.helpers.browser import DESKTOP, PHONE, apart, chromium, looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
AGENTS = 1000
BAYS = {"San Francisco Bay": (0.36, 0.28, 0.46, 0.52), "Los Angeles": (0.51, 0.74, 0.58, 0.88)}  # shares of the map


def create(server: Server, label: str = "") -> str:
    """A campaign that anybody may join."""
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(
            named_box("california"), epsilon=3.0, delta=1e-3, k=15, window=900, server_key=client.key(), label=label
        )
        wanted = (ReleaseForm("mean", "coordinate", (1.0,), 1.0), ReleaseForm("counts"))
        return client.create(CampaignForm("Where people are in California", task, wanted, "open", AGENTS))


def take_part(url: str) -> None:
    """Real agents at positions of the sample."""
    points = np.random.default_rng(1).permutation(california_housing()[0])[:AGENTS]
    policy = Policy(max_epsilon=100.0, min_k=1, max_delta=1.0)
    asyncio.run(run_swarm(url, points, policy=policy, show=False))


def campaign(browser: Browser, server: Server) -> None:
    """One campaign: while it runs, with questions, and on a phone."""
    task = apart(create, server).result()
    address = f"{server.url}/#/campaign/{task}"
    with looking(browser, address) as look:
        look.page.locator(".phase.enrolling").wait_for()
        agents = apart(take_part, f"{server.url}/tasks/{task}")
        look.page.locator(".slider output", has_text="6").wait_for()
        look.page.screenshot(path=FOLDER / "page-live.png")
        agents.result()
    with looking(browser, address, scheme="dark") as look:
        page = look.page
        page.locator(".results strong").wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        box = page.locator(".map").bounding_box()
        assert box is not None
        for number, (left, top, right, bottom) in enumerate(BAYS.values(), start=1):
            page.mouse.move(box["x"] + left * box["width"], box["y"] + top * box["height"])
            page.mouse.down()
            page.mouse.move(box["x"] + right * box["width"], box["y"] + bottom * box["height"], steps=3)
            page.mouse.up()
            page.locator(f".answers tbody tr:nth-child({number})").wait_for()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.8 * box["height"])
        page.screenshot(path=FOLDER / "page-ask.png")
    with looking(browser, address, size=PHONE) as look:
        look.page.locator(".results strong").wait_for()
        look.page.screenshot(path=FOLDER / "page-phone.png")


def joining(browser: Browser, server: Server) -> None:
    """A participant before taking part, with a position that was taken by keys."""
    task = apart(create, server, "Take part").result()
    with looking(browser, f"{server.url}/join/{task}") as look:
        page = look.page
        page.get_by_role("heading", name="4. Take part").wait_for()
        page.keyboard.press("Tab")
        page.locator(".map canvas").last.focus()
        for key in ("+", "+", "ArrowLeft", "ArrowLeft", "ArrowUp", "Enter"):
            page.keyboard.press(key)
        page.wait_for_timeout(300)
        page.screenshot(path=FOLDER / "page-join.png")


def single_file(browser: Browser, folder: Path) -> None:
    """The map of a command in a file."""
    points = california_housing()[0]
    run = simulate(
        points, Task.build(named_box("california"), epsilon=2.0, delta=1e-4, k=25), rng=np.random.default_rng(1)
    )
    path = folder / "map.html"
    write_html(
        path, run, counts(run).guarantee, title="California Housing", numbers={"participants": f"{len(points):,}"}
    )
    with looking(browser, path.as_uri(), size=DESKTOP) as look:
        look.page.locator(".map").wait_for()
        look.page.wait_for_timeout(300)
        look.page.mouse.move(505, 500)
        look.page.wait_for_timeout(100)
        look.page.screenshot(path=FOLDER / "page-file.png")


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        single_file(browser, Path(folder))
        with running_server(f"sqlite:///{Path(folder) / 'page.db'}") as server:
            campaign(browser, server)
            joining(browser, server)
    print(*sorted(FOLDER.glob("page-*.png")), sep="\n")


if __name__ == "__main__":
    main()
