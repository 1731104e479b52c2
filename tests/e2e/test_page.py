"""The page in a real browser, against a real server and real devices."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import geopandas
import httpx2
import numpy as np
import pytest

from semilocal.cli.admin import AdminClient
from semilocal.datasets import california_housing
from semilocal.device.swarm import run_swarm
from semilocal.geometry.box import Box
from semilocal.geometry.places import named_box
from semilocal.hierarchy.tables import from_labels
from semilocal.page.single import write_html
from semilocal.protocol.policy import Policy
from semilocal.protocol.promise import Mark
from semilocal.protocol.task import Task
from semilocal.release import counts
from semilocal.service.campaign import CampaignForm, ReleaseForm
from semilocal.simulation.simulate import simulate
from semilocal.testing import ADMIN_TOKEN, ALLOW_ALL, Server, running_server
from tests.helpers.browser import DESKTOP, PHONE, Look, apart, colours_of, looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
AGENTS = 120
MARKUP = "<img src=x onerror=alert(1)> & <b>bold</b>"
LOOKS = [(size, scheme) for size in (DESKTOP, PHONE) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(f"sqlite:///{tmp_path_factory.mktemp('page') / 'page.db'}") as running:
        yield running


def create(server: Server, name: str, delta: float = 1e-2) -> str:
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(named_box("california"), epsilon=4.0, delta=delta, k=8, window=600, server_key=client.key())
        wanted = (ReleaseForm("mean", "coordinate", (1.0,), 1.0), ReleaseForm("counts"))
        return client.create(CampaignForm(name, task, wanted, "open", AGENTS))


def take_part(server: Server, task: str, agents: int = AGENTS) -> None:
    """Let real agents follow the campaign to its end."""
    points = np.random.default_rng(1).permutation(california_housing()[0])[:agents]
    policy = Policy(max_epsilon=100.0, min_k=1, max_delta=1.0)
    result = asyncio.run(run_swarm(f"{server.url}/tasks/{task}", points, policy=policy, show=False))
    assert not result.failures


@pytest.fixture(scope="module")
def finished(server: Server) -> str:
    task = apart(create, server, MARKUP).result()
    apart(take_part, server, task).result()
    return task


def shows(page: Page, text: str) -> None:
    """The slider comes to say this; the page draws when the browser is ready for it."""
    page.locator(".slider output").filter(has_text=re.compile(rf"^\s*{text}\s*$")).wait_for()


def test_the_operator_watches_a_campaign_of_real_devices_until_its_results(browser: Browser, server: Server) -> None:
    task = apart(create, server, "watched", 2e-2).result()
    with looking(browser, f"{server.url}/#/campaign/{task}") as look:
        page = look.page
        page.locator(".phase.enrolling").wait_for()
        assert "time left" not in page.locator(".status").inner_text()
        rounds: set[int] = set()
        agents = apart(take_part, server, task)
        while page.locator(".phase.finished").count() == 0:
            assert not (agents.done() and agents.exception()), agents.exception()
            rounds.add(int(page.locator(".slider output").inner_text()))
            page.wait_for_timeout(50)
        agents.result()
        page.locator(".results strong").wait_for()
        state = httpx2.get(f"{server.url}/tasks/{task}/state").json()
        last = state["closed"] - 1  # the last round was one of values
        shows(page, str(last))
        assert len(rounds) >= 2, "the map never moved while the campaign ran"
        found = httpx2.get(f"{server.url}/tasks/{task}/results").json()
        assert page.locator(".promise .formula").first.inner_text() == found["privacy"]["sentence"]
        page.locator(".slider input").focus()
        page.keyboard.press("Home")
        shows(page, "0")
        for _ in range(last):
            page.keyboard.press("ArrowRight")
        shows(page, str(last))


def drag(page: Page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Over the map, from one place to another in shares of its size."""
    box = page.locator(".map").bounding_box()
    assert box is not None
    (x0, y0), (x1, y1) = ((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (begin, end))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=4)
    page.mouse.up()


