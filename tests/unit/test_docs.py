"""The documentation is true where a test can tell: its Python runs, its links and paths exist, its table of layers is
the one that is tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import semilocal
from tests.unit.test_imports import LAYERS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
# Made by tools/reference_pages.py when the site is built, and not kept.
GENERATED = {ROOT / "docs" / "reference" / name for name in ("options.md", "routes.md")}
# Pages outside docs/ are linked by their address in the repository; the package's README has no other links.
REPOSITORY = re.compile(
    r"https://(?:raw\.githubusercontent\.com/semilocal/semilocal|github\.com/semilocal/semilocal/blob)/main/"
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|href=\"([^\"#]+)\"")
PYTHON = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
NEEDS = {  # extras that the Python of a page needs
    "docs/howto/testing.md": ("starlette",),
    "docs/howto/polygons.md": ("shapely", "h3"),
    "docs/howto/frames.md": ("polars", "pandas", "geopandas", "narwhals"),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_of(page: str) -> dict[str, object]:
    """Run all Python blocks of a page, one after another."""
    blocks = PYTHON.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def dead_links(page: Path, text: str) -> list[str]:
    """Links to files that are not there: relative ones, and those into the repository."""
    found = []
    for link in ("".join(match) for match in LINK.findall(text)):
        inside = REPOSITORY.match(link)
        target = ROOT / link[inside.end() :] if inside else page.parent / link
        if (inside or "://" not in link) and not target.exists() and target.resolve() not in GENERATED:
            found.append(link)
    return found


def test_the_python_of_the_readme_prints_a_ledger(capsys: object) -> None:
    spent = str(python_of("README.md")["height"].spent)  # type: ignore[attr-defined]
    assert "between any two places of one's region" in spent
    assert "delta" in spent


@pytest.mark.parametrize(
    "page",
    sorted(name_of(page) for page in PAGES if PYTHON.search(page.read_text("utf-8")) and page.name != "README.md"),
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in NEEDS.get(page, ()):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)  # pages may write files
    assert python_of(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_would_be_seen() -> None:
    planted = "[a](no.md) [b](https://github.com/semilocal/semilocal/blob/main/no.md#x) [c](LICENSE) [d](https://example.org/no)"
    assert dead_links(ROOT / "README.md", planted) == [
        "no.md",
        "https://github.com/semilocal/semilocal/blob/main/no.md",
    ]


def test_the_readme_works_where_a_registry_shows_it() -> None:
    """It is shown without the repository around it."""
    links = ["".join(match) for match in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_reference_has_every_public_name() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: semilocal\.(\w+)$", pages, flags=re.MULTILINE))
    assert set(semilocal.__all__) - shown == {"__version__"}


def in_navigation(tree: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    if isinstance(tree, str):
        yield tree
    else:
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from in_navigation(part)


def test_every_page_is_in_the_navigation_or_in_a_list_of_its_folder() -> None:
    yaml = pytest.importorskip("yaml", reason="the extra 'docs' is not installed")
    named = list(in_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert len(named) == len(set(named))
    pages = {
        page.relative_to(ROOT / "docs").as_posix() for page in {*PAGES, *GENERATED} if ROOT / "docs" in page.parents
    }
    assert set(named) <= pages
    listed = {f"decisions/{link}" for link, _ in LINK.findall((ROOT / "docs/decisions/README.md").read_text("utf-8"))}
    assert pages - set(named) - listed == set()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/howto/testing.md", "docs/howto/extend.md"]
)
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:src|tests|docs|spec|bench|protocol|experiments|hierarchy|simulation|audit)/[\w./-]*)`", text
    )
    homes = (ROOT, ROOT / "src" / "semilocal")
    missing = {path for path in named if not any((home / path).exists() for home in homes)}
    assert missing == set()


def test_the_layers_of_the_architecture_are_those_of_the_test() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| layer, lowest first |")[2].partition("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:]]
    assert rows == LAYERS
