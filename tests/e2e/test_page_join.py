"""Taking part in a real browser, against a real server, beside the package's devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from semilocal.cli.admin import AdminClient
from semilocal.device.download import save_transcript
from semilocal.geometry.places import named_box
from semilocal.hierarchy.tables import from_labels
from semilocal.protocol.task import Task
from semilocal.service.campaign import CampaignForm, ReleaseForm
from semilocal.testing import ADMIN_TOKEN, Server, running_server
from semilocal.transcript.verify import verify_file
from tests.e2e.test_page import press_until, take_part
from tests.e2e.test_two_servers import servers  # noqa: F401
from tests.helpers.browser import DESKTOP, PHONE, Look, apart, colours_of, looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
AGENTS = 300
CROSS = """() => getComputedStyle(document.querySelector(".map"), "::after").content !== "none" """  # on the map
PLACES = ((-122.2, 37.8), (-118.3, 34.1), (-121.5, 38.6))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(f"sqlite:///{tmp_path_factory.mktemp('join') / 'page.db'}") as running:
        yield running


def create(server: Server, capacity: int, delta: float) -> str:
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(named_box("california"), epsilon=4.0, delta=delta, k=5, window=600, server_key=client.key())
        return client.create(
            CampaignForm("a walk", task, (ReleaseForm("mean", "coordinate", (1.0,), 1.0),), "open", capacity)
        )


def allow(page: Any) -> None:
    """Limits that a small campaign needs."""
    page.get_by_label("Largest loss of all").fill("100")
    page.get_by_label("Smallest crowd").fill("5")
    page.get_by_label("Largest chance").fill("0.05")
    page.get_by_label("I have read").check()


def give_position(look: Look, number: int) -> None:
    """Typed, from the browser, or clicked."""
    page, (longitude, latitude) = look.page, PLACES[number]
    if number == 0:
        page.get_by_label("longitude").fill(str(longitude))
        page.get_by_label("latitude").fill(str(latitude))
    elif number == 1:
        page.context.grant_permissions(["geolocation"])
        page.context.set_geolocation({"longitude": longitude, "latitude": latitude})
        page.get_by_role("button", name="Ask my browser").click()
    else:
        page.locator(".map canvas").last.click()
    look.until("!document.querySelector('.start + .quiet').textContent.includes('position')")


def test_three_browsers_take_part_with_300_others_while_the_operator_watches(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    task = apart(create, server, AGENTS + 3, 1e-2).result()
    with ExitStack() as stack:
        operator = stack.enter_context(looking(browser, f"{server.url}/#/campaign/{task}"))
        operator.page.locator(".phase.enrolling").wait_for()
        looks = [stack.enter_context(looking(browser, f"{server.url}/join/{task}")) for _ in range(3)]
        for number, look in enumerate(looks):
            page = look.page
            page.get_by_role("heading", name="1. Where you are").wait_for()
            known = page.locator(".promise").inner_text()
            assert "Everybody learns, under your pseudonym, which region you are in." in known
            assert "Known to this server alone: that a device at your network address takes part." in known
            assert "epsilon = 5 (delta = 0) between any two places of one's region" in known
            assert page.locator("button.start").is_disabled()
            assert "the owner wants 20" in page.locator(".facts").inner_text()
            give_position(look, number)
            allow(page)
            if number == 0:
                assert look.violations() == []
                look.check()
            page.locator("button.start").click()
            page.get_by_text("Enrolled; waiting for the first round.").wait_for()
        looks[2].page.reload()  # the device goes on with what the browser kept
        looks[2].page.get_by_text("it goes on with the same position").wait_for()
        rest = apart(take_part, server, task, AGENTS)
        seen: set[str] = set()
        while operator.page.locator(".title .phase.finished").count() == 0:
            assert not (rest.done() and rest.exception()), rest.exception()
            seen.add(operator.page.locator(".slider output").inner_text())
            operator.page.wait_for_timeout(50)
        assert len(seen) >= 2, "the operator's map never moved while the campaign ran"
        operator.page.locator(".results strong").wait_for()
        assert f"{AGENTS + 3}" in operator.page.locator(".status dd").first.inner_text()
        assert colours_of(operator) > 3
        for look in looks:
            look.page.locator(".end").wait_for(timeout=120_000)
            told = look.page.locator(".end").inner_text()
            assert "You have a region." in told
            spent = re.search(r"What you spent: epsilon = (\d) \(delta = 0\)", told)
            assert spent is not None
            assert int(spent[1]) in (1, 3, 5), "the value, and answers of epsilon 2 inside the region"
            assert "Everybody learns, under your pseudonym, which region you are in." in told
            assert ("you answered about here" in told) == (spent[1] != "1")
            assert "The transcript's root is" in told
            assert "waiting for the first round" not in look.page.locator("main").inner_text()
        rest.result()
        roots = {look.page.locator(".end").inner_text().split("root is ")[1][:64] for look in looks}
        assert len(roots) == 1
    apart(save_transcript, server.url, task, tmp_path / "t.slt").result()
    found = verify_file(tmp_path / "t.slt")
    assert found.sound, found.lines()
    assert found.participants == AGENTS + 3


def test_taking_part_by_keyboard_alone(browser: Browser, server: Server) -> None:
    task = apart(create, server, 5, 4e-2).result()
    with looking(browser, f"{server.url}/join/{task}") as look:
        page, keys = look.page, look.page.keyboard
        page.get_by_role("heading", name="4. Take part").wait_for()
        press_until(look, "Tab", "canvas")
        for key in ("+", "+", "ArrowLeft", "ArrowDown", "ArrowDown"):
            keys.press(key)
        look.until(CROSS)
        keys.press("Enter")
        page.locator("[role=status]", has_text="Your position:").wait_for()
        longitude, latitude = (float(page.get_by_label(name).input_value()) for name in ("longitude", "latitude"))
        assert -124.5 < longitude < -119.3  # left of the middle of California
        assert 32.5 < latitude < 37.3  # and below
        for number, text in ((1, "100"), (2, "5"), (3, "0.05")):
            press_until(look, "Tab", f"section[aria-labelledby=limits] label:nth-child({number}) input")
            keys.press("Control+A")
            keys.type(text)
        press_until(look, "Tab", "input[type=checkbox]")
        keys.press("Space")
        press_until(look, "Tab", "button.start")
        keys.press("Enter")
        page.get_by_text("Enrolled; waiting for the first round.").wait_for()


def create_labels(server: Server) -> str:
    tree = from_labels("district", [("Berlin", "Mitte"), ("Berlin", "Pankow"), ("Bonn", "Beuel")])
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(hierarchy=tree, epsilon=1.0, delta=1e-3, k=20, server_key=client.key())
        return client.create(CampaignForm("districts", task, (), "open", 20))


def test_a_campaign_that_a_browser_does_not_play_is_refused_in_one_sentence(browser: Browser, server: Server) -> None:
    task = apart(create_labels, server).result()
    with looking(browser, f"{server.url}/join/{task}") as look:
        refusal = look.page.locator("main .error")
        refusal.wait_for()
        assert "a browser does not take part in a campaign whose places are those of a table" in refusal.inner_text()
        assert look.page.locator("button.start").count() == 0
        assert look.violations() == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_looks_right(browser: Browser, server: Server, size: tuple[int, int], scheme: Any) -> None:
    task = apart(create, server, 5, 2e-2 + size[0] / 1e6 + (1e-3 if scheme == "dark" else 0)).result()
    with looking(browser, f"{server.url}/join/{task}", size=size, scheme=scheme) as look:
        look.page.get_by_role("heading", name="4. Take part").wait_for()
        give_position(look, 0)
        assert look.violations() == []


def test_an_address_without_https_says_what_to_do(browser: Browser, server: Server) -> None:
    task = apart(create, server, 5, 3e-2).result()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.add_init_script("Object.defineProperty(window, 'isSecureContext', { value: false })")
        page.goto(f"{server.url}/join/{task}")
        page.get_by_text("on https or on localhost only").wait_for()
        assert page.locator("button.start").count() == 0
    finally:
        context.close()
