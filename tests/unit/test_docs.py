"""The documentation is true where a test can tell: its Python runs, its links and paths exist, its table of layers is
the one that is tested."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import semilocal
from tests.unit.test_imports import LAYERS
from tools.examples import Example, examples, notebook, run, write

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
# Made by tools/reference_pages.py when the site is built, and not kept.
GENERATED = {
    *(ROOT / "docs" / "reference" / name for name in ("options.md", "routes.md")),
    *(page.with_suffix(".ipynb") for page in (ROOT / "docs" / "notebooks").glob("*.md")),
}
# Pages of the site link to files outside docs/ by their address in the repository.
REPOSITORY = re.compile(
    r"https://(?:raw\.githubusercontent\.com/semilocal/semilocal|github\.com/semilocal/semilocal/blob)/main/"
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|href=\"([^\"#]+)\"")
NEEDS = {  # extras that the examples of a page need
    "README.md": ("cyclopts",),
    "docs/howto/testing.md": ("starlette",),
    "docs/howto/polygons.md": ("shapely",),
    "docs/howto/frames.md": ("polars", "pandas", "geopandas", "narwhals"),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dead_links(page: Path, text: str) -> list[str]:
    """Links to files that are not there: relative ones, and those into the repository."""
    found = []
    for link in ("".join(match) for match in LINK.findall(text)):
        inside = REPOSITORY.match(link)
        target = ROOT / link[inside.end() :] if inside else page.parent / link
        if (inside or "://" not in link) and not target.exists() and target.resolve() not in GENERATED:
            found.append(link)
    return found


SLOW = {"docs/notebooks/operator.md"}
RUNNING = [  # what `make docs` has made is made of the program, and has its own test
    page
    for page in PAGES
    if page not in GENERATED and any(example.runs for example in examples(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (name_of(page) in SLOW)) for page in RUNNING],
    ids=map(name_of, RUNNING),
)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for extra in NEEDS.get(name_of(page), ()):
        pytest.importorskip(extra)
    found = examples(page.read_text(encoding="utf-8"))
    for example, printed in zip(found, run(found, tmp_path), strict=True):
        assert example.holds(printed), f"{example.code}\nprints\n{printed}\npython tools/examples.py {page} writes it"


def test_an_output_that_is_not_real_would_be_seen(tmp_path: Path) -> None:
    assert not Example("python", "", "6,926 people\n").holds("6,927 people\n")
    assert Example("sh", "", "task … is open\n").holds("task 4f0c is open\n")
    slow = Example("sh", "echo counting: done in 1.2 s; echo 4 queries\n", "")
    assert run([slow], tmp_path) == ["4 queries\n"]
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    write(page)
    assert page.read_text() == "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n"


def test_the_readme_is_short_and_its_errors_are_those_of_the_notebook() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 100
    notebook = (ROOT / "docs/notebooks/analyst.md").read_text(encoding="utf-8")
    for trust in ("curator", "two-servers", "nobody"):
        (told,) = re.findall(rf"^\| `\"{trust}\"`.*\| (\d+) \|$", readme, flags=re.MULTILINE)
        (measured,) = re.findall(rf"^{trust} +\d+ +(\d+) +\d+$", notebook, flags=re.MULTILINE)
        assert told == measured


def test_a_notebook_has_the_text_the_code_and_the_outputs_of_its_page() -> None:
    page = "# Sum\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\nThe end.\n"
    cells = json.loads(notebook(page))["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == [
        ("markdown", "# Sum"), ("code", "print(1 + 1)"), ("markdown", "The end."),
    ]  # fmt: skip
    assert cells[1]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "2\n"}]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_would_be_seen() -> None:
    planted = "[a](no.md) [b](https://github.com/semilocal/semilocal/blob/main/no.md#x) [c](LICENSE) [d](https://example.org/no)"
    assert dead_links(ROOT / "README.md", planted) == [
        "no.md",
        "https://github.com/semilocal/semilocal/blob/main/no.md",
    ]


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


def test_every_page_is_in_the_navigation() -> None:
    yaml = pytest.importorskip("yaml", reason="the extra 'docs' is not installed")
    named = list(in_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert len(named) == len(set(named))
    markdown = [page for page in {*PAGES, *GENERATED} if ROOT / "docs" in page.parents and page.suffix == ".md"]
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in markdown}
    assert pages == set(named)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/decisions.md",
        "docs/howto/testing.md",
        "docs/howto/extend.md",
    ],
)
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[\w./-]*)`", text)
    homes = (ROOT, ROOT / "src" / "semilocal")
    missing = {path for path in named if not any((home / path).exists() for home in homes)}
    assert missing == set()


def test_the_layers_of_the_architecture_are_those_of_the_test() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| layer, lowest first |")[2].partition("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:]]
    assert rows == LAYERS