def test_a_dragged_rectangle_is_answered_by_the_server_and_can_be_saved(
    browser: Browser, server: Server, finished: str
) -> None:
    with looking(browser, f"{server.url}/#/campaign/{finished}") as look:
        page = look.page
        page.locator(".phase.finished").wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        drag(page, (0.01, 0.3), (0.05, 0.5))
        assert "outside the domain" in page.locator(".ask .error").inner_text()
        with page.expect_request(is_one_question) as asked:
            drag(page, (0.4, 0.3), (0.55, 0.7))
        page.locator(".answers tbody tr").wait_for()
        question = json.loads(asked.value.post_data or "")
        answer = httpx2.post(f"{server.url}/tasks/{finished}/counts", json=question).json()["counts"][0]
        row = page.locator(".answers tbody tr").inner_text()
        assert f"{answer['value']:,.0f}" in row
        assert f"{answer['interval'][0]:,.0f} to {answer['interval'][1]:,.0f}" in row
        page.locator(".pick select").select_option("san-francisco")
        page.locator(".answers tbody tr:nth-child(2)").wait_for()
        place = {"boxes": [[[-122.6, 37.6], [-122.3, 37.9]]]}
        named = httpx2.post(f"{server.url}/tasks/{finished}/counts", json=place).json()["counts"][0]
        second = page.locator(".answers tbody tr:nth-child(2)").inner_text()
        assert "san-francisco" in second
        assert f"{named['value']:,.0f}" in second
        page.get_by_role("button", name="remove san-francisco").click()
        (west, south), (east, north) = question["boxes"][0]
        assert -124.5 <= west < east <= -114.1
        assert 32.5 <= south < north <= 42.1
        with page.expect_download() as download:
            page.locator(".ask").get_by_role("button", name="CSV").click()
        head, first = (line.split(",") for line in Path(download.value.path()).read_text("utf-8").splitlines())
        saved = dict(zip(head, first, strict=True))
        assert (float(saved["count"]), float(saved["high"])) == (answer["value"], answer["interval"][1])


def test_regions_are_saved_as_geoparquet(browser: Browser, server: Server, finished: str) -> None:
    with looking(browser, f"{server.url}/#/campaign/{finished}") as look:
        with look.page.expect_download() as download:
            look.page.get_by_role("link", name="GeoParquet").click()
        frame = geopandas.read_parquet(download.value.path())
    regions = httpx2.get(f"{server.url}/tasks/{finished}/regions.geojson").json()["features"]
    assert len(frame) == sum(one["properties"]["kind"] == "region" for one in regions)
    assert frame.crs.to_epsg() == 4326 or frame.crs.to_string() == "OGC:CRS84"
    assert frame["crowd"].sum() == AGENTS


def finish(server: Server, axes: int) -> str:
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        box = Box((0.0,) * axes, (1.0,) * axes)
        task = Task.build(box, epsilon=4.0, delta=0.4, k=1, max_rounds=2, server_key=client.key())
        name = client.create(CampaignForm(f"{axes} axes", task, (ReleaseForm("counts"),), "open", 12))
    points = np.random.default_rng(1).random((12, axes))
    result = asyncio.run(run_swarm(f"{server.url}/tasks/{name}", points, policy=ALLOW_ALL, show=False))
    assert not result.failures
    return name


@pytest.mark.parametrize("axes", [1, 3])
def test_one_dimension_is_asked_about_and_three_have_no_form(browser: Browser, server: Server, axes: int) -> None:
    task = apart(finish, server, axes).result()
    with looking(browser, f"{server.url}/#/campaign/{task}") as look:
        page = look.page
        page.locator(".results").wait_for()
        assert page.locator(".ask form").count() == (axes == 1)
        if axes == 1:
            page.get_by_role("button", name="Count").click()
            page.locator(".answers tbody tr").wait_for()
            assert "exactly 12" in page.locator(".answers tbody tr").inner_text()
        else:
            assert f"POST /tasks/{task}/counts" in page.locator(".ask").inner_text()


def finish_labels(server: Server) -> str:
    tree = from_labels("district", [("Berlin", "Mitte"), ("Berlin", "Pankow"), ("Bonn", "Beuel")])
    with AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(hierarchy=tree, epsilon=4.0, delta=0.4, k=2, rule="all", server_key=client.key())
        name = client.create(CampaignForm("districts", task, (ReleaseForm("counts"),), "open", 60))
    points = tree.positions(["Mitte"] * 20 + ["Pankow"] * 20 + ["Beuel"] * 20)
    result = asyncio.run(run_swarm(f"{server.url}/tasks/{name}", points, policy=ALLOW_ALL, show=False))
    assert not result.failures
    return name


def test_a_tree_of_labels_is_asked_by_its_labels(browser: Browser, server: Server) -> None:
    task = apart(finish_labels, server).result()
    with looking(browser, f"{server.url}/#/campaign/{task}") as look:
        page = look.page
        page.locator(".results").wait_for()
        assert page.locator(".ask form").count() == 0  # nobody types numbers for labels
        for place, label in enumerate(("district", "Berlin", "Pankow"), start=1):
            page.locator(".pick select").select_option(label)
            page.locator(".answers tbody tr", has_text=f"{place}. {label}").wait_for()
        assert "exactly 60" in page.locator(".answers tbody tr").first.inner_text()
        assert look.violations() == []


