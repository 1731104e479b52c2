"""A real browser for tests of the page: the system's Chromium, driven by Playwright, one at a time.

A page that was opened here notes every console error and every request to another host; ``check`` refuses both.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from tests.helpers.service import unmet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")

AXE = (
    Path(__file__).parents[2] / ".tools" / "node_modules" / "axe-core" / "axe.min.js"
)  # make .tools/node_modules fetches it
DESKTOP, PHONE = (1280, 800), (390, 844)
CUT = """() => [...document.querySelectorAll("th")].map((th) => {
  const words = document.createTreeWalker(th, NodeFilter.SHOW_TEXT), cut = [];
  while (words.nextNode()) for (const { index, 0: word } of words.currentNode.data.matchAll(/\\S+/g)) {
    const range = document.createRange();
    range.setStart(words.currentNode, index);
    range.setEnd(words.currentNode, index + word.length);
    if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) cut.push(word);
  }
  return cut;
}).flat()"""  # words of headings of tables that take two lines
ASKED, PAUSE = 3000, 20  # times, and milliseconds between them


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's browser, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        unmet("Chromium is not installed; make system installs it")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unmet("Playwright is not installed; it is in the extra 'test'")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Look:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page, hosts: set[str]) -> None:
        self.page, self.hosts = page, hosts
        self.errors: list[str] = []
        self.strangers: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _request(self, request: Any) -> None:
        where = urlsplit(request.url)
        if where.scheme not in ("data", "blob", "about") and where.netloc not in self.hosts:
            self.strangers.append(request.url)

    def until(self, script: str) -> None:
        """Wait until an expression of the page is true, asked from here.

        Playwright's ``wait_for_function`` asks again inside the page, where the content security policy refuses it:
        it works only if the answer is yes at once.
        """
        for _ in range(ASKED):
            if self.page.evaluate(script):
                return
            self.page.wait_for_timeout(PAUSE)
        raise AssertionError(f"not true after {ASKED * PAUSE / 1000:g} s: {script}")

    def check(self) -> None:
        """Refuse what must never happen: errors in the console, requests to others, words cut in two, a page wider
        than its window.
        """
        assert self.errors == []
        assert self.strangers == []
        assert self.page.evaluate(CUT) == [], "a word of a heading is cut in two"
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"the page is {wide} pixels wider than its window"

    def violations(self) -> list[str]:
        """What axe-core finds at the levels A and AA."""
        if not AXE.exists():
            unmet(f"axe-core is not at {AXE}; make .tools/node_modules fetches it")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        tags = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']"
        found = self.page.evaluate(f"axe.run({{ runOnly: {{ type: 'tag', values: {tags} }} }})")
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


@contextmanager
def looking(
    browser: Browser, url: str, *, size: tuple[int, int] = DESKTOP, scheme: Literal["light", "dark"] = "light",
    second: str = "",
) -> Iterator[Look]:  # fmt: skip
    """Open an address in a fresh profile; at the end everything is checked.

    ``second`` is the server of the other operator, which a device may also ask.
    """
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, accept_downloads=True)
    context.set_default_timeout(60_000)
    try:
        look = Look(context.new_page(), {urlsplit(url).netloc, urlsplit(second).netloc})
        look.page.goto(url)
        yield look
        look.check()
    finally:
        context.close()


def apart(call: Callable[..., T], *args: Any) -> Future[T]:
    """Run something in a thread of its own: Playwright has an event loop in this one."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(call(*args))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return done


def colours_of(look: Look) -> int:
    """How many different colours the map has: a blank canvas has one."""
    return int(
        look.page.evaluate(
            """() => {
              const canvas = document.querySelector(".map canvas");
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )
    )
