"""Write the parts of the site that are made from others; `make docs` does it before it builds.

    python tools/reference_pages.py [DOCS]

They are not kept in the repository, so they are never older than their source: ``reference/options.md`` comes from the
real command line, ``reference/routes.md`` from the service's OpenAPI description, and each page of ``notebooks/``
becomes a Jupyter notebook.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples import notebook

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTE = "This page is made from the program itself.\n"


def help_text(*words: str) -> str:
    """What ``semilocal WORDS --help`` prints into a file."""
    from semilocal.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words, "--help"])
    assert code == 0, words
    return out.getvalue().strip()


def options() -> str:
    """All commands with their help."""
    from semilocal.cli.catalogue import COMMANDS

    parts = [part for name in COMMANDS for part in command(name)]
    return "\n".join(["# Every command and option\n", NOTE, *parts])


def command(*words: str) -> Iterator[str]:
    """One command, and its actions if it has some, as Markdown."""
    yield f"## semilocal {' '.join(words)}\n"
    group, actions = "", []
    examples, _, rest = help_text(*words).partition("\nExit codes:")[0].partition("Usage: ")
    if examples:
        lines = "\n".join(line.strip() for line in examples.splitlines()[1:])
        yield f"```sh\n{lines.strip()}\n```\n"
    for line in f"Usage: {rest}".splitlines():
        if line.startswith("Usage: "):
            yield f"```text\n{line.removeprefix('Usage: ')}\n```\n"
        elif found := re.fullmatch(r"(\S.*):", line):
            group = found[1]
            yield f"\n**{group}**\n"
        elif found := re.fullmatch(r"  (\S.*?)(?:: (.*))?", line):
            actions += [found[1]] if group == "Commands" and found[1][0] != "-" else []
            yield f"- `{found[1]}`" + (f": {escaped(found[2])}" if found[2] else "")
        else:
            yield escaped(line)
    yield ""
    for action in actions:
        yield from command(*words, action)


def escaped(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([*_<\[\]`])", r"\\\1", text)


def routes() -> str:
    """All routes: method, path, what they are for, who may call them, what they answer."""
    from semilocal.service.app import describe
    from semilocal.service.routes import OPERATIONS

    document = describe(OPERATIONS)
    parts = ["# HTTP routes\n", NOTE, "A server describes itself at `GET /openapi.json` (OpenAPI 3.1).\n"]
    for path, methods in sorted(document["paths"].items()):
        parts.append(f"## `{path}`\n")
        parts += [operation(method.upper(), found) for method, found in methods.items()]
    return "\n".join(parts)


def operation(method: str, found: dict[str, Any]) -> str:
    """One method of one path."""
    lines = [f"**{method}** {found['summary']}", ""]
    if who := [name for scheme in found.get("security", ()) for name in scheme]:
        lines += [f"Needs the key of: {', '.join(who)}.", ""]
    if body := found.get("requestBody"):
        lines += [f"Body: `{'`, `'.join(body['content'])}`.", ""]
    if parameters := found.get("parameters"):
        lines += ["| parameter | in | |", "|---|---|---|"]
        lines += [f"| `{each['name']}` | {each['in']} | {each['description']} |" for each in parameters] + [""]
    lines += ["| status | |", "|---|---|"]
    for status, answer in found["responses"].items():
        kinds = ", ".join(f"`{kind}`" for kind in answer.get("content", ()) if "problem" not in kind)
        lines.append(f"| {status} | {answer['description']}{f': {kinds}' if kinds else ''} |")
    return "\n".join([*lines, ""])


def main(docs: Path = DOCS) -> None:
    """Write all of them."""
    for name, text in (("options", options()), ("routes", routes())):
        (docs / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    for page in (docs / "notebooks").glob("*.md"):
        page.with_suffix(".ipynb").write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
