"""The documentation site builds without a dead link, with both builders, and asks no other host for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import HANG
from tests.helpers.browser import DESKTOP, PHONE, looking

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("zensical", reason="the extra 'docs' is not installed")

pytestmark = pytest.mark.slow  # tests that are marked so stay in one process: the site is built once

ROOT = Path(__file__).parents[2]
ZENSICAL = ("zensical", "build", "--strict", "--clean")
# What a browser fetches by itself. Links that a person may click are no requests.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev|alternate))[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import|url\()\s*["']?((?:https?:)?//[^"'\s)]+)"""
)


def strangers(text: str) -> list[str]:
    """Addresses on other hosts that a page or a style sheet fetches."""
    return [next(filter(None, found)) for found in FETCHED.findall(text)]


def build(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=HANG, check=False
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the site is made of, so that a test writes nothing into the repository."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("src", "spec", "tools"):
        (folder / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, ROOT / "tools" / "reference_pages.py", folder / "docs"], check=True, timeout=HANG)
    return folder


@pytest.fixture(scope="module")
def site(sources: Path) -> Path:
    built = build(sources, *ZENSICAL)
    assert built.returncode == 0, built.stdout + built.stderr
    return sources / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_page_is_built_and_the_reference_is_filled(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert [page for page in sorted(pages) if not (site / page).exists()] == []
    jobs = (site / "reference" / "api" / "jobs.html").read_text(encoding="utf-8")
    assert "rows_per_user" in jobs
    assert ":class:" not in jobs  # roles are no Markdown
    assert not re.search(r"default:\W+(?:<[^>]*>\W*)*curator", jobs)  # there is no default of whom to trust
    options = (site / "reference" / "options.html").read_text(encoding="utf-8")
    assert "--rows-are-people" in options
    assert "--enrolment-seconds" in options  # of an action of a command
    assert "canonical bytes" in (site / "reference" / "protocol.html").read_text(encoding="utf-8")


def test_material_for_mkdocs_builds_the_same_sources(sources: Path, tmp_path: Path) -> None:
    pytest.importorskip("material", reason="Material for MkDocs is not installed")
    built = build(sources, "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site"))
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "reference" / "api" / "jobs.html").exists()


def test_a_dead_link_fails(tmp_path: Path) -> None:
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0])
    (tmp_path / "docs").mkdir()
    for name in ("src", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs" / "index.md").write_text("# Home\n\nnothing\n")
    assert build(tmp_path, *ZENSICAL).returncode == 0
    for planted in ("[gone](no-such-page.md)", "[gone](index.md#no-such-heading)"):
        (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{planted}\n")
        assert build(tmp_path, *ZENSICAL).returncode != 0


def test_no_page_or_style_sheet_names_another_host(site: Path) -> None:
    found = {
        f"{path.relative_to(site)}: {address}"
        for path in site.rglob("*")
        if path.suffix in (".html", ".css")
        for address in strangers(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "planted",
    [
        '<script src="https://unpkg.com/mermaid"></script>',
        "<link href='https://fonts.gstatic.com' rel='preconnect'>",
        '<img alt="" src=//example.org/a.png>',
        "@import url(https://fonts.example.org/css);",
    ],
)
def test_a_request_to_another_host_would_be_seen(planted: str) -> None:
    assert len(strangers(planted)) == 1
    assert strangers('<a href="https://github.com/semilocal/semilocal">source</a>') == []


@pytest.mark.parametrize(("page", "size"), [("is-this-for-me.html", PHONE), ("reference/api/jobs.html", DESKTOP)])
def test_a_browser_asks_nobody_else_and_everybody_can_read_it(
    browser: Browser, address: str, page: str, size: tuple[int, int]
) -> None:
    with looking(browser, f"{address}/{page}", size=size) as look:  # errors and strangers are refused at its end
        look.page.wait_for_load_state("networkidle")
        assert look.page.locator("h1").first.is_visible()
        assert look.violations() == []