def is_one_question(request: Any) -> bool:
    """Whether a request asks about one area."""
    asked = json.loads(request.post_data or "{}")
    return bool(request.url.endswith("/counts")) and len(asked.get("boxes", ())) == 1


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
@pytest.mark.parametrize("view", ["list", "campaign", "new"])
def test_every_view_is_clean_at_every_size_in_light_and_dark(
    browser: Browser, server: Server, finished: str, view: str, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    path = {"list": "/", "campaign": f"/#/campaign/{finished}", "new": "/#/new"}[view]
    with looking(browser, server.url + path, size=size, scheme=scheme) as look:
        page = look.page
        page.locator({"list": ".campaigns", "campaign": ".phase.finished", "new": "form.token"}[view]).first.wait_for()
        if view == "campaign":
            page.locator(".results strong").wait_for()
            assert colours_of(look) > 3
        if view != "new":
            assert MARKUP in page.locator("main").inner_text()
            assert page.locator("main b, main h1 img, .campaigns img").count() == 0
        assert look.violations() == []


def test_the_page_can_be_used_by_keyboard_alone(browser: Browser, server: Server, finished: str) -> None:
    with looking(browser, f"{server.url}/") as look:
        page = look.page
        page.locator(".campaigns").wait_for()
        press_until(look, "Tab", f'a[href$="{finished}"]')
        page.keyboard.press("Enter")
        page.locator(".title .phase.finished").wait_for()
        press_until(look, "Tab", "canvas")
        page.locator(".cell:not([hidden])").wait_for()
        seen = {page.locator(".cell").inner_text()}
        for key in ["+", "+", "ArrowLeft", "ArrowDown", "ArrowDown", "-", "ArrowRight", "0"]:
            page.keyboard.press(key)
            page.wait_for_timeout(50)
            seen.add(page.locator(".cell").inner_text())
        assert len(seen) > 1, "the keys did not move the map"
        press_until(look, "Tab", 'input[name="name"]')
        page.keyboard.type("typed")
        page.keyboard.press("Enter")
        page.locator(".answers tbody tr").wait_for()
        row = page.locator(".answers tbody tr").inner_text()
        assert "typed" in row
        assert f"exactly {AGENTS}" in row  # the whole domain holds all participants


def press_until(look: Look, key: str, selector: str) -> None:
    for _ in range(60):
        if look.page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            return
        look.page.keyboard.press(key)
    raise AssertionError(f"{selector} cannot be reached with {key}")


def test_administrators_act_with_the_token_and_are_asked_first(browser: Browser, server: Server) -> None:
    with looking(browser, f"{server.url}/#/new") as look:
        page = look.page
        page.locator('input[name="token"]').fill(ADMIN_TOKEN)
        page.keyboard.press("Enter")
        page.locator('input[name="name"]').fill("made in the browser")
        page.locator('input[name="k"]').fill("2.5")
        assert not page.locator('input[name="k"]').evaluate("input => input.checkValidity()")
        page.locator('select[name="trust"]').select_option("two-servers")
        assert page.locator('input[name="resolution"]').input_value() == "", "k is not the narrowest cell"
        page.locator('select[name="trust"]').select_option("nobody")
        assert page.locator('input[name="k"]').input_value() == "2.5", "what was typed is kept"
        page.locator('input[name="k"]').fill("50")
        page.get_by_role("button", name="Draw").click()
        drag(page, (0.3, 0.3), (0.4, 0.5))
        drawn = [float(end) for end in page.locator('input[name="bounds"]').input_value().split(",")]
        assert -180 <= drawn[0] < drawn[2] <= 180
        assert -90 <= drawn[1] < drawn[3] <= 90
        page.locator('input[name="bounds"]').fill("california")
        page.locator('input[name="capacity"]').fill("3")
        page.get_by_text("More", exact=True).click()
        page.locator('input[name="resolution"]').fill("2.5")
        page.get_by_role("button", name="Show the promise").click()
        beside = page.locator('label:has(input[name="capacity"]) .error')
        beside.wait_for()
        assert "capacity must be at least k" in beside.inner_text()
        assert page.locator('input[name="capacity"]').get_attribute("aria-invalid") == "true"
        assert look.violations() == []
        look.errors.clear()  # the browser itself notes that the server refused
        page.locator('input[name="capacity"]').fill("1000")
        page.get_by_role("button", name="Show the promise").click()
        page.locator(".promise").wait_for()
        assert beside.count() == 0
        assert "50 in it except with probability 1e-06" in page.locator(".promise").inner_text()
        asked: list[str] = []
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Create the campaign").click()
        page.locator(".phase.enrolling").wait_for()
        assert page.locator("h1").inner_text() == "made in the browser"
        task = page.url.rsplit("/", 1)[1]
        page.get_by_role("button", name="Start").click()  # whoever does not answer has not agreed
        assert httpx2.get(f"{server.url}/tasks/{task}/state").json()["phase"] == "enrolling"
        page.locator('input[name="count"]').fill("10")
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Make").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        assert len(Path(download.value.path()).read_text("utf-8").split()) == 10
        page.get_by_role("button", name="Cancel the campaign").click()
        page.locator(".phase.cancelled").wait_for()
        assert asked[0] == "Make 10 one-time tokens, shown once?"
        assert httpx2.get(f"{server.url}/tasks/{task}/state").json()["phase"] == "cancelled"
        assert ADMIN_TOKEN not in page.content()
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0


@pytest.mark.parametrize("token", ["sla_wrong_token_wrong_token_wrong", "\u201csla_wrong\u2026\u201d"])
def test_a_wrong_token_is_refused_where_it_was_typed(browser: Browser, server: Server, token: str) -> None:
    with looking(browser, f"{server.url}/#/new") as look:
        page = look.page
        page.locator('input[name="token"]').fill(token)
        page.get_by_role("button", name="Use").click()
        page.locator("form.token .error").wait_for()
        assert page.locator('input[name="token"]').input_value() == token
        look.errors = [error for error in look.errors if "401" not in error]  # the browser logs the refusal
        page.locator('input[name="token"]').fill(ADMIN_TOKEN)
        page.get_by_role("button", name="Use").click()
        page.locator("form.fields").wait_for()


@pytest.mark.parametrize(("path", "asked"), [("", "/tasks"), ("#/campaign/", "/overview")])
def test_a_server_that_is_away_is_asked_again(
    browser: Browser, server: Server, finished: str, path: str, asked: str
) -> None:
    with looking(browser, f"{server.url}/#/new") as look:
        page = look.page
        page.route(re.compile(f"{asked}$"), lambda route: route.abort())
        page.goto(f"{server.url}/{path}{finished if path else ''}")
        page.get_by_text("the server does not answer; trying again").wait_for()
        assert page.get_by_text("Loading").count() == 0
        page.unroute(re.compile(f"{asked}$"))
        page.locator(".phase.finished").first.wait_for()
        assert page.locator(".error").count() == 0
        look.errors.clear()  # the browser itself notes what did not answer


@pytest.mark.parametrize("path", ["no/such/page", f"join/{'0' * 64}", "#/nowhere", f"#/campaign/{'0' * 64}"])
def test_an_unknown_address_shows_a_page_that_leads_home(browser: Browser, server: Server, path: str) -> None:
    with looking(browser, f"{server.url}/{path}") as look:
        look.page.get_by_role("link", name="All campaigns of this server").wait_for()
        assert look.page.locator("h1").count() == 1
        assert look.violations() == []
        look.errors = [error for error in look.errors if "404" not in error]  # the browser logs the refusal
        look.page.get_by_role("link", name="All campaigns of this server").click()
        look.page.get_by_role("heading", name="Campaigns").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_single_file_shows_the_map_and_asks_for_nothing(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    task = Task.build(named_box("california"), epsilon=2.0, delta=1e-3, k=200)
    run = simulate(california_housing()[0], task, rng=np.random.default_rng(1))
    path = tmp_path / "map.html"
    write_html(path, run, counts(run).guarantee, title=MARKUP, numbers={"participants": "20,640"})
    with looking(browser, path.as_uri(), scheme=scheme) as look:
        page = look.page
        page.locator(".map").wait_for()
        assert page.locator("h1").inner_text() == f"{MARKUP}. {Mark(seeded=True).words}"
        assert page.locator(".slider output").inner_text() == str(len(np.unique(run.splits.rounds)))
        assert colours_of(look) > 10
        assert look.violations() == []
    notebook = tmp_path / "cell.html"
    notebook.write_text(f"<!doctype html><html lang=en><title>notebook</title>{run._repr_html_()}", "utf-8")
    with looking(browser, notebook.as_uri(), scheme=scheme) as look:
        look.page.frame_locator("iframe").locator(".map").wait_for()
