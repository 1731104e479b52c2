"""Write the pages of the reference that are made from the program itself; `make docs` does it before it builds.

    python tools/reference_pages.py [DOCS]

The pages are not kept in the repository, so they are never older than the code: ``reference/options.md`` comes from the
real command line, ``reference/routes.md`` from the service's OpenAPI description.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTE = "This page is made from the program itself.\n"


def help_text(*words: str) -> str:
    """What ``semilocal WORDS --help`` prints."""
    from semilocal.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return out.getvalue().strip()


def options() -> str:
    """All commands with their help."""
    from semilocal.cli.main import COMMANDS

    os.environ["COLUMNS"] = "100"
    parts = [f"## semilocal {name}\n\n```text\n{help_text(name)}\n```\n" for name in COMMANDS]
    return "\n".join(["# Every command and option\n", NOTE, *parts])


def routes() -> str:
    """All routes: method, path, what they are for, who may call them, what they answer."""
    from semilocal.service.openapi import describe
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
    """Write both."""
    for name, text in (("options", options()), ("routes", routes())):
        (docs / "reference" / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
