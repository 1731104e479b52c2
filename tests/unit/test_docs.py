"""The documentation is true where a test can tell: its Python runs, its links and paths exist, its table of layers is
the one that is tested. And it is written plainly."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.sources import MODULES, tree
from tests.unit.test_imports import INSIDE, LAYERS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
# Words that send a reader to a dictionary, and what to say instead.
STILTED = {
    r"whoever|whomever": "the person who, those who, anyone who",
    r"mend(s|ed|ing)?": "fix",
    r"becomes? of": "say what happens",
    r"acts? from the nearest": "is moved to",
    r"next door": "beside it",
    r"let go of": "close, release",
}
SOFT = {"made", "said", "told", "fine", "held", "few", "again"}  # names that say nothing


PROSE = [*PAGES, *(ROOT / "spec").glob("*.md"), *MODULES.values()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_of(page: str) -> dict[str, object]:
    """Run all Python blocks of a page, one after another."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def test_the_python_of_the_readme_runs_and_prints_a_ledger(capsys: object) -> None:
    spent = str(python_of("README.md")["height"].spent)  # type: ignore[attr-defined]
    assert "inside a participant's published region" in spent
    assert "delta" in spent


def test_the_python_of_the_page_about_testing_runs() -> None:
    pytest.importorskip("starlette")
    assert python_of("docs/testing.md")["played"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/testing.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:src|tests|docs|spec|bench|protocol|experiments|hierarchy|simulation|audit)/[\w./-]*)`", text
    )
    homes = (ROOT, ROOT / "src" / "semilocal")
    missing = {path for path in named if not any((home / path).exists() for home in homes)}
    assert missing <= {"src/semilocal/baselines/yours.py"}


def test_the_layers_of_the_architecture_are_those_of_the_test() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| layer, lowest first |")[2].partition("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:]]
    assert rows == LAYERS


# -- plain English --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", STILTED)
def test_nobody_needs_a_dictionary(words: str) -> None:
    pattern = re.compile(rf"\b({words})\b", flags=re.IGNORECASE)
    found = [f"{name_of(path)}: {match[0]}" for path in PROSE for match in pattern.finditer(path.read_text("utf-8"))]
    assert found == [], f"say instead: {STILTED[words]}"


def soft_names(module: ast.Module) -> set[str]:
    """Names that a module gives to variables, parameters, functions and classes, and that say nothing."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return {name for name in found if name.lower().strip("_") in SOFT}


def test_names_say_what_they_hold() -> None:
    assert {name: soft for name in INSIDE if (soft := soft_names(tree(name)))} == {}


def test_a_soft_name_would_be_seen() -> None:
    planted = "def f(held): said = self.fine = 1\nclass Made: ..."
    assert soft_names(ast.parse(planted)) == {"held", "said", "fine", "Made"}
